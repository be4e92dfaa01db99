"""What the status page says, for scripts: `/status.json`.

    {
      "state": "well" | "warning" | "critical",
      "sentence": "…",                        the headline of the page
      "time_ms": 1767225600000,               when it was asked; times are milliseconds since 1970
      "exporter": {"ready": true, "sentence": "…", "last_verdict_ms": …, "unread_records": 0, "skipped_records": 0},
      "problems": [                           worst first; severity is critical, warning or note
        {"severity": "critical", "kind": "split", "swarm": "orders", "peers": [], "sentence": "…",
         "since_ms": … | null, "runbook": "/runbooks/SplitBrain"}
      ],
      "swarms": [
        {"name": "orders", "id": "…", "peers": 8, "active": 7 | null, "silent": ["bob"], "sides": 1,
         "tick_ms": … | null,
         "rules": [{"rule": "majority", "k": 5, "tolerates": 1,
                    "known": 400, "known_p50_s": 1.0, "known_p99_s": 2.0,
                    "accepted": 390, "accepted_p50_s": 1.0, "accepted_p99_s": null}],
         "forked": [{"peer": "carol", "index": 10 | null, "evidence": "/evidence/orders/carol"}],
         "replicas": {"entities": 7, "in_step": 50, "behind": 3, "ahead": 1, "diverged": 2, "contradicted": 1,
                      "worst": [{"peer": "dave", "entity": "6d656e75", "state": "diverged", "why": "branch",
                                 "events": 12, "lacks": 3, "extra": 0, "segment": "…", "index": 40, "position": 0,
                                 "since_ms": …, "sentence": "…"}]}}
      ]
    }

The kinds of problems are those of dashboards/web/problems.py. Percentiles are upper bounds, in seconds; null if there
is nothing, or if it is beyond the last bound. Of the replicas that are not in step the worst 20 are told; names of
entities are bytes, as hex digits.
"""

from typing import Any

import msgspec

from dashboards.replicas import STATES
from dashboards.spread import Tally
from dashboards.web.acceptancetable import within_s
from dashboards.web.evidencefile import evidence_path
from dashboards.web.forksection import forked_peers
from dashboards.web.problems import Problem, find_problems, summary, worst
from dashboards.web.snapshot import Snapshot, SwarmSnapshot
from state.config import Config, Rule
from state.verdict import Replica
from state.words import describe


def status_json(snapshot: Snapshot) -> bytes:
    """The document, with a line end."""
    problems, health = find_problems(snapshot), snapshot.health
    document = {
        "state": worst(problems).name.lower(),
        "sentence": summary(problems),
        "time_ms": health.now_ms,
        "exporter": {
            "ready": health.is_ready,
            "sentence": health.sentence(),
            "last_verdict_ms": health.last_verdict_ms,
            "unread_records": sum(health.lag_records.values()),
            "skipped_records": sum(snapshot.unreadable.values()) + sum(snapshot.foreign.values()),
        },
        "problems": list(map(_problem, problems)),
        "swarms": [_swarm(swarm, snapshot.config) for swarm in snapshot.swarms],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _problem(problem: Problem) -> dict[str, Any]:
    runbook = f"/runbooks/{problem.runbook}"
    return problem._asdict() | {"severity": problem.severity.name.lower(), "runbook": runbook}


def _swarm(swarm: SwarmSnapshot, config: Config) -> dict[str, Any]:
    return {
        "name": swarm.swarm.name,
        "id": swarm.swarm.id,
        "peers": len(swarm.peers),
        "active": len(swarm.active) if swarm.grid else None,
        "silent": swarm.silent,
        "sides": swarm.sides,
        "tick_ms": swarm.grid.tick_ms if swarm.grid else None,
        "rules": [_rule(swarm, rule) for rule in swarm.epoch.thresholds],
        "forked": [
            {"peer": peer.name, "index": peer.first_index, "evidence": evidence_path(swarm.swarm, peer.author)}
            for peer in forked_peers(swarm)
        ],
        "replicas": _replicas(swarm, config),
    }


def _replicas(swarm: SwarmSnapshot, config: Config) -> dict[str, Any]:
    standings = swarm.replicas
    return {
        "entities": standings.entities,
        **{state: standings.count(state) for state in STATES},
        "contradicted": sum(standing.contradicted for standing in standings.by_author.values()),
        "worst": [{"peer": swarm.name(one.author)} | _replica(one, config) for one in standings.worst],
    }


def _replica(replica: Replica, config: Config) -> dict[str, Any]:
    told = ("entity", "state", "why", "events", "lacks", "extra", "segment", "index", "position", "since_ms")
    return {name: getattr(replica, name) for name in told} | {"sentence": describe(replica, config)}


def _rule(swarm: SwarmSnapshot, rule: Rule) -> dict[str, Any]:
    counts = {"rule": rule.name, "k": rule.k, "tolerates": rule.tolerates}
    return counts | _spread("known", swarm.known.get(rule.name)) | _spread("accepted", swarm.accepted.get(rule.name))


def _spread(word: str, tally: Tally | None) -> dict[str, Any]:
    bounds_s = {f"{word}_p{percent}_s": within_s(tally, percent) if tally else None for percent in (50, 99)}
    return {word: tally.segments if tally else 0} | bounds_s
