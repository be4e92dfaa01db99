"""A simulated run as a watcher sees it, without Kafka and Spark: the folds, batch by batch, and what comes when."""

from collections import defaultdict
from functools import cache
from typing import NamedTuple

from producers.simulation import Simulation
from producers.swarm import Settings
from state.fold import Arrival, Arrivals, Topic
from state.grid import Grid, join_blocks
from state.history import History
from state.report import Report, decode_report
from state.segment import Segment, judge
from state.verdict import AnyVerdict, decode_verdict
from streaming.plain import PlainHost
from streaming.queries import QUERIES
from streaming.scene import Scene
from streaming.verdicts import Update
from tests.simlab import SHAPES, simulated

BATCH_MS = 1000


class Moment(NamedTuple):
    """What a batch brings, and when, in milliseconds from the start."""

    at_ms: int
    updates: list[Update]
    reports: list[Report]

    @property
    def matrix(self) -> Grid | None:
        """That of the newest tick."""
        newest = [report for report in self.reports if report.tick_ms == self.reports[-1].tick_ms]
        return join_blocks(newest) if newest else None


class Watched:
    """A run and all its moments."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.swarm = simulation.config.swarms[0]
        self.start_ms = simulation.records[0].time_ms
        self.arrivals = [
            Arrival(segment, record.time_ms)
            for record in simulation.records
            if isinstance(segment := judge(record.value, simulation.config.authors), Segment)
        ]
        self.moments = self._watch()

    @property
    def verdicts(self) -> list[AnyVerdict]:
        """What stands at the end."""
        compacted = {update.key: update.verdict for moment in self.moments for update in moment.updates}
        return [verdict for verdict in compacted.values() if verdict is not None]

    @property
    def history(self) -> History:
        return History(self.swarm.key, self.arrivals)

    def scene_at(self, second: float) -> Scene:
        """What there is to show at a time of the story."""
        scene = Scene(self.simulation.config, len(self.simulation.records))
        scene.start(self.start_ms)
        lines = [(line.time_ms - self.start_ms, line.text) for line in self.simulation.truth.story]
        for moment in self.moments:
            if moment.at_ms > 1000 * second:
                break
            scene.now_ms = self.start_ms + moment.at_ms
            while lines and lines[0][0] <= moment.at_ms:
                scene.tell(lines.pop(0)[1])
            for update in moment.updates:
                scene.add(update)
            scene.news.settle(scene.elapsed_s)
            scene.matrix = moment.matrix or scene.matrix
        return scene

    def _watch(self) -> list[Moment]:
        config = self.simulation.config
        first, second = (PlainHost(QUERIES[name], config) for name in ("segments", "matrix"))
        batches = defaultdict(list)
        for arrival in self.arrivals:
            batches[(arrival.time_ms - self.start_ms) // BATCH_MS].append(arrival)
        moments = []
        for number, batch in sorted(batches.items()):
            clock_ms = max(arrival.time_ms for arrival in batch)
            messages = list(first.absorb(Arrivals(batch, []), clock_ms))
            reports = [decode_report(message.value) for message in messages if message.topic == Topic.MATRIX]
            messages += second.absorb(Arrivals([], [], reports), clock_ms)
            updates = [
                Update(message.key.decode(), decode_verdict(message.value) if message.value else None)
                for message in messages
                if message.topic == Topic.VERDICTS
            ]
            moments.append(Moment((number + 1) * BATCH_MS, updates, reports))
        return moments


@cache
def watched(name: str, settings: Settings = SHAPES[0]) -> Watched:
    return Watched(simulated(name, settings))
