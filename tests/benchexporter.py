"""The exporter under load: 1,000 peers, 5,000 verdicts a second on a real topic, scraped as Prometheus would.

The exporter is a process of its own, the command that an operator runs; the broker, the writer and the scraper share
its two cores. Before the load it catches up with a topic of 200,000 verdicts.
"""

import threading
import time
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from producers.swarmfile import config_yaml
from state.config import Config
from state.connection import Connection
from state.fold import Topic
from streaming.services import Service, start_exporter
from streaming.topics import Setup, create_topics
from tests.boardlab import acceptance, large_report, large_swarm

PREFIX = "load"
PEERS = 1000
VERDICTS_S = 5000
CAUGHT_UP_WITH = 200_000
SECONDS = 60
SCRAPE_SECONDS = 2.0
TICK_SECONDS = 6.0
SCRAPE_MS_GOAL = 200


class Scrape(NamedTuple):
    """One scrape: how long it took, how large it was, and what the exporter said of itself."""

    took_ms: float
    body_bytes: int
    series: float
    memory_bytes: float
    cpu_s: float
    accepted: float


class Writer:
    """Writes acceptances of all peers in turn, and a report of each tick."""

    def __init__(self, connection: Connection, config: Config) -> None:
        self._producer = Producer({**connection.librdkafka(), "linger.ms": 20, "compression.type": "lz4"})
        self._config = config
        self.written = 0

    def write(self, verdicts: int) -> None:
        for _ in range(verdicts):
            record = acceptance(self._config, self.written, now_ms())
            self._producer.produce(f"{PREFIX}.{Topic.VERDICTS}", record.value, record.key)
            self.written += 1
            if self.written % 1000 == 0:
                self._producer.poll(0)

    def report(self) -> None:
        record = large_report(self._config, now_ms())
        self._producer.produce(f"{PREFIX}.{Topic.MATRIX}", record.value, record.key)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0

    def run(self, stopped: threading.Event) -> None:
        """Keep the pace until told to stop; a second is written in tenths."""
        started, reported = time.monotonic(), 0.0
        for tenth in count(1):
            if stopped.is_set():
                break
            if time.monotonic() - reported > TICK_SECONDS:
                self.report()
                reported = time.monotonic()
            self.write(VERDICTS_S // 10)
            stopped.wait(max(started + tenth / 10 - time.monotonic(), 0))
        self.flush()


def run(connection: Connection) -> list[str]:
    """Measure; gives lines for docs/benchmarks.md."""
    config = large_swarm(PEERS)
    create_topics(connection, Setup(prefix=PREFIX))
    writer = Writer(connection, config)
    writer.report()
    writer.write(CAUGHT_UP_WITH)
    writer.flush()
    with TemporaryDirectory() as folder:
        swarms = Path(folder) / "swarms.yaml"
        swarms.write_text(config_yaml(config))
        started = time.monotonic()
        with start_exporter(connection.bootstrap, PREFIX, swarms) as exporter:
            start_s = time.monotonic() - started
            idle = [scrape(exporter) for _ in range(5)]
            loaded = list(_under_load(exporter, writer))
    lines = _lines(start_s, idle, loaded, writer.written)
    print("\n".join(lines), flush=True)
    return lines


def _under_load(exporter: Service, writer: Writer) -> Iterator[Scrape]:
    stopped = threading.Event()
    thread = threading.Thread(target=writer.run, args=(stopped,))
    thread.start()
    try:
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            yield scrape(exporter)
            time.sleep(SCRAPE_SECONDS)
    finally:
        stopped.set()
        thread.join()
    deadline = time.monotonic() + SECONDS
    while scrape(exporter).accepted < writer.written and time.monotonic() < deadline:
        time.sleep(0.5)
    yield scrape(exporter)


def scrape(exporter: Service) -> Scrape:
    started = time.monotonic()
    with urllib.request.urlopen(f"{exporter.url}/metrics", timeout=30) as answer:
        body = answer.read()
    took_ms = 1000 * (time.monotonic() - started)
    read = {
        sample.name: sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    names = ("quorumscope_exporter_series", "process_resident_memory_bytes", "process_cpu_seconds_total")
    accepted = read["quorumscope_accepted_segments_total"]
    return Scrape(took_ms, len(body), *(read[name] for name in names), accepted)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _lines(start_s: float, idle: list[Scrape], loaded: list[Scrape], written: int) -> list[str]:
    times = sorted(one.took_ms for one in loaded[:-1])
    cpu = (loaded[-1].cpu_s - loaded[0].cpu_s) / max(written - CAUGHT_UP_WITH, 1)
    memory = ", ".join(f"{one.memory_bytes / 1e6:.0f} MB" for one in (loaded[0], loaded[-1]))
    late = "reached" if times[-1] < SCRAPE_MS_GOAL else "**missed**"
    return [
        f"Exporter: {PEERS:,} peers, {loaded[-1].series:,.0f} series ({loaded[-1].body_bytes / 1e6:.1f} MB of text).",
        f"Started and caught up with {CAUGHT_UP_WITH:,} verdicts in {start_s:.1f} s.",
        "",
        "| | value | goal |",
        "|---|---:|---:|",
        f"| scrape without load, median of {len(idle)} | {median(one.took_ms for one in idle):.0f} ms | |",
        f"| scrape at {VERDICTS_S:,} verdicts/s, median of {len(times)} | {median(times):.0f} ms | |",
        f"| the slowest of them | {times[-1]:.0f} ms | {SCRAPE_MS_GOAL} ms: {late} |",
        f"| CPU of the exporter a verdict, scrapes included | {1e6 * cpu:.0f} µs | |",
        f"| memory after {CAUGHT_UP_WITH:,} and {written:,} verdicts | {memory} | bounded |",
        f"| verdicts counted | {loaded[-1].accepted:,.0f} of {written:,} | all |",
    ]
