"""The demo: broker, topics, Spark and a swarm on one machine; lies, a split, their verdicts, and proofs that check out.

The swarm comes from outside (a `Story`), because only the command line knows what peers are made of.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from state.config import Config, Swarm
from state.connection import Connection
from state.fold import Topic
from state.history import History
from state.verdict import AnyVerdict
from streaming.broker import Broker
from streaming.ending import Findings, Part, Truth, evidence, has_found_all, latency_lines, proof, verdict_lines
from streaming.failure import explain_failure
from streaming.job import Settings, running
from streaming.pipeline import Pipeline
from streaming.queries import QUERIES
from streaming.reports import ReportReader
from streaming.scene import Scene
from streaming.segments import read_segments
from streaming.services import start_exporter
from streaming.session import start_session
from streaming.showcase import Showcase, Wishes, showing
from streaming.topics import Setup, create_topics
from streaming.verdicts import Update, VerdictReader
from streaming.view import View, numbers, open_view

MASTER = "local[2]"
WAKE_SECONDS_MAX = 120.0
"""How long Spark may take for its first batch: some ten seconds, and more on a machine that has other things to do."""

CATCH_UP_SECONDS_MAX = 60.0
"""How long the job may take, after the last segment was published, to have judged them all."""

Publish = Callable[[Connection, str, Callable[[], None], Callable[[], bool]], int]
"""Publishes to a topic in real time, tells of each record, and ends early when it is told to stop."""


class Story(NamedTuple):
    """A swarm that is to be watched, what will happen in it, and how it is set going."""

    config: Config
    swarms_yaml: str
    lines: list[tuple[int, str]]
    """Milliseconds from the start, and what happens then."""
    truth: Truth
    records: int
    publish: Publish


Tell = Callable[[int, int], Story]
"""Makes the story of a seed that starts at a time."""


def run_demo(tell: Tell, out: Path, seed: int, wishes: Wishes, *, forever: bool, stop: Callable[[], bool]) -> bool:
    """Run the demo; whether what is true about the story, and nothing else, was found and proved."""
    out.mkdir(parents=True, exist_ok=True)
    print("starting a Kafka broker and Spark on this machine (about 25 seconds) …", flush=True)
    with tempfile.TemporaryDirectory(prefix="quorumscope-demo-") as scratch, ThreadPoolExecutor(1) as beside:
        # Spark takes longer to start than the broker, so it starts beside it.
        spark = beside.submit(start_session, MASTER, 1, None, out / "spark.log")
        pipeline = Pipeline(QUERIES)
        with Broker() as broker, showing(wishes, pipeline) as showcase:
            _print(showcase.lines())
            spark.result()
            good = True
            rounds = 0
            while not stop() and (forever or rounds == 0):
                place = _Place(Connection(bootstrap=broker.bootstrap), f"demo-{rounds + 1}", Path(scratch), out)
                good &= _Round(tell(seed + rounds, _now_ms()), place, pipeline, showcase).run(stop)
                rounds += 1
            return good


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Place(NamedTuple):
    connection: Connection
    prefix: str
    scratch: Path
    out: Path


class _Round:
    """One story, from its first segment to the proofs."""

    def __init__(self, story: Story, place: _Place, pipeline: Pipeline, showcase: Showcase) -> None:
        self._story = story
        self._place = place
        self._pipeline = pipeline
        self._showcase = showcase
        self._swarm: Swarm = story.config.swarms[0]
        self._scene = Scene(story.config, story.records)
        self._lines = list(story.lines)
        self._verdicts: dict[str, AnyVerdict] = {}
        self._settings = Settings(
            story.config, place.connection, place.scratch / place.prefix, place.prefix, MASTER, offsets_max=5000
        )

    def run(self, stop: Callable[[], bool]) -> bool:
        place, story = self._place, self._story
        swarms = place.out / "swarms.yaml"
        swarms.write_text(story.swarms_yaml, encoding="utf-8")
        create_topics(place.connection, Setup(prefix=place.prefix, partitions=2))
        self._pipeline.begin()
        self._scene.segments, self._scene.ticks = (self._pipeline.totals[name] for name in ("segments", "matrix"))
        with (
            start_exporter(place.connection.bootstrap, place.prefix, swarms, self._showcase.exporter_port),
            running(self._settings, self._pipeline) as queries,
            open_view() as view,
        ):
            self._watch(queries, view, stop)
        return stop() or self._sum_up()

    def _watch(self, queries: Mapping[str, Any], view: View, stop: Callable[[], bool]) -> None:
        """Publish and look on until all that was published has been judged."""
        place, halt = self._place, threading.Event()
        self._wake(queries["segments"], stop)
        self._scene.start(_now_ms())
        self._scene.tell("a record that is no segment is rejected, and kept as a dead letter")
        with (
            closing(VerdictReader(place.connection, place.prefix)) as verdicts,
            closing(ReportReader(place.connection, place.prefix, self._swarm.key)) as reports,
            ThreadPoolExecutor(1) as beside,
        ):
            publishing = beside.submit(
                self._story.publish,
                place.connection,
                f"{place.prefix}.{Topic.SEGMENTS}",
                self._published,
                lambda: stop() or halt.is_set(),
            )
            try:
                for _ in self._until_judged(publishing, stop):
                    self._look(queries, verdicts, reports)
                    view.show(self._scene)
            finally:
                halt.set()
            if not stop():
                self._verdicts = dict(verdicts.read_to_end())
                for key, verdict in self._verdicts.items():
                    self._scene.add(Update(key, verdict))

    def _wake(self, query: Any, stop: Callable[[], bool]) -> None:
        """Let Spark start its workers on a record that is no segment, so that the story is watched from its start."""
        from confluent_kafka import Producer

        producer = Producer(self._place.connection.librdkafka())
        producer.produce(f"{self._place.prefix}.{Topic.SEGMENTS}", b"good morning")
        producer.flush()
        deadline = time.monotonic() + WAKE_SECONDS_MAX
        while not stop() and self._scene.segments.records == 0 and time.monotonic() < deadline:
            self._raise_if_failed({"segments": query})
            self._scene.segments.update(query)
            time.sleep(0.1)

    def _raise_if_failed(self, queries: Mapping[str, Any]) -> None:
        for query in queries.values():
            error = query.exception()
            if error is not None:
                raise explain_failure(error, self._settings)

    def _until_judged(self, publishing: Future[int], stop: Callable[[], bool]) -> Iterator[None]:
        """Goes on while there is something to look at, and a while longer if it does not come."""
        scene, deadline = self._scene, float("inf")
        while not stop() and time.monotonic() < deadline:
            yield
            if publishing.done():
                publishing.result()
                deadline = min(deadline, time.monotonic() + CATCH_UP_SECONDS_MAX)
                # One more than was published: the record that woke Spark.
                is_read = scene.segments.records > scene.published
                if is_read and scene.ticks.records >= scene.segments.counts["ticks_reported"]:
                    return

    def _look(self, queries: Mapping[str, Any], verdicts: VerdictReader, reports: ReportReader) -> None:
        scene = self._scene
        scene.now_ms = _now_ms()
        scene.segments.update(queries["segments"])
        scene.ticks.update(queries["matrix"])
        self._raise_if_failed(queries)
        while self._lines and scene.elapsed_s * 1000 >= self._lines[0][0]:
            scene.tell(self._lines.pop(0)[1])
        for update in verdicts.poll(0.2):
            scene.now_ms = _now_ms()
            scene.add(update)
        scene.matrix = reports.poll(0) or scene.matrix
        scene.news.settle(scene.elapsed_s)

    def _published(self) -> None:
        self._scene.published += 1

    def _sum_up(self) -> bool:
        out, scene = self._place.out, self._scene
        findings = Findings(self._story.config, list(self._verdicts.values()))
        print(f"\nwatched {scene.elapsed_s:.0f} s: {numbers(scene)}")
        _print(verdict_lines(findings))
        for name, after_ms in scene.found_after_ms.items():
            print(f"the lie of {name} was found {after_ms / 1000:.1f} s after its second version reached Kafka")
        _print(latency_lines(scene.acceptance))
        fired = self._showcase.fired()
        if fired:
            print(f"alerts that fired: {', '.join(fired)}")
        parts = [evidence(verdict, findings, out) for verdict in findings.equivocations]
        parts.append(self._prove(findings))
        for part in parts:
            _print(part.lines)
        print(f"the swarm's file is {out / 'swarms.yaml'}; Spark's log is {out / 'spark.log'}")
        right = has_found_all(self._story.truth, findings.verdicts) and all(part.good for part in parts)
        print(
            "every liar and every split was found, and nothing else"
            if right
            else "what was found is not what is true about the simulation"
        )
        return right

    def _prove(self, findings: Findings) -> Part:
        reading = read_segments(self._place.connection, self._place.prefix, self._swarm, lambda _read, _total: None)
        history = History(self._swarm.key, reading.copies, from_start=reading.from_start)
        return proof(findings, history, self._place.out)


def _print(lines: Iterator[str] | list[str]) -> None:
    for line in lines:
        print(line)
