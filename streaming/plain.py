"""The folds without Spark: a range of `.segments` judged in this process, by the same core, with its state in memory.

It is an answer of its own to what the job should have said. One core judges some ten thousand segments a second, and
the state of all that is read has to fit in memory. Partitions are read so that none is far ahead of the others in time.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from state.config import Config
from state.connection import Connection
from state.fold import Arrivals, Machine, Message, Place, Topic
from state.folds import make_folds
from state.report import decode_report
from streaming.bar import OnProgress
from streaming.bounds import Range
from streaming.clock import NO_TIME, Reading, clock_of
from streaming.follow import READER_SETTINGS, SILENT_SECONDS_MAX
from streaming.ingest import read_records
from streaming.parts import MissingPartError
from streaming.queries import QUERIES, Query

RECORDS_AT_ONCE = 2_000
_POLL_SECONDS = 0.2
_CLIENT: dict[str, Any] = {**READER_SETTINGS, "queued.max.messages.kbytes": 4096}
"""There is a client for each partition, and what each fetches ahead adds up."""


class Judged(NamedTuple):
    """What came of a range: verdicts as compaction leaves them, and what the folds of segments counted."""

    verdicts: dict[str, bytes]
    counts: Counter[str]


def judge_range(config: Config, connection: Connection, found: Range, tell: OnProgress) -> Judged:
    """Judge all records of a range. MissingPartError if they stop coming."""
    segments, matrix = PlainHost(QUERIES["segments"], config), PlainHost(QUERIES["matrix"], config)
    judged = Judged({}, segments.counts)
    for stretch in _stretches(connection, found):

        def origin(at: int, partition: int = stretch.partition) -> tuple[Place, bytes | None]:
            return Place(found.topic, partition, at, 0), None  # dead letters go nowhere from here

        arrivals = read_records(stretch.values, stretch.times_ms, origin, config.authors)
        said = list(segments.absorb(arrivals, stretch.clock_ms))
        reports = [decode_report(one.value) for one in said if one.topic == Topic.MATRIX and one.value]
        said += matrix.absorb(Arrivals([], [], reports), stretch.clock_ms)
        for message in said:
            if message.topic == Topic.VERDICTS:
                _note(judged.verdicts, message)
        tell(stretch.done, found.size)
    return judged


def _note(verdicts: dict[str, bytes], message: Message) -> None:
    if message.value is None:
        verdicts.pop(message.key.decode(), None)
    else:
        verdicts[message.key.decode()] = message.value


class PlainHost:
    """The machines of one query's folds, all in memory."""

    def __init__(self, query: Query, config: Config) -> None:
        self.counts: Counter[str] = Counter()
        self.machines: dict[tuple[str, bytes], Machine] = {}
        """By fold and key, as the archives."""
        self.archives: dict[tuple[str, bytes], dict[bytes, bytes]] = defaultdict(dict)
        self._folds = make_folds(query.folds, config)

    def absorb(self, arrivals: Arrivals, clock_ms: int) -> Iterator[Message]:
        """What the folds say of these arrivals, where the clock has come so far."""
        for name, fold in self._folds.items():
            payloads: dict[bytes, list[bytes]] = {key: [] for key in fold.all_keys()}
            for key, payload in fold.route(arrivals):
                payloads.setdefault(key, []).append(payload)
            for key, here in payloads.items():
                place = name, key
                if place not in self.machines:
                    self.machines[place] = fold.open(key, None, self.archives[place])
                outcome = self.machines[place].absorb(here, clock_ms)
                self.counts.update({tally.name: tally.amount for tally in outcome.tallies})
                yield from outcome.messages


class _Stretch(NamedTuple):
    """Some records of one partition, in their order, and the clock when they are read."""

    partition: int
    values: list[bytes | None]
    times_ms: list[int]
    clock_ms: int
    done: int
    """How many offsets of the range are read."""


def _stretches(connection: Connection, found: Range) -> Iterator[_Stretch]:
    """The records of a range, always from the partition that is furthest behind in time."""
    with ExitStack() as stack:
        readers = [
            stack.enter_context(_Reader(connection, found.topic, partition, found.starts[partition], end))
            for partition, end in found.ends.items()
        ]
        newest_ms = NO_TIME
        while unread := [reader for reader in readers if not reader.is_done]:
            reader = min(unread, key=lambda one: one.newest_ms)
            values, times_ms = reader.read()
            newest_ms = max(newest_ms, reader.newest_ms)
            # What is unread of a partition is of the time of its newest record, or later.
            readings = [
                Reading(one.partition, one.newest_ms, max(one.newest_ms, 0)) for one in readers if not one.is_done
            ]
            done = found.done({one.partition: one.offset for one in readers})
            yield _Stretch(reader.partition, values, times_ms, clock_of(readings, newest_ms), done)


class _Reader:
    """Reads one partition from an offset up to another one."""

    def __init__(self, connection: Connection, topic: str, partition: int, start: int, end: int) -> None:
        self.partition = partition
        self.offset = start
        self.newest_ms = NO_TIME
        self._topic = topic
        self._end = end
        self._consumer = Consumer({**connection.librdkafka(), **_CLIENT})
        self._consumer.assign([TopicPartition(topic, partition, start)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()

    @property
    def is_done(self) -> bool:
        return self.offset >= self._end

    def read(self) -> tuple[list[bytes | None], list[int]]:
        """Some records, with their times; none if the last offsets of the range are no records."""
        deadline = time.monotonic() + SILENT_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                messages = self._consumer.consume(RECORDS_AT_ONCE, timeout=_POLL_SECONDS)
            except KafkaException as error:
                raise MissingPartError(f"{self._topic} could not be read: {error.args[0].str()}") from None
            if messages:
                return self._take(messages)
        raise MissingPartError(f"{self._topic} gave no record for {SILENT_SECONDS_MAX:.0f} s, before its end")

    def _take(self, messages: list[Any]) -> tuple[list[bytes | None], list[int]]:
        """The end of a partition is told by a message that is an error: what is before it has been read."""
        self.offset = max(m.offset() + (m.error() is None) for m in messages)
        records = [m for m in messages if m.error() is None and m.offset() < self._end]
        times_ms = [m.timestamp()[1] for m in records]
        self.newest_ms = max([self.newest_ms, *times_ms])
        return [m.value() for m in records], times_ms
