"""Ingest: records of a topic become events for the folds. What peers wrote is verified once, here, in bulk.

Rows out, grouped by (fold, key) afterwards: packed events, many to a row, so that Spark shuffles few rows; and, when a
task has read its partition, one row to every key of every fold with what it read, from which each key tells the clock.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from state.config import Config
from state.fold import Arrival, Arrivals, Fold, Place, Refusal, Topic
from state.folds import make_folds
from state.report import decode_report
from state.segment import Authors, Reason, judge
from streaming.clock import NO_TIME, Reading

EVENT_COLUMNS = "fold string, key binary, partition int, newest_ms bigint, unread_ms bigint, payload binary"
EVENT_SCHEMA = pa.schema(
    [
        ("fold", pa.string()),
        ("key", pa.binary()),
        ("partition", pa.int32()),
        ("newest_ms", pa.int64()),
        ("unread_ms", pa.int64()),
        ("payload", pa.binary()),
    ]
)
RECORD_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")
"""What ingest reads of a Kafka record; its topic is that of the query."""

Row = tuple[str, bytes, int, int, int, bytes | None]
NextTime = Callable[[int, int, int], int]
"""The time of the record after the one at (partition, offset, time); NO_TIME if that is the last one now."""

Origin = Callable[[int], tuple[Place, bytes | None]]
"""The place and the key of a record, by its position; asked for only when a record is refused."""


def read_records(values: Sequence[bytes | None], times_ms: Sequence[int], origin: Origin, authors: Authors) -> Arrivals:
    """Judge each record; what is good becomes an arrival, what is bad a refusal. Never raises for what they say."""
    verified, refused = [], []
    for at, value in enumerate(values):
        judged = judge(value, authors)
        if isinstance(judged, Reason):
            refused.append(Refusal(judged, *origin(at), value))
        else:
            # Brokers may give −1 for «no time»; the earliest time there is does no harm.
            verified.append(Arrival(judged, max(times_ms[at], 0)))
    return Arrivals(verified, refused)


def read_reports(values: Sequence[bytes | None], times_ms: Sequence[int], origin: Origin, authors: Authors) -> Arrivals:
    """Reports of our own; something else on their topic is kept with the dead letters."""
    del times_ms  # reports carry their own ticks
    reports, refused = [], []
    for at, value in enumerate(values):
        try:
            report = decode_report(value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError):
            refused.append(Refusal(Reason.MALFORMED, *origin(at), value))
            continue
        if report.swarm in authors:
            reports.append(report)
        else:
            refused.append(Refusal(Reason.UNKNOWN_SWARM, *origin(at), value))
    return Arrivals([], refused, reports)


READERS = {Topic.SEGMENTS: read_records, Topic.MATRIX: read_reports}
"""How the records of each source are read."""


class _Newest(NamedTuple):
    offset: int
    time_ms: int


class Ingest:
    """Turns the record batches of one task into event rows."""

    def __init__(self, topic: str, config: Config, folds: dict[str, Fold], next_time: NextTime) -> None:
        self._topic = topic
        self._read = READERS[topic.rpartition(".")[2]]
        self._config = config
        self._folds = folds
        self._next_time = next_time

    def batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Events as they are read; and, at the end of the task, what was read of each partition."""
        newest: dict[int, _Newest] = {}
        for batch in batches:
            times_ms = batch.column("timestamp_ms").to_pylist()
            values = batch.column("value").to_pylist()
            arrivals = self._read(values, times_ms, self._origin_in(batch), self._config.authors)
            for partition, read in _newest_in(batch):
                before = newest.get(partition, read)
                newest[partition] = _Newest(max(read.offset, before.offset), max(read.time_ms, before.time_ms))
            yield _as_batch(list(self._events(arrivals)))
        for partition, read in newest.items():
            unread_ms = self._next_time(partition, read.offset, read.time_ms)
            yield _as_batch(list(self._readings(Reading(partition, read.time_ms, unread_ms))))

    def _origin_in(self, batch: pa.RecordBatch) -> Origin:
        def origin(at: int) -> tuple[Place, bytes | None]:
            partition, offset, time_ms, key = (batch.column(name)[at].as_py() for name in RECORD_COLUMNS[:4])
            return Place(self._topic, partition, offset, time_ms), key

        return origin

    def _events(self, arrivals: Arrivals) -> Iterator[Row]:
        for name, fold in self._folds.items():
            for key, payload in fold.route(arrivals):
                yield name, key, 0, NO_TIME, NO_TIME, payload

    def _readings(self, reading: Reading) -> Iterator[Row]:
        for name, fold in self._folds.items():
            for key in fold.all_keys():
                yield name, key, *reading, None


def ingest_function(
    topic: str,
    config_json: str,
    fold_names: tuple[str, ...],
    kafka: dict[str, str],
    ends: Mapping[int, int] = MappingProxyType({}),
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`; what it needs is made once in each worker.

    Where a range is read, `ends` says where each partition ends for it: the clock takes that for the end of the topic.
    """
    asks = json.dumps(kafka), topic, json.dumps(dict(ends), sort_keys=True)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from streaming.worker import next_times, worker_config

        config = worker_config(config_json)
        folds = make_folds(fold_names, config)
        yield from Ingest(topic, config, folds, next_times(*asks)).batches(batches)

    return run


def _newest_in(batch: pa.RecordBatch) -> Iterator[tuple[int, _Newest]]:
    """The last offset and the newest time of each partition in a batch: of one, because a task reads one."""
    grouped = pa.table(batch.select(RECORD_COLUMNS[:3])).group_by("partition")
    for row in grouped.aggregate([("offset", "max"), ("timestamp_ms", "max")]).to_pylist():
        yield row["partition"], _Newest(row["offset_max"], row["timestamp_ms_max"])


def _as_batch(rows: list[Row]) -> pa.RecordBatch:
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in EVENT_SCHEMA]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, EVENT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)
