"""One swarm on the status page: its peers, its rules and how fast they are met, the matrix, and what was found."""

from collections.abc import Iterable
from typing import NamedTuple

from dashboards.web.acceptancetable import acceptance_table
from dashboards.web.episodetables import ended_episodes, open_episodes
from dashboards.web.forksection import fork_section, forked_peers
from dashboards.web.frame import fact, finding_title
from dashboards.web.markup import Html, element
from dashboards.web.matrixtable import matrix
from dashboards.web.problems import KINDS, Problem, Severity, listed, worst
from dashboards.web.replicasection import replica_section
from dashboards.web.snapshot import Snapshot, SwarmSnapshot
from dashboards.web.tables import ROWS_MAX, table
from dashboards.web.timewords import ago, counted, moment
from state.config import Config
from state.verdict import BadIndex, BadUpdate, ClockSkew, Limit, Missing, Split
from state.words import describe


class _Fault(NamedTuple):
    """A kind of finding that is told in one sentence each."""

    kind: str
    verdict: type[Missing | BadIndex | BadUpdate | ClockSkew | Limit]
    title: str
    about: str


_FAULTS = (
    _Fault("missing", Missing, "Missing segments", "Segments that others build on and nobody has published."),
    _Fault("bad_index", BadIndex, "Wrong indexes", "Segments whose index does not follow that of the one before."),
    _Fault("bad_update", BadUpdate, "Bad updates", "Updates of entities that cannot be right."),
    _Fault("clock_skew", ClockSkew, "Clocks", "Clocks that were far from record time. Nothing is judged by them."),
    _Fault("limit", Limit, "Limits", "Peers that went over a limit; what depends on them may be incomplete."),
)


def swarm_section(snapshot: Snapshot, swarm: SwarmSnapshot, problems: Iterable[Problem]) -> Html:
    """The whole section. `problems` are those of this swarm."""
    name, now_ms = swarm.swarm.name, snapshot.health.now_ms
    title = ("Swarm ", element("span", name, class_="name"), " ", badge(worst(problems)))
    return element(
        "section",
        element("h2", *title, id=f"swarm-{name}-title"),
        _facts(swarm, now_ms),
        _part("Acceptance", acceptance_table(swarm, now_ms)),
        _part("Matrix", _matrix(swarm)),
        fork_section(swarm),
        (_fault(swarm, snapshot.config, fault) for fault in _FAULTS),
        replica_section(swarm, snapshot.config),
        _part("Open episodes", open_episodes(swarm, snapshot.config, now_ms)),
        _part("Ended episodes", ended_episodes(swarm, snapshot.config)),
        _nothing_found(swarm),
        id=f"swarm-{name}",
        class_="card",
        aria_labelledby=f"swarm-{name}-title",
    )


def badge(severity: Severity) -> Html:
    """A severity as a word with a colour."""
    return element("span", severity.word, class_=f"badge {severity.name.lower()}")


def _part(title: str, content: Html | None) -> Html | None:
    return element("section", element("h3", title), content) if content else None


def _facts(swarm: SwarmSnapshot, now_ms: int) -> Html:
    members, grid = len(swarm.peers), swarm.grid
    is_split = f"into {counted(swarm.sides, 'side')}" if swarm.open_of(Split) else "no" if grid else "not known yet"
    return element(
        "dl",
        fact("Peers", f"{len(swarm.active):,} of {members:,} active" if grid else f"{members:,} in the roster"),
        fact("Silent", listed(swarm.silent) or "nobody"),
        fact("Split", is_split),
        fact("Forked", listed(peer.name for peer in forked_peers(swarm)) or "nobody"),
        fact("Newest tick", ago(grid.tick_ms, now_ms) if grid else "none yet"),
        class_="facts",
    )


def _matrix(swarm: SwarmSnapshot) -> Html:
    if swarm.grid is None:
        return element("p", "No tick has been reported yet: the pipeline has just started, or no peer publishes.")
    return matrix(swarm, swarm.grid)


def _fault(swarm: SwarmSnapshot, config: Config, fault: _Fault) -> Html | None:
    found = swarm.of(fault.verdict)
    if not found:
        return None
    rows = [
        (swarm.name(one.verdict.author), describe(one.verdict, config), moment(one.first_ms))
        for one in found[:ROWS_MAX]
    ]
    label = f"{fault.title} of swarm {swarm.swarm.name}"
    return element(
        "section",
        finding_title(fault.title, KINDS[fault.kind].runbook),
        table(label, fault.about, ("Peer", "What was found", "Verdict of"), rows, count=len(found)),
    )


def _nothing_found(swarm: SwarmSnapshot) -> Html | None:
    found = {"forks": forked_peers(swarm), **{fault.title.lower(): swarm.of(fault.verdict) for fault in _FAULTS}}
    none = [title for title, verdicts in (found | {"open episodes": swarm.open}).items() if not verdicts]
    return element("p", f"Nothing found of: {', '.join(none)}.", class_="more") if none else None
