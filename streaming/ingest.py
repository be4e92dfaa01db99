"""Ingest: records of `.segments` become events for the folds. Verified once, here, in bulk.

Rows out, grouped by (fold, key) afterwards: packed events, many to a row, so that Spark shuffles few rows; and, when a
task has read its partition, one row to every key of every fold with what it read, from which each key tells the clock.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from state.config import Config
from state.fold import Arrival, Arrivals, Fold, Place, Refusal
from state.folds import make_folds
from state.segment import Authors, Reason, judge
from streaming.clock import NO_TIME, Reading

EVENT_COLUMNS = "fold string, key binary, partition int, newest_ms bigint, at_end boolean, payload binary"
EVENT_SCHEMA = pa.schema(
    [
        ("fold", pa.string()),
        ("key", pa.binary()),
        ("partition", pa.int32()),
        ("newest_ms", pa.int64()),
        ("at_end", pa.bool_()),
        ("payload", pa.binary()),
    ]
)
RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value")
"""What ingest reads of a Kafka record."""

Row = tuple[str, bytes, int, int, bool, bytes | None]
ReadToEnd = Callable[[str, int, int], bool]
"""Whether the record at (topic, partition, offset) is the last one of its partition now."""

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


class Ingest:
    """Turns the record batches of one task into event rows."""

    def __init__(self, config: Config, folds: dict[str, Fold], read_to_end: ReadToEnd) -> None:
        self._config = config
        self._folds = folds
        self._read_to_end = read_to_end

    def batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Events as they are read; and, at the end of the task, what was read of each partition."""
        newest: dict[tuple[str, int], Place] = {}
        for batch in batches:
            times_ms = batch.column("timestamp_ms").to_pylist()
            values = batch.column("value").to_pylist()
            arrivals = read_records(values, times_ms, _origin_in(batch), self._config.authors)
            for place in _newest_places(batch):
                before = newest.get(place[:2], place)
                newest[place[:2]] = place._replace(
                    offset=max(place.offset, before.offset), time_ms=max(place.time_ms, before.time_ms)
                )
            yield _as_batch(list(self._events(arrivals)))
        for place in newest.values():
            at_end = self._read_to_end(place.topic, place.partition, place.offset)
            yield _as_batch(list(self._readings(Reading(place.partition, place.time_ms, at_end))))

    def _events(self, arrivals: Arrivals) -> Iterator[Row]:
        for name, fold in self._folds.items():
            for key, payload in fold.route(arrivals):
                yield name, key, 0, NO_TIME, True, payload

    def _readings(self, reading: Reading) -> Iterator[Row]:
        for name, fold in self._folds.items():
            for key in fold.all_keys():
                yield name, key, *reading, None


def ingest_function(
    config_json: str, fold_names: tuple[str, ...], kafka: dict[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`; what it needs is made once in each worker."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from streaming.worker import watermarks, worker_config

        config = worker_config(config_json)
        yield from Ingest(config, make_folds(fold_names, config), watermarks(json.dumps(kafka))).batches(batches)

    return run


def _origin_in(batch: pa.RecordBatch) -> Origin:
    def origin(at: int) -> tuple[Place, bytes | None]:
        topic, partition, offset, time_ms, key = (batch.column(name)[at].as_py() for name in RECORD_COLUMNS[:5])
        return Place(topic, partition, offset, time_ms), key

    return origin


def _newest_places(batch: pa.RecordBatch) -> Iterator[Place]:
    """The last offset and the newest time of each partition in a batch: of one, because a task reads one."""
    grouped = pa.table(batch.select(RECORD_COLUMNS[:4])).group_by(["topic", "partition"])
    for row in grouped.aggregate([("offset", "max"), ("timestamp_ms", "max")]).to_pylist():
        yield Place(row["topic"], row["partition"], row["offset_max"], row["timestamp_ms_max"])


def _as_batch(rows: list[Row]) -> pa.RecordBatch:
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in EVENT_SCHEMA]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, EVENT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)
