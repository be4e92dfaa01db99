"""What is wrong, worst first, each in one sentence: the top of the status page, and what scripts ask for.

Rules:
- A problem is something that somebody should look at. However many peers it has, it is one of its kind in a swarm.
- Something that lasts is a problem while it lasts. A fact that can never be undone (a fork, a wrong index, a limit) is
  one for a day after its verdict last changed, as it is for alerts; then it is a note, which does not change the state.
  A clock that was off is a note for that day. Facts about keys that have left the roster are none of these.
- Replicas that diverged are a problem when the newest tick is ten minutes later: until then it may be writes at one
  time, which the next one joins. A replica that contradicts itself is one at once.
- Where nothing is reported, nothing is well: a swarm without a fresh tick is a problem of its own.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple, cast

from dashboards.findings import Found, Lie, versions_ms
from dashboards.replicas import LASTING_MS
from dashboards.web.snapshot import Snapshot, SwarmSnapshot
from dashboards.web.timewords import counted, lasting
from state.verdict import (
    BadIndex,
    BadUpdate,
    ClockSkew,
    Equivocation,
    Fork,
    Limit,
    Missing,
    OneWay,
    Silent,
    Split,
    Undecidable,
)

NAMES_MAX = 8
"""Names listed in a sentence; further ones are counted."""

STALE_MS_MIN = 60_000
"""A tick younger than this is fresh in any swarm: a restart of the pipeline takes as long."""

STALE_SPLITS = 3
"""A tick is also fresh for this many times `split_after`: ticks come five times in it while anybody is active."""

FACT_MS = 86_400_000
"""How long a fact counts as a problem after its verdict last changed: alerts fire as long."""

Fact = Equivocation | Fork | BadIndex | BadUpdate | Limit | ClockSkew


class Severity(IntEnum):
    """How bad it is; the highest is the worst."""

    WELL = 0
    NOTE = 1
    WARNING = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        return self.name.capitalize()


class Kind(NamedTuple):
    """How bad a kind of problem is, and the runbook that says what to do."""

    severity: Severity
    runbook: str


KINDS: dict[str, Kind] = {
    "split": Kind(Severity.CRITICAL, "SplitBrain"),
    "fork": Kind(Severity.CRITICAL, "ForkDetected"),
    "quarantine": Kind(Severity.CRITICAL, "InvariantBroken"),
    "contradicted": Kind(Severity.CRITICAL, "ReplicaDiverged"),
    "exporter": Kind(Severity.WARNING, "ExporterBehind"),
    "no_tick": Kind(Severity.WARNING, "PipelineStalled"),
    "undecidable": Kind(Severity.WARNING, "VerdictsUndecidable"),
    "one_way": Kind(Severity.WARNING, "OneWayLink"),
    "missing": Kind(Severity.WARNING, "MissingSegment"),
    "diverged": Kind(Severity.WARNING, "ReplicaDiverged"),
    "silent": Kind(Severity.WARNING, "PeerSilent"),
    "limit": Kind(Severity.WARNING, "PeerOverLimit"),
    "bad_index": Kind(Severity.WARNING, "BadIndex"),
    "bad_update": Kind(Severity.WARNING, "BadUpdates"),
    "clock_skew": Kind(Severity.NOTE, "ClockSkew"),
}
"""All kinds of problems, the worst first."""

_FACTS: tuple[tuple[str, tuple[type[Fact], ...], str], ...] = (
    ("fork", (Equivocation, Fork), "signed two versions of one log"),
    ("limit", (Limit,), "went over a limit, so what is told of it may be incomplete"),
    ("bad_index", (BadIndex,), "signed an index that does not follow the one before it"),
    ("bad_update", (BadUpdate,), "published updates that cannot be right"),
    ("clock_skew", (ClockSkew,), "had a clock that is far off"),
)
"""Kinds of facts about a peer, and what it did."""


class Problem(NamedTuple):
    """Something that is wrong. An empty swarm means the monitor itself."""

    severity: Severity
    kind: str
    swarm: str
    peers: tuple[str, ...]
    sentence: str
    since_ms: int | None

    @property
    def runbook(self) -> str:
        return KINDS[self.kind].runbook


def find_problems(snapshot: Snapshot) -> list[Problem]:
    """All problems, the worst first."""
    now_ms = snapshot.health.now_ms
    found = [*_monitor(snapshot)]
    for swarm in snapshot.swarms:
        found += [*_episodes(swarm), *_facts(swarm, now_ms), *_missing(swarm)]
        found += [*_replicas(swarm, now_ms), *_staleness(swarm, now_ms)]
    places = {kind: place for place, kind in enumerate(KINDS)}
    return sorted(found, key=lambda problem: (-problem.severity, places[problem.kind]))


def worst(problems: Iterable[Problem]) -> Severity:
    """The state that problems make: with notes alone all is well."""
    severity = max((problem.severity for problem in problems), default=Severity.WELL)
    return severity if severity > Severity.NOTE else Severity.WELL


def summary(problems: list[Problem]) -> str:
    """The overall state in one sentence. Requires the worst first."""
    grave = [problem for problem in problems if problem.severity > Severity.NOTE]
    if not grave:
        return "All is well"
    more = f", and {counted(len(grave) - 1, 'more problem')}" if grave[1:] else ""
    return f"{grave[0].sentence}{more}"


def listed(names: Iterable[str], limit: int = NAMES_MAX) -> str:
    """Names as people list them; beyond the limit they are counted."""
    shown = list(names)
    if len(shown) > limit:
        return f"{', '.join(shown[:limit])} and {len(shown) - limit:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def _monitor(snapshot: Snapshot) -> Iterator[Problem]:
    health, quarantines = snapshot.health, snapshot.quarantines
    if quarantines:
        sentence = f"A bug in the monitor: {counted(len(quarantines), 'key')} of its state cannot be judged any more"
        yield Problem(KINDS["quarantine"].severity, "quarantine", "", (), sentence, None)
    if not health.is_ready:
        sentence = f"What is shown may be incomplete or old: {health.sentence()}"
        yield Problem(KINDS["exporter"].severity, "exporter", "", (), sentence, None)


def _episodes(swarm: SwarmSnapshot) -> Iterator[Problem]:
    if splits := swarm.open_of(Split):
        sentence = f"{_called(swarm)} is split into {counted(swarm.sides, 'side')}"
        yield _problem(swarm, "split", sentence, splits[0].opened_ms)
    one_way = swarm.open_of(OneWay)
    if peers := _names(swarm, (episode.author for episode in one_way)):
        sentence = f"{_called(swarm)}: knowledge flows one way only between {listed(peers)} and the others"
        yield _problem(swarm, "one_way", sentence, one_way[0].opened_ms, peers)
    silent = swarm.open_of(Silent)
    if peers := _names(swarm, (episode.author for episode in silent)):
        sentence = f"{_called(swarm)}: {listed(peers)} {'are' if peers[1:] else 'is'} silent"
        yield _problem(swarm, "silent", sentence, min(episode.since_ms for episode in silent), peers)
    for episode in swarm.open_of(Undecidable)[:1]:
        sentence = f"{_called(swarm)}: whether it is split cannot be told, because its peers sign too rarely"
        yield _problem(swarm, "undecidable", sentence, episode.opened_ms)


def _facts(swarm: SwarmSnapshot, now_ms: int) -> Iterator[Problem]:
    """Of each kind the new ones, and as a note the old ones of other peers."""
    for kind, verdicts, did in _FACTS:
        found = [one for verdict in verdicts for one in swarm.of(verdict) if one.verdict.author in swarm.peers]
        new = [one for one in found if now_ms - one.last_ms < FACT_MS]
        new_authors = {one.verdict.author for one in new}
        old = [one for one in found if one.verdict.author not in new_authors and kind != "clock_skew"]
        for severity, facts in ((KINDS[kind].severity, new), (Severity.NOTE, old)):
            if peers := _names(swarm, (one.verdict.author for one in facts)):
                sentence = f"{_called(swarm)}: {listed(peers)} {'each ' if peers[1:] else ''}{did}"
                since_ms = min(map(_since_ms, facts))
                yield _problem(swarm, kind, sentence, since_ms, peers)._replace(severity=severity)


def _since_ms(fact: Found[Fact]) -> int:
    """When it became so; of two versions when the second one came: the first one contradicts nothing."""
    if isinstance(fact.verdict, Fork | Equivocation):
        return versions_ms(cast("Lie", fact))[1]
    return fact.first_ms


def _missing(swarm: SwarmSnapshot) -> Iterator[Problem]:
    if missing := swarm.of(Missing):
        peers = tuple(sorted({swarm.name(one.verdict.author) for one in missing}))
        what = f"{counted(len(missing), 'segment')} of {listed(peers)}, on which others build,"
        sentence = f"{_called(swarm)}: {what} {'are' if missing[1:] else 'is'} missing"
        yield _problem(swarm, "missing", sentence, min(one.verdict.since_ms for one in missing), peers)


def _replicas(swarm: SwarmSnapshot, now_ms: int) -> Iterator[Problem]:
    standings = swarm.replicas.by_author
    if peers := _names(swarm, (author for author, standing in standings.items() if standing.contradicted)):
        sentence = f"{_called(swarm)}: replicas of {listed(peers)} do not have the events that they say they have"
        yield _problem(swarm, "contradicted", sentence, None, peers)
    until_ms = (swarm.grid.tick_ms if swarm.grid else now_ms) - LASTING_MS
    since_ms = {
        author: standing.diverged_since_ms
        for author, standing in standings.items()
        if standing.diverged_since_ms is not None and standing.diverged_since_ms <= until_ms
    }
    if peers := _names(swarm, since_ms):
        sentence = f"{_called(swarm)}: replicas of {listed(peers)} have diverged from the others"
        yield _problem(swarm, "diverged", sentence, min(since_ms.values()), peers)


def _staleness(swarm: SwarmSnapshot, now_ms: int) -> Iterator[Problem]:
    if swarm.grid is None:
        yield _problem(swarm, "no_tick", f"{_called(swarm)}: nothing has been reported yet", None)
        return
    age_ms = now_ms - swarm.grid.tick_ms
    if age_ms > max(STALE_MS_MIN, STALE_SPLITS * swarm.epoch.split_after_ms):
        why = "because nobody publishes, or because the pipeline stands still"
        sentence = f"{_called(swarm)}: nothing new for {lasting(age_ms)}, {why}"
        yield _problem(swarm, "no_tick", sentence, swarm.grid.tick_ms)


def _problem(
    swarm: SwarmSnapshot, kind: str, sentence: str, since_ms: int | None, peers: tuple[str, ...] = ()
) -> Problem:
    return Problem(KINDS[kind].severity, kind, swarm.swarm.name, peers, sentence, since_ms)


def _names(swarm: SwarmSnapshot, authors: Iterable[str]) -> tuple[str, ...]:
    """The names of those that are in the roster now, in its order."""
    wanted = set(authors)
    return tuple(name for author, name in swarm.peers.items() if author in wanted)


def _called(swarm: SwarmSnapshot) -> str:
    return f"Swarm {swarm.swarm.name}"
