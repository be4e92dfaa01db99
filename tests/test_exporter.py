"""The exporter as operators run it: it has read the topics before its port opens, and what it counted stays counted."""

import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from dashboards import exporter
from dashboards.board import Record
from dashboards.exporter import ABSORB_MAX, Exporter, ExporterSettings, run_exporter, tail_records
from dashboards.exposition import SampleCollector, make_registry, render
from dashboards.metrics import METRICS
from dashboards.samples import Sampler, Scope
from dashboards.site import Address
from producers.swarmfile import config_yaml
from state.config import Config
from state.connection import Connection
from state.fold import Topic
from state.verdict import Quarantine, encode_verdict, key_of
from streaming.broker import Broker
from streaming.follow import Follower
from streaming.parts import MissingPartError
from streaming.services import Service, start_exporter
from streaming.topics import Setup, create_topics
from tests.boardlab import (
    URL,
    acceptance,
    board_of,
    board_samples,
    by_label,
    compacted,
    large_report,
    large_swarm,
    records_of,
)
from tests.commandlab import run_here, sentence
from tests.simlab import simulated

DEADLINE_S = 20
START_MS = 1_767_225_600_000
STORY = "whole-story"

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""Values by name and labels."""


def read_series(body: str, kinds: tuple[str, ...] = ("gauge", "counter", "histogram")) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
        if family.type in kinds and family.name.startswith("quorumscope_")
    }


def counted(body: str) -> Series:
    """All that must never fall."""
    return read_series(body, ("counter", "histogram"))


def page_of(config: Config, records: list[Record]) -> str:
    """What an exporter has to serve that read these records."""
    board = board_of(config, records)
    return render(make_registry(SampleCollector(METRICS, lambda: board_samples(board, URL, Scope())))).decode()


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        return answer.read().decode()


def readiness(service: Service) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"{service.url}/-/ready", timeout=DEADLINE_S) as answer:
            return answer.status, msgspec.json.decode(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, msgspec.json.decode(refused.read())


def wait_for(condition: Callable[[], bool], seconds: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


# With feeds that are not Kafka's.


class Message(NamedTuple):
    """A record as Kafka's client gives it."""

    record: Record

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def timestamp(self) -> tuple[int, int]:
        return 1, self.record.time_ms


class Feed:
    """Records that are there, records that come later, and a Kafka that may be gone."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.standing = list(records)
        self.coming: list[Record] = []
        self.lag: int | None = 0
        self.on_poll: Callable[[], object] = lambda: None

    def read_to_end(self) -> Iterator[Message]:
        yield from map(Message, self.standing)

    def poll(self, seconds: float) -> Iterator[Message]:
        assert seconds < 1
        self.on_poll()
        come, self.coming = self.coming, []
        yield from map(Message, come)

    def unread(self) -> int | None:
        return self.lag


def lab(count: int = 0) -> tuple[Config, Feed, Feed, Exporter]:
    """An exporter of a swarm of four, and a topic with so many acceptances."""
    config = large_swarm(4)
    verdicts = Feed(acceptance(config, number, START_MS + number) for number in range(count))
    matrix = Feed([large_report(config, START_MS)])
    feeds = {Topic.VERDICTS: verdicts, Topic.MATRIX: matrix}
    return config, verdicts, matrix, Exporter(config, feeds, lambda: START_MS + 10_000)


def ignore(_: str) -> None:
    pass


def never() -> bool:
    return False


def test_it_has_caught_up_when_it_has_read_both_topics_and_says_how_much() -> None:
    said: list[str] = []
    *_, lab_exporter = lab(2 * ABSORB_MAX + 1)
    assert not lab_exporter.health().is_ready
    assert lab_exporter.catch_up(said.append, never)
    assert said == ["read verdicts: 2,001 records", "read matrix: 1 records"]
    health = lab_exporter.health()
    assert health.is_ready
    assert health.last_verdict_age_s == (10_000 - 2 * ABSORB_MAX) / 1000


def test_a_long_topic_is_told_of_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "SAY_SECONDS", 0)
    said: list[str] = []
    _, verdicts, _, lab_exporter = lab(ABSORB_MAX + 1)
    verdicts.lag = 1234
    lab_exporter.catch_up(said.append, never)
    assert said[0] == "read 1,000 records of verdicts, 1,234 to go"


def test_it_can_be_stopped_while_it_reads_and_serves_nothing_then() -> None:
    config, verdicts, matrix, _ = lab(5 * ABSORB_MAX)
    said: list[str] = []
    asked = iter([False, True])
    settings = ExporterSettings(Address("127.0.0.1", 0), "1")
    run_exporter(config, {Topic.VERDICTS: verdicts, Topic.MATRIX: matrix}, settings, said.append, lambda: next(asked))
    assert said == []


def test_it_takes_in_what_comes_and_asks_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "ASK_SECONDS", -1)
    config, verdicts, matrix, lab_exporter = lab(1)
    lab_exporter.catch_up(ignore, never)
    lags: list[tuple[int | None, int | None]] = [(7, 0), (None, 0), (60_000, 0), (0, 0)]
    sentences = []
    for verdicts.lag, matrix.lag in lags:
        verdicts.coming = [acceptance(config, len(sentences) + 1, START_MS + 5000)]
        asked = iter([False, True])
        lab_exporter.follow(lambda asked=asked: next(asked))  # type: ignore[misc]
        sentences.append(lab_exporter.health().sentence())
    assert sentences == [
        "ready; the newest verdict is 5.0 s old",
        "Kafka does not answer: what is shown is what was read before",
        "behind: 60,000 records of verdicts are not read yet",
        "ready; the newest verdict is 5.0 s old",
    ]
    (watch,) = lab_exporter.board.watches.values()
    assert [tally.segments for tally in watch.spread.accepted()] == [5]


def test_nobody_who_looks_waits_for_records_that_have_not_come() -> None:
    _, verdicts, _, lab_exporter = lab(1)
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        go_on.wait(DEADLINE_S)

    verdicts.on_poll = wait
    thread = threading.Thread(target=lab_exporter.follow, args=(go_on.is_set,))
    thread.start()
    try:
        assert waiting.wait(DEADLINE_S)
        assert lab_exporter.board.lock.acquire(timeout=DEADLINE_S / 4)
        lab_exporter.board.lock.release()
    finally:
        go_on.set()
        thread.join()


def test_a_quarantine_counts_until_somebody_withdraws_it() -> None:
    config, verdicts, _, lab_exporter = lab()
    key = key_of(Quarantine, "logs", "00")
    quarantine = Quarantine(key=key, swarm="", config=config.digest, fold="logs", fold_key="00", error="a bug")
    verdicts.standing = [Record(Topic.VERDICTS, key.encode(), encode_verdict(quarantine), START_MS)]
    lab_exporter.catch_up(ignore, never)
    sampler = Sampler(URL, Scope())
    assert by_label(lab_exporter.samples(sampler, "1", URL), "quarantined_keys") == {("logs",): 1}
    lab_exporter.board.absorb([verdicts.standing[0]._replace(value=None)])
    assert by_label(lab_exporter.samples(sampler, "1", URL), "quarantined_keys") == {}


def test_of_the_reports_some_ticks_of_each_block_are_read() -> None:
    config = large_swarm(4)
    (swarm,) = config.swarms
    many = Config(tuple(msgspec.structs.replace(swarm, id=f"{n:064x}", name=f"s{n}", blocks=5) for n in range(9)))
    assert tail_records(config) == 64
    assert tail_records(many) == 4 * 9 * 5


# The command line, in this process.


@pytest.fixture
def swarms(tmp_path: Path) -> Path:
    path = tmp_path / "swarms.yaml"
    path.write_text(config_yaml(simulated(STORY).config))
    return path


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process, to the end."""
    return partial(run_here, monkeypatch, capfd, "exporter")


@pytest.mark.parametrize("listen", ["9464", "127.0.0.1", "127.0.0.1:", ":9464", "127.0.0.1:http", "127.0.0.1:70000"])
def test_a_wrong_address_to_listen_on_is_one_sentence_and_exit_code_two(run: Run, swarms: Path, listen: str) -> None:
    told = sentence(run("--swarms", swarms, "--bootstrap", "127.0.0.1:9", "--listen", listen), 2)
    assert f"--listen: expected HOST:PORT, such as 127.0.0.1:9464, got '{listen}'" in told


def test_wrong_swarms_are_one_sentence_and_exit_code_two(run: Run, swarms: Path) -> None:
    assert "--bootstrap" in sentence(run("--swarms", swarms), 2)
    swarms.write_text("swarms: 5\n")
    assert str(swarms) in sentence(run("--swarms", swarms, "--bootstrap", "127.0.0.1:9"), 2)
    assert "cannot be read" in sentence(run("--swarms", swarms.parent / "none", "--bootstrap", "127.0.0.1:9"), 2)


def test_a_broker_that_cannot_be_reached_is_one_sentence_and_exit_code_three(
    run: Run, swarms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.topics.REQUEST_TIMEOUT_S", 0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"no Kafka broker answers at {bootstrap}" in sentence(
            run("--swarms", swarms, "--bootstrap", bootstrap), 3
        )


# With the real broker, and the exporter as a process of its own.


class Topics:
    """The two topics of a deployment of its own."""

    def __init__(self, broker: Broker, config: Config, folder: Path) -> None:
        self.bootstrap = broker.bootstrap
        self.connection = Connection(bootstrap=broker.bootstrap)
        self.prefix = f"test-{uuid.uuid4().hex}"
        self.swarms = folder / f"{self.prefix}.yaml"
        self.swarms.write_text(config_yaml(config))
        create_topics(self.connection, Setup(prefix=self.prefix))
        self._producer = Producer({**self.connection.librdkafka(), "log_level": 0})

    def write(self, records: Iterable[Record]) -> None:
        """With times of now: records of another year would expire."""
        errors: list[Any] = []
        for record in records:
            self._producer.produce(
                f"{self.prefix}.{record.topic}",
                record.value,
                record.key,
                on_delivery=lambda error, _: errors.append(error),
            )
            self._producer.poll(0)
        assert self._producer.flush(DEADLINE_S) == 0
        assert {*errors} <= {None}

    def exporter(self) -> Service:
        return start_exporter(self.bootstrap, self.prefix, self.swarms)

    def arguments(self, **more: str) -> list[str]:
        options = {"bootstrap": self.bootstrap, "prefix": self.prefix, "swarms": str(self.swarms)} | more
        return [part for name, text in options.items() for part in (f"--{name}", text)]


def metrics(service: Service) -> str:
    return fetch(f"{service.url}/metrics")


@pytest.mark.kafka
def test_it_has_read_all_when_its_port_opens_follows_and_counts_the_same_when_it_starts_again(
    broker: Broker, tmp_path: Path
) -> None:
    config, records = simulated(STORY).config, records_of(STORY)
    topics, short = (Topics(broker, config, tmp_path) for _ in range(2))
    half = len(records) // 2
    topics.write(records[:half])
    with topics.exporter() as service:
        first = counted(metrics(service))
        assert first == counted(page_of(config, records[:half]))
        assert f"serving {service.url}/ and {service.url}/metrics" in service.log_end()
        topics.write(records[half:])
        whole = counted(page_of(config, records))
        assert whole != first
        wait_for(lambda: counted(metrics(service)) == whole, 5)
        status, facts = readiness(service)
        assert (status, facts["lag_records"]) == (200, {"verdicts": 0, "matrix": 0})
        assert 0 <= facts["last_verdict_age_seconds"] < DEADLINE_S
        service.kill()
        with pytest.raises(urllib.error.URLError):
            metrics(service)
        service.restart()
        assert counted(metrics(service)) == whole
    short.write(compacted(records))
    with short.exporter() as service:
        again = counted(metrics(service))
    assert again.keys() == whole.keys()
    # Of a latency the buckets may rise: the last verdict of a key knows of earlier observers than the first one did.
    assert all(again[one] >= count for one, count in whole.items())
    assert all(again[one] == count for one, count in whole.items() if not one[0].endswith("_bucket"))


@pytest.mark.kafka
def test_bad_bytes_are_counted_and_skipped_what_is_withdrawn_is_gone_and_it_ends_when_told_to(
    broker: Broker, tmp_path: Path
) -> None:
    config = simulated("withheld-story").config
    story = records_of("withheld-story")
    missing = [one for one in story if (one.key or b"").startswith(b"missing/")]
    verdicts = [one for one in story if one.topic == Topic.VERDICTS and one not in missing]
    keys = {Topic.VERDICTS: (b"\xff", b"key"), Topic.MATRIX: (b"\xff", None)}
    junk = [Record(topic, key, b"\xff" * 9, 0) for topic, some in keys.items() for key in some]
    odd = [*junk, Record(Topic.VERDICTS, b"nobody wrote this", None, 0), Record(Topic.MATRIX, b"k", None, 0)]
    topics = Topics(broker, config, tmp_path)
    # More than is read of the end of `.matrix`, so most of these are never seen.
    topics.write([Record(Topic.MATRIX, b"old", b"junk", 0)] * 500)
    topics.write([*odd, *verdicts, missing[0]])
    (swarm,) = config.swarms
    with topics.exporter() as service:
        assert f"read matrix: {tail_records(config)} records" in service.log_end()
        shown = read_series(metrics(service))
        assert shown[unreadable(Topic.VERDICTS)] == 2
        assert shown[unreadable(Topic.MATRIX)] == tail_records(config)
        name = next(name for name, key in swarm.epochs[0].roster.items() if key in str(missing[0].key))
        gauge = label("missing_segments", swarm=swarm.name, peer=name)
        assert shown[gauge] == 1
        topics.write([missing[0]._replace(value=None), *junk])
        wait_for(lambda: read_series(metrics(service))[gauge] == 0)
        wait_for(lambda: read_series(metrics(service))[unreadable(Topic.MATRIX)] == tail_records(config) + 2)
        assert read_series(metrics(service))[unreadable(Topic.VERDICTS)] == 4
        assert readiness(service)[0] == 200
        service._process.signal(signal.SIGTERM)
        wait_for(lambda: service._process.status() is not None)
        assert service._process.status() == 0
        assert "Traceback" not in service.log_end()


def label(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"quorumscope_{name}", frozenset(labels.items())


def unreadable(topic: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return label("exporter_unreadable_records", topic=topic)


@pytest.mark.kafka
def test_a_kafka_that_is_gone_is_told_in_words_and_waited_for(tmp_path: Path) -> None:
    config, records = simulated(STORY).config, records_of(STORY)
    half = len(records) // 2
    with Broker() as own:
        topics = Topics(own, config, tmp_path)
        topics.write(records[:half])
        with topics.exporter() as service:
            before = counted(metrics(service))
            assert readiness(service)[0] == 200
            own.kill()
            wait_for(lambda: readiness(service)[0] == 503, 15)
            status, facts = readiness(service)
            assert (status, facts["ready"], facts["reachable"]) == (503, False, False)
            assert facts["state"] == "Kafka does not answer: what is shown is what was read before"
            assert counted(metrics(service)) == before
            own.restart()
            wait_for(lambda: readiness(service)[0] == 200, 15)
            topics.write(records[half:])
            wait_for(lambda: counted(metrics(service)) == counted(page_of(config, records)))


@pytest.mark.kafka
def test_a_topic_that_there_is_not_and_a_port_in_use_are_one_sentence_and_exit_code_three(
    broker: Broker, tmp_path: Path, run: Run
) -> None:
    topics = Topics(broker, simulated(STORY).config, tmp_path)
    told = sentence(run(*topics.arguments(prefix="no-such")), 3)
    assert "the topic no-such.verdicts does not exist: give the right --prefix" in told
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        told = sentence(run(*topics.arguments(listen=listen)), 3)
    assert f"cannot listen on {listen} (" in told


@pytest.mark.kafka
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_topic_that_ends_with_what_no_client_is_given_is_read_to_its_end(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    monkeypatch.setattr("streaming.follow.SILENT_SECONDS_MAX", 5.0)
    topics = Topics(broker, simulated(STORY).config, tmp_path)
    topic = f"{topics.prefix}.verdicts"
    topics.write(records_of(STORY)[:3])
    writer = Producer({**topics.connection.librdkafka(), "transactional.id": topic})
    writer.init_transactions(DEADLINE_S)
    writer.begin_transaction()
    writer.produce(topic, b"value", b"key")
    if is_committed:
        writer.commit_transaction(DEADLINE_S)
    else:
        writer.flush(DEADLINE_S)
        writer.abort_transaction(DEADLINE_S)
    follower = Follower(topics.connection, topic)
    try:
        assert len(list(follower.read_to_end())) == 3 + is_committed
        assert follower.unread() == 0
    finally:
        follower.close()


@pytest.mark.kafka
def test_a_topic_that_gives_nothing_before_its_end_is_given_up(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(broker, simulated(STORY).config, tmp_path)
    topics.write(records_of(STORY)[:3])
    follower = Follower(topics.connection, f"{topics.prefix}.verdicts")
    monkeypatch.setattr("streaming.follow.SILENT_SECONDS_MAX", 0.1)
    monkeypatch.setattr(follower, "poll", lambda _seconds: time.sleep(0.05) or iter(()))
    with pytest.raises(MissingPartError, match="gave no record for 0 s, before its end"):
        list(follower.read_to_end())
    follower.close()
