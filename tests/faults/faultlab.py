"""What all trials by fault share: a topic worth judging, the answer of an undisturbed run, and the account at the end.

Each trial asserts the same: every record that stands on the topic was read, and is verified, rejected or a duplicate,
each distinct place once; the state is sound; and the compacted verdicts are those of the undisturbed run, byte by byte.
"""

import os
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from producers.scenarios import SCENARIOS
from producers.simulation import Record, Simulation
from producers.swarm import Settings
from state.config import Config
from streaming.broker import Broker
from streaming.fsck import audit_checkpoint
from streaming.queries import QUERIES, Plan, start_query
from tests.joblab import Deployment
from tests.topiclab import DEADLINE_S, Lab, differences, read_topic

MINUTES = float(os.environ.get("SOAK_MINUTES", "0"))
"""How long the long form goes on, at the least; 0 is the short form, which is a part of `make test`."""


class Input(NamedTuple):
    """Records to publish, and what they are judged by."""

    config: Config
    records: Sequence[Record]


def story(seed: int = 1, name: str = "whole-story", **settings: Any) -> Input:
    """A run with liars and a split, some of it twice, and some garbage."""
    simulation: Simulation = SCENARIOS[name].run(Settings(seed=seed, **settings))
    found: list[Record] = []
    for number, record in enumerate(simulation.records):
        found.append(record)
        if number % 15 == 7:
            found.append(record)
        if number % 40 == 11:
            found.append(Record(record.time_ms, record.key, b"garbage"))
    return Input(simulation.config, found)


class Outcome(NamedTuple):
    """What a trial came to."""

    fault: str
    faults: int
    """How often it struck."""
    records: int
    """That stand on the topic."""
    verified: int
    rejected: int
    duplicate: int
    verdicts: int
    recover_s: tuple[float, ...] = ()
    """From the fault, or its end, to the first batch that was done after it."""

    def row(self) -> str:
        recover = f"{statistics.median(self.recover_s):.1f} / {max(self.recover_s):.1f}" if self.recover_s else "–"
        counts = (self.faults, self.records, self.verified, self.rejected, self.duplicate)
        numbers = " | ".join(f"{count:,}" for count in counts)
        return f"| {self.fault} | {numbers} | 0 | {self.verdicts:,} | 0 | {recover} |"


TITLE = (
    "| fault | times | records sent | verified | rejected | duplicate | lost | verdicts | changed "
    "| seconds to recover, median / most |"
)
LINE = "|---|" + "---:|" * 9


class Trials:
    """The undisturbed answers, and what came of the trials."""

    def __init__(self, spark: Any, broker: Broker, folder: Path) -> None:
        self.outcomes: list[Outcome] = []
        self._spark = spark
        self._broker = broker
        self._folder = folder
        self._calm: dict[tuple[Record, ...], dict[bytes, bytes]] = {}

    def calm(self, given: Input) -> dict[bytes, bytes]:
        """What an undisturbed run says of these records: one partition, in order, one batch."""
        key = tuple(given.records)
        if key not in self._calm:
            lab = Lab(self._broker, self._spark, self._folder, given.config, partitions=1)
            lab.publish(sorted(given.records, key=lambda record: record.time_ms))
            lab.run_all()
            self._calm[key] = lab.verdicts()
        return self._calm[key]

    def finish(self, place: Deployment, offsets_max: int = 1_000_000) -> None:
        """Go on with a checkpoint to the end of the topic, in this process."""
        for query in QUERIES.values():
            plan = Plan(
                place.config, place.connection, place.prefix, str(place.checkpoint), offsets_max, available_now=True
            )
            started = start_query(self._spark, query, plan)
            try:
                assert started.awaitTermination(DEADLINE_S)
            finally:
                started.stop()

    def settle(
        self, place: Deployment, given: Input, fault: str, faults: int, recover_s: Iterable[float] = ()
    ) -> Outcome:
        """Hold what came of a trial against the calm answer, and take its account."""
        records = len(read_topic(place.connection, place.topic("segments")))
        counts: dict[str, int] = {}
        for _, batch, audit in audit_checkpoint(self._spark, place.checkpoint, place.prefix, place.config):
            assert batch is not None
            assert audit.problems == []
            counts |= {name: count for name, count in audit.counts.items() if count}
        verified, rejected, duplicate = (counts.get(name, 0) for name in ("verified", "rejected", "duplicate"))
        assert records == verified + rejected + duplicate
        letters = {(message.headers["partition"], message.headers["offset"]) for message in self._rejected(place)}
        assert len(letters) == rejected
        verdicts = place.verdicts()
        assert differences(verdicts, self.calm(given)) == {}
        assert verdicts
        outcome = Outcome(fault, faults, records, verified, rejected, duplicate, len(verdicts), tuple(recover_s))
        self.outcomes.append(outcome)
        print(f"\n{outcome.row()}")
        return outcome

    def _rejected(self, place: Deployment) -> list[Any]:
        return read_topic(place.connection, place.topic("rejected"))


class Stopwatch:
    """Measures how long something takes."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since
