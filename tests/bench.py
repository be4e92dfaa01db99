"""`make bench`: how fast it is. What is measured stands in docs/benchmarks.md; nothing here can fail a test.

- `verify`: ops a second of the streaming job beside those of one plain Python process with the same core (below);
- `matrix`: noops a second that the columns absorb on one core (tests/benchmatrix.py);
- `bloom`: merges and compares a second of Bloom clocks, and the bytes of their encodings (tests/benchbloom.py);
- `clocks`: updates a second that the clocks fold absorbs on one core, and what an entity takes (tests/benchclocks.py);
- `latency`: from publication to the `accepted` verdict, beside an empty query (tests/benchlatency.py);
- `exporter`: a scrape of 1,000 peers at 5,000 verdicts a second, and its memory (tests/benchexporter.py).

Of `verify`: both read the same topic of the same broker in the same run, after having read it before to warm up. The
streaming job reads the topic in two batches; the first one, which makes plans and workers, is left out, so the topic is
twice as long as what is measured. The folds are those that verify and keep logs.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from producers.load import load
from producers.sinks import publish_fast
from state.config import Config
from state.connection import Connection
from state.fold import Place, Topic
from state.folds import make_folds
from state.signing import SigningKey, is_signed
from streaming.broker import Broker
from streaming.clock import NO_TIME
from streaming.ingest import read_records
from streaming.queries import Plan, Query, start_query
from streaming.session import start_session
from streaming.topics import Setup, create_topics
from tests import benchbloom, benchclocks, benchexporter, benchlatency, benchmatrix

PEERS = 200
PARTITIONS = 2
"""One for each core: a task costs some 50 ms whatever it reads."""
OP_BYTES = 120
CORES = 2
WARM_UPS = 4
"""The JVM compiles what it runs often; after so many readings the figures stay."""
VERIFY = Query("verify", Topic.SEGMENTS, ("rejected", "logs"))
RESULTS = Path(__file__).parent.parent / "docs" / "benchmarks.md"


class Case(NamedTuple):
    name: str
    segments: int
    ops: int
    goal: float

    @property
    def ops_total(self) -> int:
        return self.segments * self.ops


CASES = (
    Case("50 ops a segment", 20_000, 50, 1.3),
    Case("one op a segment", 100_000, 1, 1.5),
)


class Measured(NamedTuple):
    segments_a_second: float
    blob_bytes: int
    archive_bytes: int
    note: str = ""


def plain(config: Config, connection: Connection, case: Case, topic: str) -> Measured:
    """One process, no engine: consume, judge, route, absorb; state in memory."""
    folds = make_folds(VERIFY.folds, config)
    archives: dict[Any, dict[bytes, bytes]] = defaultdict(dict)
    machines: dict[tuple[str, bytes], Any] = {}
    blobs: dict[tuple[str, bytes], bytes] = {}
    consumer = Consumer({**connection.librdkafka(), "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    consumer.consume(1, timeout=10)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    started = time.perf_counter()
    read = 0
    while read < 2 * case.segments:
        messages = consumer.consume(5_000, timeout=10)
        read += len(messages)
        times_ms = [message.timestamp()[1] for message in messages]
        arrivals = read_records([message.value() for message in messages], times_ms, _no_origin, config.authors)
        routed = defaultdict(list)
        for name, fold in folds.items():
            for key, payload in fold.route(arrivals):
                routed[name, key].append(payload)
        for place, payloads in routed.items():
            if place not in machines:
                machines[place] = folds[place[0]].open(place[1], None, archives[place])
            machines[place].absorb(payloads, NO_TIME)
            blobs[place] = machines[place].pack()
    seconds = time.perf_counter() - started
    consumer.close()
    archive_bytes = sum(len(value) for archive in archives.values() for value in archive.values())
    return Measured(read / seconds, sum(map(len, blobs.values())), archive_bytes)


def _no_origin(at: int) -> tuple[Place, bytes | None]:
    raise AssertionError(f"record {at} of the load is refused")


def streamed(session: Any, config: Config, connection: Connection, case: Case, prefix: str) -> Measured:
    """The streaming job, from its second batch on: the first one makes plans, workers and clients."""
    with tempfile.TemporaryDirectory() as checkpoint:
        plan = Plan(config, connection, prefix, checkpoint, case.segments, available_now=True)
        query = start_query(session, VERIFY, plan)
        query.awaitTermination()
        batches = [p for p in query.recentProgress if p.numInputRows][1:]
        checkpoint_bytes = sum(file.stat().st_size for file in Path(checkpoint).rglob("*") if file.is_file())
    parts: dict[str, float] = defaultdict(float)
    for progress in batches:
        for name, ms in progress.durationMs.items():
            parts[name] += ms / 1000
    note = f"{len(batches)} batches: " + ", ".join(f"{name} {s:.1f} s" for name, s in sorted(parts.items()) if s > 0.05)
    rate = sum(progress.numInputRows for progress in batches) / parts["triggerExecution"]
    return Measured(rate, 0, checkpoint_bytes, note)


def bounds(case: Case) -> float:
    """Seconds that libsodium and SHA-256 alone take for a segment of the case, on one core."""
    key = SigningKey(bytes(32))
    message = bytes(240)
    signature = key.sign(message)
    op = bytes(152)
    started = time.perf_counter()
    for _ in range(2_000):
        is_signed(message, signature, key.public)
    verify_s = (time.perf_counter() - started) / 2_000
    started = time.perf_counter()
    for _ in range(20_000):
        sha256(op).digest()
    link_s = (time.perf_counter() - started) / 20_000
    print(f"  bounds: Ed25519 {verify_s * 1e6:.1f} µs, SHA-256 link {link_s * 1e6:.2f} µs")
    return verify_s + case.ops * link_s


def run_case(session: Any, connection: Connection, case: Case, rounds: int) -> list[str]:
    print(f"{case.name}: {case.segments:,} segments, {case.ops_total:,} ops, {PEERS} peers", flush=True)
    prefix = f"bench{case.ops}"
    create_topics(connection, Setup(prefix=prefix, partitions=PARTITIONS, create_time=True))
    made = load(1, PEERS, segments=2 * case.segments, ops_per_segment=case.ops, op_bytes=OP_BYTES)
    publish_fast(made.records, connection.librdkafka(), f"{prefix}.segments")
    for _ in range(WARM_UPS):
        streamed(session, made.config, connection, case, prefix)
    plain(made.config, connection, case, f"{prefix}.segments")
    rows = []
    for number in range(1, rounds + 1):
        bound_s = bounds(case)
        a = plain(made.config, connection, case, f"{prefix}.segments")
        b = streamed(session, made.config, connection, case, prefix)
        ratio = b.segments_a_second / a.segments_a_second
        bound = 1 / bound_s
        state = a.blob_bytes + a.archive_bytes
        for name, rate in (("(a) plain", a.segments_a_second), ("(b) streaming", b.segments_a_second)):
            print(f"  {name:14} {case.ops * rate:10,.0f} ops/s {rate:8,.0f} segments/s")
        print(f"  (b)/(a) {ratio:.2f}, goal {case.goal}; {b.note}")
        print(
            f"  state {state / (2 * case.segments):.0f} bytes a segment, {state / PEERS:,.0f} a peer",
            flush=True,
        )
        rows.append(
            f"| {case.name} | {number} | {case.ops * a.segments_a_second:,.0f} | {case.ops * b.segments_a_second:,.0f} "
            f"| **{ratio:.2f}** | {case.goal} | {a.segments_a_second / bound:.0%} "
            f"| {b.segments_a_second / bound / CORES:.0%} "
            f"| {state / (2 * case.segments):.0f} | {state / PEERS:,.0f} |"
        )
    return rows


def machine() -> str:
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    return f"{os.cpu_count()} × {model or platform.machine()}, Python {platform.python_version()}, {platform.system()}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each case")
    parts = ["verify", "matrix", "bloom", "clocks", "latency", "exporter"]
    parser.add_argument("--what", choices=parts, help="only this; else everything")
    parser.add_argument("--case", choices=["1", "50"], help="only the case with so many ops a segment")
    parser.add_argument("--dry", action="store_true", help="do not append to docs/benchmarks.md")
    parser.add_argument("--conf", action="append", default=[], help="Spark setting, NAME=VALUE")
    options = parser.parse_args()
    print(machine(), flush=True)
    if options.what in (None, "matrix"):
        append(benchmatrix.run(options.rounds), dry=options.dry)
    if options.what in (None, "bloom"):
        append(benchbloom.run(options.rounds), dry=options.dry)
    if options.what in (None, "clocks"):
        append(benchclocks.run(options.rounds), dry=options.dry)
    if options.what in (None, "exporter"):
        with Broker() as broker:
            append(benchexporter.run(Connection(bootstrap=broker.bootstrap)), dry=options.dry)
    if options.what in (None, "latency"):
        # One shuffle partition, as `quorumscope run` has it for a small roster.
        with _spark(options.conf, 1) as session, Broker() as broker:
            append(benchlatency.run(session, Connection(bootstrap=broker.bootstrap)), dry=options.dry)
    if options.what in (None, "verify"):
        with _spark(options.conf, CORES) as session, Broker() as broker:
            connection = Connection(bootstrap=broker.bootstrap)
            cases = [case for case in CASES if options.case in (None, str(case.ops))]
            rows = [row for case in cases for row in run_case(session, connection, case, options.rounds)]
            append([*VERIFY_HEAD, *rows], dry=options.dry)


@contextmanager
def _spark(settings: list[str], partitions: int) -> Iterator[Any]:
    log = Path(tempfile.gettempdir()) / "quorumscope-bench-spark.log"
    session = start_session(f"local[{CORES}]", partitions, dict(setting.split("=", 1) for setting in settings), log)
    try:
        yield session
    finally:
        session.stop()


VERIFY_HEAD = (
    "| case | run | (a) ops/s | (b) ops/s | (b)/(a) | goal | (a) of bound | (b) of bound | state a segment | a peer |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def append(rows: list[str], *, dry: bool) -> None:
    if not dry:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(f"\n## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}\n\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
