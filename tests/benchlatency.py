"""From publication to the `accepted` verdict at 1,000 ops a second, beside an empty Kafka → state → Kafka query.

The same swarm is published live three times in one run, on one broker and one Spark session. First the monitor reads
it, both queries; then the empty query; then the monitor again. The empty query takes each record through Spark's state
and writes it out, verifies nothing and keeps nothing but a count; beside it the splits query reads the reports that the
monitor wrote, at the same pace.

Two latencies of an `accepted` verdict: *of the monitor*, from the record that completed the acceptance (`accepted_ms`,
the broker's time) to the verdict in a consumer's hands, which is what the floor is compared with; and *of the op*, from
the op's own record, which includes the time that the peers take to entangle it. All on one machine, so clocks agree.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from producers.scenarios import SCENARIOS
from producers.simulation import Record, Simulation
from producers.sinks import publish_live
from producers.swarm import Settings
from state.connection import Connection
from state.verdict import Accepted, decode_verdict
from streaming.queries import FETCH_SETTINGS, QUERIES, TALLIES, Plan, start_query
from streaming.topics import Setup, create_topics

OPS_A_SECOND = 1_000
PEERS, OPS = 10, 10
SECONDS = 60
WARM_UP_S = 20.0
"""What is published before this is not counted: the first batches make plans and workers."""
PARTITIONS = 4
TRIGGER = "1 second"


class Latencies(NamedTuple):
    """Milliseconds, of all that was measured."""

    p50: float
    p99: float
    count: int


class _Echo(StatefulProcessor):  # type: ignore[misc]  # Spark brings no types
    """As little as a stateful query can do: count, and pass on."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        kept = self._count.get()
        count = kept[0] if kept else 0
        for row in rows:
            count += 1
            yield Row(key=row.key, value=str(row.timestamp_ms).encode())
        self._count.update((count,))

    def close(self) -> None:
        pass


def run(session: Any, connection: Connection) -> list[str]:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    interval_ms = 1000 * PEERS * OPS // OPS_A_SECOND
    settings = Settings(peers=PEERS, interval_ms=interval_ms, ops=OPS, duration_ms=SECONDS * 1000, split_after="5s")
    simulation = SCENARIOS["honest"].run(settings)
    print(f"latency: {len(simulation.records):,} segments of {PEERS} peers in {SECONDS} s", flush=True)
    # The first round also warms up the JVM, which compiles what it runs often; the last one is what counts.
    first, _, reports = _monitor(session, connection, simulation, "latency-first")
    floor = _floor(session, connection, simulation, reports)
    monitor, op, _ = _monitor(session, connection, simulation, "latency")
    rows = ["| what | p50 ms | p99 ms | measured | p50 / floor | p99 / floor |", "|---|---:|---:|---:|---:|---:|"]
    for name, got in (
        ("floor: Kafka → state → Kafka", floor),
        ("first round, JVM not warm: from what made it accepted to the verdict", first),
        ("from what made it accepted to the verdict", monitor),
        ("from the op's record to the verdict", op),
    ):
        ratios = f"{got.p50 / floor.p50:.2f} | {got.p99 / floor.p99:.2f}"
        rows.append(f"| {name} | {got.p50:,.0f} | {got.p99:,.0f} | {got.count:,} | {ratios} |")
        print(rows[-1], flush=True)
    return rows


def _monitor(
    session: Any, connection: Connection, simulation: Simulation, prefix: str
) -> tuple[Latencies, Latencies, list[Record]]:
    create_topics(connection, Setup(prefix=prefix, partitions=PARTITIONS))
    waits: list[float] = []
    whole: list[float] = []
    reports: list[Record] = []
    begun_ms = _now_ms()

    def on_verdict(value: bytes | None, now_ms: float) -> None:
        verdict = decode_verdict(value) if value else None
        since_ms = begun_ms + 1000 * WARM_UP_S
        if isinstance(verdict, Accepted) and verdict.rule == "majority" and verdict.published_ms > since_ms:
            waits.append(now_ms - verdict.accepted_ms)
            whole.append(now_ms - verdict.published_ms)

    def on_report(value: bytes | None, now_ms: float) -> None:
        reports.append(Record(int(now_ms), b"report", value))

    with tempfile.TemporaryDirectory() as checkpoint:
        plan = Plan(simulation.config, connection, prefix, checkpoint, 100_000, trigger=TRIGGER)
        queries = [start_query(session, query, plan) for query in QUERIES.values()]
        with (
            _listening(connection, f"{prefix}.verdicts", on_verdict),
            _listening(connection, f"{prefix}.matrix", on_report),
        ):
            begun_ms = _now_ms()
            publish_live(simulation.records, connection.librdkafka(), f"{prefix}.segments")
            time.sleep(5)
        _tell_batches("monitor", queries)
        for query in queries:
            query.stop()
    return _latencies(waits), _latencies(whole), reports


def _floor(session: Any, connection: Connection, simulation: Simulation, reports: list[Record]) -> Latencies:
    from pyspark.sql import functions as f

    prefix = "floor"
    create_topics(connection, Setup(prefix=prefix, partitions=PARTITIONS))
    waits: list[float] = []
    begun_ms = _now_ms()

    def on_echo(value: bytes | None, now_ms: float) -> None:
        published_ms = int(value or b"0")
        if published_ms > begun_ms + 1000 * WARM_UP_S:
            waits.append(now_ms - published_ms)

    with tempfile.TemporaryDirectory() as checkpoint:
        kafka = {f"kafka.{name}": value for name, value in connection.java().items()}
        records = (
            session.readStream.format("kafka")
            .options(**kafka)
            .option("subscribe", f"{prefix}.segments")
            .option("startingOffsets", "earliest")
            .options(**FETCH_SETTINGS)
            .load()
            .select("partition", f.unix_millis("timestamp").alias("timestamp_ms"), "key")
        )
        rows = records.groupBy("partition").transformWithState(_Echo(), "key binary, value binary", "Update", "None")
        echo = (
            rows.writeStream.format("kafka")
            .queryName("floor")
            .outputMode("update")
            .options(**kafka)
            .option("topic", f"{prefix}.rejected")
            .option("checkpointLocation", f"{checkpoint}/floor")
            .trigger(processingTime=TRIGGER)
            .start()
        )
        plan = Plan(simulation.config, connection, prefix, checkpoint, 100_000, trigger=TRIGGER)
        splits = start_query(session, QUERIES["matrix"], plan)
        with _listening(connection, f"{prefix}.rejected", on_echo):
            begun_ms = _now_ms()
            beside = threading.Thread(
                target=publish_live, args=(reports, connection.librdkafka(), f"{prefix}.matrix"), daemon=True
            )
            beside.start()
            publish_live(simulation.records, connection.librdkafka(), f"{prefix}.segments")
            time.sleep(5)
        _tell_batches("floor", [echo, splits])
        echo.stop()
        splits.stop()
    return _latencies(waits)


@contextmanager
def _listening(connection: Connection, topic: str, on_value: Callable[[bytes | None, float], None]) -> Iterator[None]:
    """Give each record of a topic, as soon as it is there, with the time now."""
    halt = threading.Event()
    settings = {"group.id": "bench", "enable.auto.commit": False, "fetch.wait.max.ms": 10}

    def listen() -> None:
        consumer = Consumer({**connection.librdkafka(), **settings})
        consumer.assign([TopicPartition(topic, 0, 0)])
        while not halt.is_set():
            for message in consumer.consume(500, timeout=0.02):
                if not message.error():
                    on_value(message.value(), time.time() * 1000)
        consumer.close()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        halt.set()
        thread.join()


def _tell_batches(name: str, queries: list[Any]) -> None:
    """Where the time of the batches goes: the profile of a latency."""
    for query in queries:
        parts: dict[str, list[float]] = {}
        for progress in query.recentProgress[-30:]:
            if progress.numInputRows:
                for part, ms in progress.durationMs.items():
                    parts.setdefault(part, []).append(ms)
        told = ", ".join(f"{part} {np.median(ms):.0f}" for part, ms in sorted(parts.items()) if np.median(ms) >= 5)
        reopened = sum(
            (progress.observedMetrics[TALLIES].asDict().get("reopened") or 0)
            for progress in query.recentProgress
            if progress.observedMetrics and TALLIES in progress.observedMetrics
        )
        print(f"  {name} {query.name}: median ms a batch: {told}; machines reopened {reopened}", flush=True)


def _latencies(waits: list[float]) -> Latencies:
    return Latencies(float(np.percentile(waits, 50)), float(np.percentile(waits, 99)), len(waits))


def _now_ms() -> float:
    return time.time() * 1000
