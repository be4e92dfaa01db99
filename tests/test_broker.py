"""The embedded broker is a real one, keeps its data, and never outlives its owner."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaConsumer

from state.connection import Connection
from streaming import broker as broker_module
from streaming import brokersettings
from streaming.broker import Broker
from streaming.guard import BrokerError

pytestmark = pytest.mark.kafka

DEADLINE_SECONDS = 30

# An owner that tells where its broker is and then waits to be ended from outside. Ctrl-C ends it also if what started
# the tests runs in the background, where a shell has it ignored.
OWNER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from streaming.broker import Broker
with Broker() as broker:
    print(broker.folder, broker.bootstrap, flush=True)
    {then}
"""


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s: {what}"
        time.sleep(0.05)


def new_topic(broker: Broker, **config: str) -> str:
    name = f"test-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, num_partitions=1, config=config)])[name].result(DEADLINE_SECONDS)
    return name


def produce(broker: Broker, topic: str, values: list[bytes], timestamp_ms: int = 0) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 8 << 20, "acks": "all"})
    for value in values:
        producer.produce(
            topic, value, timestamp=timestamp_ms, on_delivery=lambda error, _: error and failures.append(error)
        )
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not failures


def consume(broker: Broker, topic: str, count: int) -> list[tuple[bytes, int]]:
    """Values and record times, read by a consumer group."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    records: list[tuple[bytes, int]] = []

    def read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            records.append((message.value(), message.timestamp()[1]))
        return len(records) >= count

    try:
        wait_until(read, f"{count} records")
    finally:
        consumer.close()
    return records


def listening(bootstrap: str) -> bool:
    host, port = bootstrap.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def processes_in(folder: Path) -> list[str]:
    """The commands of the processes that name the folder."""
    return [command for command in commands() if str(folder) in command]


def commands() -> Iterator[str]:
    if not Path("/proc/self").exists():  # macOS
        listed = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True)
        yield from listed.stdout.splitlines()
    for path in Path("/proc").glob("[0-9]*/cmdline"):  # a slim image has no ps
        with contextlib.suppress(OSError):  # it ended meanwhile
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def assert_gone(folder: Path, bootstrap: str) -> None:
    wait_until(lambda: not folder.exists(), "directory removed")
    wait_until(lambda: not processes_in(folder), "no process left")
    assert not listening(bootstrap)


class Owner:
    """Another process that owns a broker."""

    def __init__(self, then: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER.format(then=then)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=Path(broker_module.__file__).parents[1],
        )
        assert self.process.stdout is not None
        folder, self.bootstrap = self.process.stdout.readline().split()
        self.folder = Path(folder)
        assert self.folder.is_dir()
        assert processes_in(self.folder)

    def wait(self) -> int:
        return self.process.wait(DEADLINE_SECONDS)


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker that the test may stop and kill."""
    with Broker() as started:
        yield started


def test_what_one_client_writes_another_reads(broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, [b"one", b"two"])
    assert [value for value, _ in consume(broker, topic, 2)] == [b"one", b"two"]


def test_an_independent_client_reads_it_too(broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, [b"one", b"two"])
    reader = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=DEADLINE_SECONDS * 1000,
    )
    try:
        assert [next(reader).value for _ in range(2)] == [b"one", b"two"]
    finally:
        reader.close()


@pytest.mark.parametrize("timestamp_ms", [1, 4_102_444_800_000], ids=["1970", "2100"])
def test_records_of_any_time_are_taken_and_kept(broker: Broker, timestamp_ms: int) -> None:
    topic = new_topic(broker)
    produce(broker, topic, [b"then"], timestamp_ms)
    assert consume(broker, topic, 1) == [(b"then", timestamp_ms)]


def test_no_record_is_dropped_for_its_age(broker: Broker) -> None:
    # The broker looks for old records every five minutes only, so its settings are asked and not its deeds.
    resource = ConfigResource(ConfigResource.Type.TOPIC, new_topic(broker))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)
    assert settings["retention.ms"].value == "-1"
    assert settings["retention.bytes"].value == "-1"


def test_a_record_of_four_mebibytes_is_taken(broker: Broker) -> None:
    topic = new_topic(broker)
    produce(broker, topic, [os.urandom(4 << 20)])
    assert len(consume(broker, topic, 1)[0][0]) == 4 << 20


def test_an_unknown_topic_is_not_made_by_asking_for_it(broker: Broker) -> None:
    name = f"test-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.list_topics(name, timeout=DEADLINE_SECONDS)
    assert name not in admin.list_topics(timeout=DEADLINE_SECONDS).topics


def test_a_restart_keeps_the_address_and_the_data(own: Broker) -> None:
    topic, before = new_topic(own), own.bootstrap
    produce(own, topic, [b"kept"])
    own.restart()
    assert own.bootstrap == before
    produce(own, topic, [b"added"])
    assert [value for value, _ in consume(own, topic, 2)] == [b"kept", b"added"]


def test_a_killed_broker_comes_back_with_its_data(own: Broker) -> None:
    topic = new_topic(own)
    produce(own, topic, [b"kept"])
    own.kill()
    assert not listening(own.bootstrap)
    own.restart()
    assert [value for value, _ in consume(own, topic, 1)] == [b"kept"]


def test_two_brokers_live_side_by_side(own: Broker, broker: Broker) -> None:
    topic = new_topic(own)
    assert topic not in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics


def test_nothing_is_left_after_stop() -> None:
    broker = Broker()
    broker.start()
    folder, bootstrap = broker.folder, broker.bootstrap
    broker.stop()
    assert not folder.exists()
    assert not processes_in(folder)
    assert not listening(bootstrap)
    broker.stop()  # a second time does nothing


def test_nothing_is_left_when_the_owner_fails() -> None:
    owner = Owner("raise SystemExit(7)")
    assert owner.wait() == 7
    assert_gone(owner.folder, owner.bootstrap)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP], ids=lambda number: number.name
)
def test_nothing_is_left_when_the_owner_is_ended_by(number: signal.Signals) -> None:
    owner = Owner("time.sleep(600)")
    os.killpg(owner.process.pid, number)  # as the terminal does: the whole group
    owner.wait()
    assert_gone(owner.folder, owner.bootstrap)


def test_nothing_is_left_when_a_forked_copy_of_the_dead_owner_lives_on() -> None:
    owner = Owner("import os; child = os.fork(); print(child, flush=True) if child else None; time.sleep(600)")
    assert owner.process.stdout is not None
    child = int(owner.process.stdout.readline())
    try:
        owner.process.kill()
        owner.wait()
        assert_gone(owner.folder, owner.bootstrap)
    finally:
        os.kill(child, signal.SIGKILL)


def test_an_owner_that_is_interrupted_while_the_broker_starts_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, seen = Broker(), []

    def interrupt(_connection: Connection) -> bool:
        seen.append(broker.folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(broker, "_answers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        broker.start()
    assert not seen[0].exists()
    assert not processes_in(seen[0])


def test_a_port_that_was_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    free = broker_module._free_ports
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        choices = iter([free()._replace(internal=port)])
        monkeypatch.setattr(broker_module, "_free_ports", lambda: next(choices, None) or free())
        # The stranger on the port accepts connections and answers nothing.
        with Broker() as broker:
            assert not broker.bootstrap.endswith(f":{port}")


def test_a_broker_that_cannot_start_shows_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(brokersettings.SETTINGS, "num.io.threads", "none")
    broker = Broker()
    with pytest.raises(BrokerError, match=r"(?s)last lines of its log:.*num\.io\.threads"):
        broker.start()
    with pytest.raises(BrokerError, match="not started"):
        _ = broker.bootstrap
