"""The ground truth of a run: what its scenario did, and set arithmetic over the segments that it published.

Nothing here knows how a monitor works: no order, no state, only the set of what stands on the topic.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from producers.simulated_peer import SimulatedPeer
from producers.simulation import (
    BadIndex,
    Equivocation,
    Fork,
    GroundTruth,
    Missing,
    Noop,
    Rejected,
    Simulation,
    Skewed,
    Split,
)
from producers.swarm import Publication, SimulatedSwarm
from state.head import NO_PREVIOUS
from state.limits import CLOCK_SKEW_MS_MAX
from state.segment import Ref, Segment, decode_refs


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


def named(segment: Segment) -> Iterator[Ref]:
    """The noops that a segment's signature says were there before it."""
    if segment.head.previous != NO_PREVIOUS:
        yield Ref(segment.head.author, segment.head.index - 1, segment.head.previous)
    yield from decode_refs(segment.refs)


def _distinct(published: Iterable[Publication]) -> list[Segment]:
    return list({p.segment.id: p.segment for p in published if p.segment is not None}.values())


def _last_missed_ms(swarm: SimulatedSwarm) -> int:
    """When a record last named something that never comes to the topic; the start if none ever did."""
    times = [
        publication.record.time_ms
        for publication in swarm.published
        if publication.segment and any(name.id not in swarm.sent for name in named(publication.segment))
    ]
    return max(times, default=swarm.settings.start_ms)


def _noop(ref: Ref) -> Noop:
    return Noop(ref.author.hex(), ref.index, ref.id.hex())
