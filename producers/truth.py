"""The ground truth of a run: what its scenario did, and set arithmetic over the segments that it published.

Nothing here knows how a monitor works: no order, no state, only the set of what stands on the topic.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from producers.simulated_peer import SimulatedPeer
from producers.simulation import (
    BadIndex,
    BadUpdate,
    Equivocation,
    Fork,
    GroundTruth,
    Missing,
    Noop,
    Rejected,
    Replica,
    Simulation,
    Skewed,
    Split,
)
from producers.swarm import Note, Publication, SimulatedSwarm
from state.head import NO_PREVIOUS
from state.limits import CLOCK_SKEW_MS_MAX
from state.segment import Ref, Segment, decode_refs
from state.update import Malformed, Update, decode_update, event_id

_Notes = Mapping[tuple[bytes, bytes], Note]
_Graph = dict[bytes, tuple[bytes, ...]]
"""The published events of an entity, each with those that it builds on."""


class Told(NamedTuple):
    """An update on the topic: who signed it, its place in the author's log, its op, and the event that it makes."""

    author: bytes
    place: tuple[int, int]
    op: bytes
    update: Update | Malformed
    event: bytes | None


def finish(swarm: SimulatedSwarm, scenario: str, splits: Sequence[Split] = ()) -> Simulation:
    """Play a scenario to its end, a grace beyond the last ref to anything missing, and tell what is true about it."""
    swarm.time.run(swarm.settings.part_ms(1))
    swarm.time.run(_last_missed_ms(swarm) + swarm.settings.grace_ms + 1)
    swarm.curtain()
    segments = _distinct(swarm.published)
    valid = sum(publication.segment is not None for publication in swarm.published)
    truth = GroundTruth(
        scenario=scenario,
        seed=swarm.settings.seed,
        swarm=swarm.swarm.hex(),
        verified=len(segments),
        duplicates=valid - len(segments),
        rejected=[
            Rejected(position, publication.reason)
            for position, publication in enumerate(swarm.published)
            if publication.reason is not None
        ],
        forks=forks(segments),
        equivocations=equivocations(segments),
        missing=missing(segments, {peer.key.public for peer in swarm.peers}),
        bad_index=bad_index(segments),
        skewed=skewed(swarm.peers),
        splits=list(splits),
        replicas=replicas(segments, swarm.notes),
        bad_updates=bad_updates(segments, swarm.notes),
        story=swarm.story,
    )
    return Simulation(swarm.config, [publication.record for publication in swarm.published], truth)


def forks(segments: Iterable[Segment]) -> list[Fork]:
    claims = defaultdict(list)
    for segment in segments:
        claims[segment.head.author.hex(), segment.head.previous.hex()].append(segment.id.hex())
    return [Fork(*claim, sorted(ids)) for claim, ids in sorted(claims.items()) if len(ids) > 1]


def equivocations(segments: Iterable[Segment]) -> list[Equivocation]:
    ids = defaultdict(list)
    for segment in segments:
        ids[segment.head.author.hex(), segment.head.index].append(segment.id.hex())
    found: dict[str, Equivocation] = {}
    for (author, index), rivals in sorted(ids.items()):
        if len(rivals) > 1:
            found.setdefault(author, Equivocation(author, index, sorted(rivals)[:2]))
    return list(found.values())


def missing(segments: Sequence[Segment], roster: set[bytes]) -> list[Missing]:
    published = {segment.id for segment in segments}
    taken = {(segment.head.author, segment.head.index) for segment in segments}
    referrers = defaultdict(set)
    for segment in segments:
        for name in named(segment):
            if name.id not in published and name.author in roster:
                referrers[name].add(_noop(segment.ref))
    return [
        Missing(name.author.hex(), name.index, name.id.hex(), (name.author, name.index) in taken, sorted(who))
        for name, who in sorted(referrers.items())
    ]


def bad_index(segments: Sequence[Segment]) -> list[BadIndex]:
    indexes = {segment.id: segment.head.index for segment in segments}
    found = []
    for segment in segments:
        author, index, previous = segment.head.author, segment.head.index, segment.head.previous
        if indexes.get(previous, index - 1) != index - 1:
            found.append(BadIndex(author.hex(), index, segment.id.hex(), previous.hex(), indexes[previous]))
    return sorted(found, key=lambda bad: (bad.author, bad.index, bad.id))


def skewed(peers: Iterable[SimulatedPeer]) -> list[Skewed]:
    off = [peer for peer in peers if abs(peer.skew_ms) > CLOCK_SKEW_MS_MAX]
    return sorted((Skewed(peer.key.public.hex(), peer.skew_ms) for peer in off), key=lambda one: one.author)


def replicas(segments: Sequence[Segment], notes: _Notes) -> list[Replica]:
    graphs = _graphs(segments)
    newest: dict[tuple[bytes, bytes], Told] = {}
    for told in (told for segment in segments for told in updates(segment)):
        key = told.author, told.update.entity
        if isinstance(told.update, Update) and (key not in newest or told.place > newest[key].place):
            newest[key] = told
    return [
        Replica(author.hex(), entity.hex(), *_standing(told, graphs[entity], notes))
        for (author, entity), told in sorted(newest.items())
    ]


def bad_updates(segments: Iterable[Segment], notes: _Notes) -> list[BadUpdate]:
    """What a version that is told by its clock alone claims can be held against nothing, so it is never bad."""
    found = {
        BadUpdate(told.author.hex(), told.update.entity.hex(), notes[told.author, told.op].wrong)
        for segment in segments
        for told in updates(segment)
        if (told.author, told.op) in notes and (isinstance(told.update, Malformed) or told.update.names_version)
    }
    return sorted(bad for bad in found if bad.why)


def updates(segment: Segment) -> Iterator[Told]:
    for position, op in enumerate(segment.ops):
        update = decode_update(op)
        if update is not None:
            event = None
            if isinstance(update, Update) and update.change is not None:
                event = event_id(segment.head.swarm, segment.head.author, update)
            yield Told(segment.head.author, (segment.head.index, position), op, update, event)


def past(ids: Iterable[bytes], graph: _Graph) -> set[bytes]:
    """These events and all that they build on, published or not."""
    reached: set[bytes] = set()
    stack = list(ids)
    while stack:
        at = stack.pop()
        if at not in reached:
            reached.add(at)
            stack.extend(graph.get(at, ()))
    return reached


def named(segment: Segment) -> Iterator[Ref]:
    """The noops that a segment's signature says were there before it."""
    if segment.head.previous != NO_PREVIOUS:
        yield Ref(segment.head.author, segment.head.index - 1, segment.head.previous)
    yield from decode_refs(segment.refs)


def _distinct(published: Iterable[Publication]) -> list[Segment]:
    return list({p.segment.id: p.segment for p in published if p.segment is not None}.values())


def _standing(told: Told, graph: _Graph, notes: _Notes) -> tuple[str, str, int | None]:
    """How the version that an update speaks of stands to all the published events whose past is published too."""
    assert isinstance(told.update, Update)
    everything = {event for event in graph if past([event], graph) <= graph.keys()}
    version = past(told.update.parents if told.event is None else [told.event], graph)
    note = notes.get((told.author, told.op), Note(frozenset(version)))
    if told.update.names_version and version <= everything:
        if note.wrong == "digest":
            return "diverged", "digest", None
        tips = everything - {parent for event in everything for parent in graph[event]}
        lacks = len(everything - version)
        return ("diverged", "branch", lacks) if lacks and version & tips else _by_size(lacks)
    if note.events == everything:
        return ("diverged", "digest", None) if note.wrong == "digest" else ("in_step", "", None)
    if note.events < everything:
        return "behind", "", None
    return ("ahead", "", None) if note.events > everything else ("diverged", "clock", None)


def _by_size(lacks: int) -> tuple[str, str, int]:
    return ("behind" if lacks else "in_step"), "", lacks


def _graphs(segments: Iterable[Segment]) -> dict[bytes, _Graph]:
    """The published events of each entity that an update speaks of."""
    graphs: dict[bytes, _Graph] = defaultdict(dict)
    for segment in segments:
        for told in updates(segment):
            if isinstance(told.update, Update):
                graph = graphs[told.update.entity]
                if told.event is not None:
                    graph[told.event] = told.update.parents
    return graphs


def _last_missed_ms(swarm: SimulatedSwarm) -> int:
    """When a record last named a noop that never comes to the topic; the start if none ever did."""
    times = [
        publication.record.time_ms
        for publication in swarm.published
        if publication.segment and any(name.id not in swarm.sent for name in named(publication.segment))
    ]
    return max(times, default=swarm.settings.start_ms)


def _noop(ref: Ref) -> Noop:
    return Noop(ref.author.hex(), ref.index, ref.id.hex())
