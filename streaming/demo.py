"""The demo: broker, topics, Spark and a swarm on one machine; a lie, its verdict, and evidence that checks out offline.

The swarm comes from outside (a `Story`), because only the command line knows what peers are made of.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from state import wire_pb2
from state.config import Config, Swarm
from state.connection import Connection
from state.evidence import EvidenceError, Proved, check_evidence, make_evidence
from state.fold import Topic
from state.head import decode_head
from state.verdict import AnyVerdict, Equivocation, Fork
from state.words import describe
from streaming.broker import Broker
from streaming.job import Settings, running
from streaming.session import start_session
from streaming.topics import Setup, create_topics
from streaming.verdicts import VerdictReader
from streaming.view import Scene, View, numbers, open_view

MASTER = "local[2]"
CATCH_UP_SECONDS_MAX = 60.0
"""How long the job may take, after the last segment was published, to have read them all."""

Publish = Callable[[Connection, str, Callable[[bytes], None], Callable[[], bool]], int]


class Story(NamedTuple):
    """A swarm that is to be watched, what will happen in it, and how it is set going."""

    config: Config
    swarms_yaml: str
    lines: list[tuple[int, str]]
    """Milliseconds from the start, and what happens then."""
    liars: set[str]
    records: int
    publish: Publish


Tell = Callable[[int, int], Story]
"""Makes the story of a seed that starts at a time."""


def run_demo(tell: Tell, out: Path, seed: int, *, forever: bool, stop: Callable[[], bool]) -> bool:
    """Run the demo; whether every liar, and nobody else, was found and proved."""
    out.mkdir(parents=True, exist_ok=True)
    print("starting a Kafka broker and Spark on this machine (about 15 seconds) …", flush=True)
    with tempfile.TemporaryDirectory(prefix="quorumscope-demo-") as scratch, ThreadPoolExecutor(1) as beside:
        # Spark takes longer to start than the broker, so it starts beside it.
        spark = beside.submit(start_session, MASTER, 1, None, out / "spark.log")
        with Broker() as broker:
            spark.result()
            good = True
            rounds = 0
            while not stop() and (forever or rounds == 0):
                place = _Place(Connection(bootstrap=broker.bootstrap), f"demo-{rounds + 1}", Path(scratch), out)
                good &= _Round(tell(seed + rounds, time.time_ns() // 1_000_000), place).run(stop)
                rounds += 1
            return good


def _program() -> str:
    """How this program was called, so that a line can be pasted as it stands."""
    return sys.argv[0] if sys.argv[0].endswith("quorumscope") else "quorumscope"


class _Place(NamedTuple):
    connection: Connection
    prefix: str
    scratch: Path
    out: Path


class _Round:
    """One story, from its first segment to the proof."""

    def __init__(self, story: Story, place: _Place) -> None:
        self._story = story
        self._place = place
        self._swarm: Swarm = story.config.swarms[0]
        self._scene = Scene(list(self._swarm.epochs[-1].roster), story.records)
        self._lines = list(story.lines)
        self._found_after_s: float | None = None

    def run(self, stop: Callable[[], bool]) -> bool:
        place, story = self._place, self._story
        (place.out / "swarms.yaml").write_text(story.swarms_yaml, encoding="utf-8")
        create_topics(place.connection, Setup(prefix=place.prefix, partitions=2))
        settings = Settings(
            story.config, place.connection, place.scratch / place.prefix, place.prefix, MASTER, offsets_max=5000
        )
        with running(settings) as queries, open_view() as view:
            self._watch(queries["segments"], view, stop)
        return stop() or self._sum_up()

    def _watch(self, query: object, view: View, stop: Callable[[], bool]) -> None:
        """Publish and look on until all that was published has been read."""
        place, scene = self._place, self._scene
        reader = VerdictReader(place.connection, place.prefix)
        scene.started = time.monotonic()
        topic = f"{place.prefix}.{Topic.SEGMENTS}"
        with ThreadPoolExecutor(1) as beside:
            halt = threading.Event()
            publishing = beside.submit(
                self._story.publish, place.connection, topic, self._published, lambda: stop() or halt.is_set()
            )
            try:
                deadline = float("inf")
                while not stop() and time.monotonic() < deadline:
                    for update in reader.poll(0.2):
                        if update.verdict is not None:
                            self._found(update.verdict)
                    scene.totals.update(query)
                    self._tell_story()
                    view.show(scene)
                    if publishing.done():
                        publishing.result()
                        deadline = min(deadline, time.monotonic() + CATCH_UP_SECONDS_MAX)
                        if scene.totals.records >= scene.published and self._has_found_all():
                            break
            finally:
                halt.set()
        self._verdicts = list(reader.read_to_end().values()) if not stop() else []
        reader.close()

    def _published(self, value: bytes) -> None:
        head = decode_head(wire_pb2.Segment.FromString(value).head)
        scene, peer = self._scene, self._swarm.authors[head.author]
        scene.published += 1
        scene.tips[peer] = max(scene.tips[peer], head.index)
        scene.ops[peer] += head.ops_count

    def _found(self, verdict: AnyVerdict) -> None:
        scene = self._scene
        scene.add_news(describe(verdict, self._story.config), alarm=True)
        if isinstance(verdict, Fork):
            scene.forks += 1
            scene.accused.add(self._swarm.authors[bytes.fromhex(verdict.author)])
            proved_ms = sorted(branch.seen_ms for branch in verdict.branches)[1]
            self._found_after_s = time.time() - proved_ms / 1000

    def _has_found_all(self) -> bool:
        names = {self._swarm.authors[bytes.fromhex(author)] for author in self._story.liars}
        return names <= self._scene.accused

    def _tell_story(self) -> None:
        while self._lines and self._scene.elapsed * 1000 >= self._lines[0][0]:
            self._scene.add_news(self._lines.pop(0)[1])

    def _sum_up(self) -> bool:
        scene, out = self._scene, self._place.out
        print(f"\nwatched {scene.elapsed:.0f} s: {numbers(scene)}")
        for verdict in self._verdicts:
            print(f"verdict: {describe(verdict, self._story.config)}")
        if self._found_after_s is not None:
            print(f"the lie was found {self._found_after_s:.1f} s after its second version reached Kafka")
        accused = {verdict.author for verdict in self._verdicts if isinstance(verdict, Equivocation)}
        proofs = [self._prove(verdict) for verdict in self._verdicts if isinstance(verdict, Equivocation)]
        print(f"the swarm's file is {out / 'swarms.yaml'}; Spark's log is {out / 'spark.log'}")
        right = accused == self._story.liars and all(proofs)
        print("every liar was found, and nobody else" if right else "the verdicts are not those of the simulation")
        return right

    def _prove(self, verdict: Equivocation) -> Proved | None:
        """Write the evidence and check it as anyone would: from the file alone."""
        name = self._swarm.authors[bytes.fromhex(verdict.author)]
        path = self._place.out / f"evidence-{name}.json"
        path.write_bytes(make_evidence(*verdict.evidence))
        try:
            proved = check_evidence(path.read_bytes(), self._story.config)
        except EvidenceError as error:
            print(f"evidence: {path}: refused: {error}")
            return None
        print(f"evidence: {path}\n  checked offline: {proved.sentence()}")
        print(f"  check it yourself: {_program()} verify {path} --swarms {self._place.out / 'swarms.yaml'}")
        return proved
