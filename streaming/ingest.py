"""Ingest: records of `.segments` become events for the folds. Verified once, here, in bulk.

Rows out, grouped by (fold, key) afterwards: packed events, many to a row, so that Spark shuffles few rows; and, when a
task has read its partition, one row to every key of every fold with what it read, from which each key tells the clock.
"""

import json
from collections.abc import Callable, Iterator
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

Record = tuple[str, int, int, int, bytes | None, bytes | None]
Row = tuple[str, bytes, int, int, bool, bytes | None]
ReadToEnd = Callable[[str, int, int], bool]
"""Whether the record at (topic, partition, offset) is the last one of its partition now."""


def read_records(records: Iterator[Record], authors: Authors) -> Arrivals:
    """Judge each record; what is good becomes an arrival, what is bad a refusal. Never raises for what they say."""
    verified, refused = [], []
    for topic, partition, offset, time_ms, key, value in records:
        judged = judge(value, authors)
        if isinstance(judged, Reason):
            refused.append(Refusal(judged, Place(topic, partition, offset, time_ms), key, value))
        else:
            # Brokers may give −1 for «no time»; the earliest time there is does no harm.
            verified.append(Arrival(judged, max(time_ms, 0)))
    return Arrivals(verified, refused)


class Ingest:
    """Turns the record batches of one task into event rows."""

    def __init__(self, config: Config, folds: dict[str, Fold], read_to_end: ReadToEnd) -> None:
        self._config = config
        self._folds = folds
        self._read_to_end = read_to_end

    def batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        newest: dict[tuple[str, int], int] = {}
        last: dict[tuple[str, int], int] = {}
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in RECORD_COLUMNS]
            arrivals = read_records(zip(*columns, strict=True), self._config.authors)
            for at, topic in enumerate(columns[0]):
                last[topic, columns[1][at]] = columns[2][at]
            if arrivals.verified and columns[0]:
                # A task reads one partition, so the batch is of one.
                place = (columns[0][0], columns[1][0])
                newest_ms = max(arrival.time_ms for arrival in arrivals.verified)
                newest[place] = max(newest.get(place, NO_TIME), newest_ms)
            yield _as_batch(list(self._events(arrivals)))
        for place, offset in last.items():
            reading = Reading(place[1], newest.get(place, NO_TIME), self._read_to_end(*place, offset))
            yield _as_batch(list(self._readings(reading)))

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


def _as_batch(rows: list[Row]) -> pa.RecordBatch:
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in EVENT_SCHEMA]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, EVENT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)
