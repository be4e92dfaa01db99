"""The truth about a simulated run by plain search over what was published, and what is wrong with verdicts about it.

Nothing here knows of vectors, columns, blocks or batches. What is wrong is told in words; nothing if all is right.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from producers import simulation as truths
from producers.simulation import Simulation
from state.config import Epoch, Swarm
from state.segment import Segment
from state.verdict import (
    Accepted,
    AnyVerdict,
    BadUpdate,
    Belief,
    Known,
    OneWay,
    Replica,
    Silent,
    Split,
    Undecidable,
    decode_verdict,
    key_of,
)
from tests.simlab import Topic

HONEST = ("honest", "partition-and-heal", "pause", "gone-for-good", "rare-noops", "epochs", "seed-example")
"""Scenarios in which nobody lies or invents: what is known is accepted at the same moment."""

DEAF = {
    "silent-listener": "hears both sides, and nobody hears it",
    "ref-to-nothing": "builds on noops that never were, so nobody holds what it signs",
}
"""Scenarios with a peer, the last one, that hears and is not heard."""


class Found:
    """The compacted verdicts about a run."""

    def __init__(self, simulation: Simulation, verdicts: dict[bytes, bytes]) -> None:
        self.simulation = simulation
        self.truth = simulation.truth
        self.swarm: Swarm = simulation.config.swarms[0]
        self.decoded = [decode_verdict(value) for _, value in sorted(verdicts.items())]
        self.end_ms = max(record.time_ms for record in simulation.records)

    def of(self, kind: type[AnyVerdict]) -> list[Any]:
        return [verdict for verdict in self.decoded if type(verdict) is kind]

    @property
    def last_peer(self) -> str:
        (key,) = [key for key, name in self.swarm.authors.items() if name == f"peer-{len(self.swarm.authors)}"]
        return key.hex()

    def problems(self) -> list[str]:
        """All that is wrong with what the matrix and the splits say; logs have their own truth."""
        search = Search(self.simulation)
        return [
            *known_problems(self, search),
            *accepted_problems(self),
            *belief_problems(self, search),
            *split_problems(self),
            *silent_problems(self, search.topic),
            *one_way_problems(self, search),
            *undecidable_problems(self),
            *replica_problems(self),
        ]


class Search:
    """Who covers what: a noop reaches those that name it, and those that name these."""

    def __init__(self, simulation: Simulation) -> None:
        self.topic = Topic(simulation)
        self._namers: dict[bytes, list[Segment]] = {}
        for segment in self.topic.segments.values():
            for name in self.topic.names(segment.id):
                held = self.topic.segments.get(name.id)
                if held is not None and held.ref == name:
                    self._namers.setdefault(name.id, []).append(segment)

    def covered_since(self, noop_id: bytes) -> dict[bytes, int]:
        """The authors that have signed a noop that covers this one, each with the time of the first."""
        since: dict[bytes, int] = {}
        reached, stack = {noop_id}, [self.topic.segments[noop_id]]
        while stack:
            segment = stack.pop()
            author, time_ms = segment.head.author, self.topic.times_ms[segment.id]
            since[author] = min(since.get(author, time_ms), time_ms)
            new = [namer for namer in self._namers.get(segment.id, ()) if namer.id not in reached]
            reached.update(namer.id for namer in new)
            stack += new
        return since


# Known, accepted, belief


def known_times(simulation: Simulation, search: Search) -> dict[str, int]:
    """When each noop was known by each rule, by the key of the verdict that must say so."""
    found: dict[str, int] = {}
    (swarm,) = simulation.config.swarms
    for noop_id, segment in search.topic.segments.items():
        epoch = swarm.epoch_at(search.topic.times_ms[noop_id])
        author = segment.head.author
        if epoch is None or author not in epoch.members:
            continue
        since = search.covered_since(noop_id)
        others = sorted(since[key] for key in since.keys() & set(epoch.members) - {author})
        for rule in epoch.thresholds:
            if len(others) >= rule.k - 1:
                chosen = [since[author], *others[: rule.k - 1]]
                found[key_of(Known, noop_id.hex(), rule.name, epoch.start_ms)] = max(chosen)
    return found


def known_problems(found: Found, search: Search) -> Iterator[str]:
    want = known_times(found.simulation, search)
    got = {verdict.key: verdict.known_ms for verdict in found.of(Known)}
    yield from _differences("known", want, got)
    for verdict in [*found.of(Known), *found.of(Accepted)]:
        if int(verdict.observers, 16).bit_count() != verdict.k:
            yield f"{verdict.key} has {verdict.observers} for {verdict.k} observers"


def accepted_problems(found: Found) -> Iterator[str]:
    """Nothing is accepted that is not known; among honest peers, what is known is accepted."""
    known = {verdict.key.removeprefix("known/"): verdict.known_ms for verdict in found.of(Known)}
    accepted = {verdict.key.removeprefix("accepted/"): verdict.accepted_ms for verdict in found.of(Accepted)}
    if found.truth.scenario in HONEST:
        yield from _differences("accepted", known, accepted)
    for key, time_ms in accepted.items():
        if time_ms < known.get(key, time_ms + 1):
            yield f"accepted {key} at {time_ms}, known at {known.get(key)}"


def belief_problems(found: Found, search: Search) -> Iterator[str]:
    """A branch that leaps to another index has no past that anyone could hold, so nobody can believe it."""
    leaps = {bad.id for bad in found.truth.bad_index}
    forks = [[branch for branch in fork.branches if branch not in leaps] for fork in found.truth.forks]
    want = {
        branch: {author.hex(): since for author, since in search.covered_since(bytes.fromhex(branch)).items()}
        for branches in forks
        for branch in branches
        if len(branches) > 1
    }
    got = {
        verdict.branch: {believer.author: believer.since_ms for believer in verdict.believers}
        for verdict in found.of(Belief)
    }
    yield from _differences("belief", want, got)


# Splits


def split_problems(found: Found) -> Iterator[str]:
    splits, truth = found.of(Split), found.truth.splits
    if len(splits) != len(truth):
        yield f"splits: want {len(truth)}, got {[found_at(found, split.opened_ms) for split in splits]}"
        return
    for got, want in zip(splits, truth, strict=True):
        yield from (
            f"split of {found_at(found, got.opened_ms)}: {problem}" for problem in _split_problems(found, got, want)
        )


def _split_problems(found: Found, got: Split, want: truths.Split) -> Iterator[str]:
    epoch = found.swarm.epochs[0]
    opened_max_ms = want.since_ms + epoch.split_after_ms + 4 * epoch.tick_ms
    if not want.since_ms <= got.opened_ms <= opened_max_ms:
        yield f"want it opened from {want.since_ms} to {opened_max_ms}, got {got.opened_ms}"
    if abs(got.last_contact_ms - want.since_ms) > 2 * epoch.tick_ms:
        yield f"want last contact at about {want.since_ms}, got {got.last_contact_ms}"
    # A liar who withholds a story has not forked as far as anyone can see, so it stands on the side that it tells.
    sides = {frozenset(side) for side in want.sides}
    got_sides, got_opening = (
        [frozenset(side) - set(want.suspects) for side in some] for some in (got.sides, got.sides_opening)
    )
    if set(got_sides) != sides:
        yield f"want the sides {want.sides}, got {got.sides}"
    # What peers have of each other by way of a withheld noop shows a little later: a side may come in pieces at first.
    if not all(any(piece <= side for side in sides) for piece in got_opening):
        yield f"want the sides {want.sides}, got at first {got.sides_opening}"
    yield from _end_problems(found, got, want, epoch)
    yield from _suspect_problems(found, got, want)


def _end_problems(found: Found, got: Split, want: truths.Split, epoch: Epoch) -> Iterator[str]:
    """It takes a noop or two until all have heard, and two ticks to tell: near the end of the run it may not show."""
    slack_ms = 4 * epoch.tick_ms
    if got.ended_ms is None:
        if want.until_ms is not None and want.until_ms + slack_ms < found.end_ms:
            yield f"want it ended at about {want.until_ms}, got no end"
    elif want.until_ms is None or not want.until_ms <= got.ended_ms <= want.until_ms + slack_ms:
        yield f"want it ended at about {want.until_ms}, got {got.ended_ms}"


def _suspect_problems(found: Found, got: Split, want: truths.Split) -> Iterator[str]:
    """Every liar is suspected, and only a liar of a lie; besides, whoever is silent or not heard may be a lost link."""
    whys: dict[str, set[str]] = {}
    for suspect in got.suspects:
        whys.setdefault(suspect.author, set()).add(suspect.why)
    liars = {author for author, why in whys.items() if why & {"forked", "withheld"}}
    if liars != set(want.suspects):
        yield f"want the liars {want.suspects}, got {got.suspects}"
    silent = {verdict.author for verdict in found.of(Silent)}
    one_way = {verdict.author for verdict in found.of(OneWay)}
    for author in whys.keys() - liars - silent - one_way:
        yield f"{author} is suspected and nothing else is said of it"


class Silence(NamedTuple):
    author: str
    since_ms: int
    opened_ms: int
    ended_ms: int | None


def silences(simulation: Simulation, topic: Topic) -> Iterator[Silence]:
    """Who was silent at two ticks in a row and more, from the record times alone."""
    (swarm,) = simulation.config.swarms
    noops = sorted((time_ms, topic.segments[at].head.author) for at, time_ms in topic.times_ms.items())
    ticks = list(_ticks(swarm, [time_ms for time_ms, _ in noops], max(r.time_ms for r in simulation.records)))
    for author in sorted(swarm.authors):
        own = [time_ms for time_ms, who in noops if who == author]
        silent = [_silent_since(swarm, tick_ms, own, noops[0][0], author) for tick_ms in ticks]
        spell: Silence | None = None
        for tick_ms, (now, then) in zip(ticks, pairwise(silent), strict=False):
            if spell is None and now is not None and then is not None:
                spell = Silence(author.hex(), now, tick_ms, None)
            elif spell is not None and now is None and then is None:
                yield spell._replace(ended_ms=tick_ms)
                spell = None
        if spell is not None:
            yield spell


def _ticks(swarm: Swarm, times_ms: list[int], end_ms: int) -> Iterator[int]:
    """The ticks before the end at which anybody was active."""
    epoch = swarm.epochs[0]
    assert len({(one.tick_ms, one.start_ms % one.tick_ms) for one in swarm.epochs}) == 1
    for tick_ms in range(-(-times_ms[0] // epoch.tick_ms) * epoch.tick_ms, end_ms, epoch.tick_ms):
        if any(tick_ms - epoch.split_after_ms < time_ms <= tick_ms for time_ms in times_ms):
            yield tick_ms


def _silent_since(swarm: Swarm, tick_ms: int, own: list[int], first_ms: int, author: bytes) -> int | None:
    """The time of the newest noop of a peer that is silent at a tick; None if it is active, or no member then."""
    epoch = swarm.epoch_at(tick_ms)
    if epoch is None or author not in epoch.members:
        return None
    began_ms = max(first_ms, epoch.start_ms)
    newest_ms = max((time_ms for time_ms in own if time_ms <= tick_ms), default=began_ms)
    return newest_ms if newest_ms <= tick_ms - epoch.split_after_ms else None


def silent_problems(found: Found, topic: Topic) -> Iterator[str]:
    want = {(one.author, one.opened_ms): one for one in silences(found.simulation, topic)}
    got = {
        (one.author, one.opened_ms): Silence(one.author, one.since_ms, one.opened_ms, one.ended_ms)
        for one in found.of(Silent)
    }
    yield from _differences("silent", want, got)


def one_way_problems(found: Found, search: Search) -> Iterator[str]:
    deaf = [found.last_peer] if found.truth.scenario in DEAF else []
    one_way = found.of(OneWay)
    if [verdict.author for verdict in one_way] != deaf:
        yield f"one way: want {deaf}, got {[(v.author, v.direction, found_at(found, v.opened_ms)) for v in one_way]}"
        return
    for verdict in one_way:
        epoch = found.swarm.epochs[0]
        since_ms = verdict.opened_ms - epoch.split_after_ms - epoch.tick_ms
        own = search.topic.published([verdict.author], since_ms, found.end_ms + 1)
        heard_by = {author.hex() for at in own for author in search.covered_since(at)} - {verdict.author}
        if heard_by or not own:
            yield f"one way: {verdict.author} is heard by {heard_by}"
        if (verdict.direction, verdict.ended_ms) != ("hears", None):
            yield f"one way: want one that hears to the end, got {verdict.direction} to {verdict.ended_ms}"


def undecidable_problems(found: Found) -> Iterator[str]:
    got = found.of(Undecidable)
    if found.truth.scenario != "rare-noops":
        yield from (f"undecidable from {found_at(found, verdict.opened_ms)}" for verdict in got)
        return
    epoch = found.swarm.epochs[0]
    if [verdict.ended_ms for verdict in got] != [None]:
        yield f"undecidable: want one that lasts, got {got}"
    for verdict in got:
        first_ms = min(record.time_ms for record in found.simulation.records)
        if verdict.opened_ms > first_ms + 2 * epoch.split_after_ms:
            yield f"undecidable: want it from about {first_ms}, got {verdict.opened_ms}"
        if not (3 * verdict.interval_ms > verdict.split_after_ms == epoch.split_after_ms):
            yield f"undecidable: {verdict.interval_ms} ms are no third of {verdict.split_after_ms} ms"


def replica_problems(found: Found) -> Iterator[str]:
    """How many events one lacks is compared where it named its version: a clock tells about how many."""
    want = {(one.author, one.entity): (one.state, one.why) for one in found.truth.replicas}
    got = {(one.author, one.entity): (one.state, one.why) for one in found.of(Replica)}
    yield from _differences("replica", want, got)
    lacks = {(one.author, one.entity): one.lacks for one in found.truth.replicas if one.lacks is not None}
    told = {(one.author, one.entity): one.lacks for one in found.of(Replica) if (one.author, one.entity) in lacks}
    yield from _differences("lacks", lacks, told)
    bad = {(one.author, one.entity, one.why): True for one in found.truth.bad_updates}
    yield from _differences("bad update", bad, {(v.author, v.entity, v.why): True for v in found.of(BadUpdate)})


def found_at(found: Found, time_ms: int) -> str:
    """A time of a run for people: seconds from its first record."""
    return f"{(time_ms - min(record.time_ms for record in found.simulation.records)) / 1000:.1f} s"


def _differences(what: str, want: dict[Any, Any], got: dict[Any, Any]) -> Iterator[str]:
    wrong: Iterable[Any] = (key for key in sorted(want.keys() | got.keys()) if want.get(key) != got.get(key))
    for key in wrong:
        yield f"{what} {key}: want {want.get(key)}, got {got.get(key)}"
