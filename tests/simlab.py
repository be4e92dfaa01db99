"""Simulations for tests: runs that are kept, and what stands on their topics, found by plain search."""

import dataclasses
from collections.abc import Iterable
from functools import cache

from producers.link import Quality
from producers.scenarios import SCENARIOS
from producers.simulation import GroundTruth, Simulation
from producers.swarm import Settings
from producers.truth import named
from state.segment import Ref, Segment, judge

SMALL = Settings(peers=3, duration_ms=20_000)
SHAPES = [
    Settings(),
    SMALL,
    Settings(seed=7, peers=13, duration_ms=20_000, interval_ms=700, ops=1),
    Settings(seed=8, peers=6, duration_ms=40_000, quality=Quality(loss=0.3)),
]


def shapes(name: str) -> list[Settings]:
    """The shapes that have enough peers for a scenario."""
    return [settings for settings in SHAPES if settings.peers >= SCENARIOS[name].peers_min]


@cache
def simulated(name: str, settings: Settings = SHAPES[0]) -> Simulation:
    return SCENARIOS[name].run(settings)


@dataclasses.dataclass
class Topic:
    """The valid segments of a simulation, with the record time of the earliest copy, and their pasts by search."""

    simulation: Simulation

    def __post_init__(self) -> None:
        self.segments: dict[bytes, Segment] = {}
        self.times_ms: dict[bytes, int] = {}
        self.last: dict[bytes, Segment] = {}
        for record in self.simulation.records:
            segment = judge(record.value, self.simulation.config.authors)
            if isinstance(segment, Segment) and segment.id not in self.segments:
                self.segments[segment.id] = segment
                self.times_ms[segment.id] = record.time_ms
                self.last[segment.head.author] = segment

    def past(self, segment_id: bytes) -> set[bytes]:
        """The ids that a noop covers, itself included, published or not."""
        covered, stack = set(), [segment_id]
        while stack:
            at = stack.pop()
            if at not in covered:
                covered.add(at)
                stack.extend(name.id for name in self.names(at))
        return covered

    def names(self, segment_id: bytes) -> list[Ref]:
        return list(named(self.segments[segment_id])) if segment_id in self.segments else []

    def last_of(self, author: str) -> set[bytes]:
        """What the last noop of an author covers."""
        return self.past(self.last[bytes.fromhex(author)].id)

    def published(self, authors: Iterable[str], since_ms: int, until_ms: int) -> set[bytes]:
        """The noops of some authors with since_ms < record time < until_ms."""
        keys = {bytes.fromhex(author) for author in authors}
        return {
            at
            for at, segment in self.segments.items()
            if segment.head.author in keys and since_ms < self.times_ms[at] < until_ms
        }


def findings(truth: GroundTruth) -> list[object]:
    """All that a monitor has to find, splits included."""
    lists = (truth.forks, truth.equivocations, truth.missing, truth.bad_index, truth.rejected, truth.skewed)
    return [finding for found in (*lists, truth.splits) for finding in found]
