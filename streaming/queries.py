"""The queries, as data: where each reads, and the folds that read it. One Spark plan serves them all."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from state.config import Config
from state.connection import Connection
from state.fold import Topic
from state.folds import make_folds
from streaming.bounds import Range
from streaming.host import HOST_TALLIES, LEVELS
from streaming.ingest import EVENT_COLUMNS, ingest_function
from streaming.processor import OUTPUT_COLUMNS, FoldProcessor
from streaming.session import own_workers

TALLIES = "tallies"
"""The name under which a query's progress tells what its folds counted in the batch."""

RANGE_TALLIES = "range"
"""The name under which the progress of a query that is held to a range tells how many records of it were read."""

SINK_BYTES_MAX = 8 << 20
"""A dead letter can be twice as large as the largest record we accept, and travels with its headers."""


FETCH_SETTINGS = {
    # A task that reads to the end of its partition waits this long for nothing; Kafka's own default is 500 ms.
    "kafka.fetch.max.wait.ms": "20",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.max.poll.records": "5000",
}


class Query(NamedTuple):
    """A streaming query: its name, which also names its checkpoint, its source, and its folds."""

    name: str
    source: str
    folds: tuple[str, ...]


QUERIES = {
    query.name: query
    for query in (
        Query("segments", Topic.SEGMENTS, ("rejected", "logs", "columns", "clocks")),
        Query("matrix", Topic.MATRIX, ("rejected", "splits")),
    )
}


class Plan(NamedTuple):
    """What a query needs besides its declaration."""

    config: Config
    connection: Connection
    prefix: str
    checkpoint: str
    offsets_max: int
    available_now: bool = False
    trigger: str = "1 second"
    patience_ms: int = 60_000
    """How long Kafka may be silent before the query ends."""
    only: Range | None = None
    """Segments are read of this range only, whatever topic it is of; verdicts go to the topics of `prefix`."""

    def source_of(self, query: Query) -> str:
        """The topic that a query reads."""
        only = self.range_of(query)
        return f"{self.prefix}.{query.source}" if only is None else only.topic

    def range_of(self, query: Query) -> Range | None:
        """The range that a query is held to."""
        return self.only if query.source == Topic.SEGMENTS else None


def start_query(session: Any, query: Query, plan: Plan) -> Any:
    """Start a query and give its handle. The same checkpoint makes it go on where it was."""
    from pyspark.sql import functions as f

    topic, only = plan.source_of(query), plan.range_of(query)
    config_json = msgspec.json.encode(plan.config).decode()
    kafka = {f"kafka.{name}": value for name, value in plan.connection.java().items()}
    records = (
        session.readStream.format("kafka")
        .options(**kafka)
        .options(**_places(topic, only))
        .option("maxOffsetsPerTrigger", plan.offsets_max)
        .options(**FETCH_SETTINGS)
        .options(**_source_patience(plan.patience_ms))
        .load()
        .select("partition", "offset", f.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")
    )
    ends = only.ends if only else {}
    events = _within(records, ends).mapInArrow(
        ingest_function(topic, config_json, query.folds, plan.connection.librdkafka(), ends), EVENT_COLUMNS
    )
    processor = FoldProcessor(config_json, query.folds, plan.prefix)
    with own_workers(session, query.name):
        rows = events.groupBy("fold", "key").transformWithState(processor, OUTPUT_COLUMNS, "Update", "None")
    counted = [
        (f.max if name.endswith("_max") else f.sum)(f.when(f.col("tally") == name, f.col("amount")).otherwise(0)).alias(
            name
        )
        for name in (*tallies(query, plan.config), *LEVELS)
    ]
    messages = rows.observe(TALLIES, *counted).where("topic is not null").select("topic", "key", "value", "headers")
    writer = (
        messages.writeStream.format("kafka")
        .queryName(query.name)
        .outputMode("update")
        .options(**kafka)
        .option("kafka.max.request.size", SINK_BYTES_MAX)
        .options(**_sink_patience(plan.patience_ms))
        .option("checkpointLocation", f"{plan.checkpoint}/{query.name}")
    )
    timed = writer.trigger(availableNow=True) if plan.available_now else writer.trigger(processingTime=plan.trigger)
    return timed.start()


def _places(topic: str, only: Range | None) -> dict[str, str]:
    """What the Kafka source reads: a topic from its beginning, or the partitions of a range from their starts."""
    if only is None:
        return {"subscribe": topic, "startingOffsets": "earliest"}
    return {
        "assign": json.dumps({topic: sorted(only.starts)}),
        "startingOffsets": json.dumps({topic: {str(partition): start for partition, start in only.starts.items()}}),
    }


def _within(records: Any, ends: Mapping[int, int]) -> Any:
    """Leave out what stands behind these ends: Spark has ending offsets for what is read at once, not for a stream."""
    from pyspark.sql import functions as f

    if not ends:
        return records
    each = " ".join(f"WHEN {partition} THEN {end}" for partition, end in ends.items())
    return records.where(f"offset < CASE partition {each} END").observe(
        RANGE_TALLIES, f.count(f.lit(1)).alias("records")
    )


def _source_patience(patience_ms: int) -> dict[str, str]:
    return {
        "kafka.default.api.timeout.ms": str(patience_ms),
        "kafka.request.timeout.ms": str(min(patience_ms, 30_000)),
        "kafkaConsumer.pollTimeoutMs": str(patience_ms),
        "fetchOffset.numRetries": "1",
    }


def _sink_patience(patience_ms: int) -> dict[str, str]:
    return {
        "kafka.max.block.ms": str(patience_ms),
        "kafka.request.timeout.ms": str(min(patience_ms // 2, 30_000)),
        "kafka.delivery.timeout.ms": str(patience_ms),
    }


def tallies(query: Query, config: Config) -> list[str]:
    """The names of all that a query counts, batch by batch."""
    folds = make_folds(query.folds, config).values()
    return [*(name for fold in folds for name in fold.tallies), *HOST_TALLIES]
