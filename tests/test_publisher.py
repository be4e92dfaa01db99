"""Publishing to a real broker: one chain on the topic whatever happens, and no second version ever signed."""

import json
import random
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, TopicPartition
from kafka.partitioner.default import murmur2

from producers import publisher as publisher_module
from producers.homelog import public_key
from producers.peer import LogBehindError, Peer
from producers.publisher import DeliveryError, Publisher
from state.head import NO_PREVIOUS
from state.segment import Segment, build, judge
from state.signing import SigningKey
from streaming.broker import Broker

SWARM = bytes(range(32))
PARTITIONS = 3
DAY_MS = 24 * 3600 * 1000
pytestmark = pytest.mark.kafka


def make_topic(bootstrap: str, **settings: str) -> str:
    name = f"segments-{uuid.uuid4().hex}"
    config = {"message.timestamp.type": "LogAppendTime", **{key.replace("_", "."): to for key, to in settings.items()}}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config)])
    created[name].result(30)
    return name


@pytest.fixture
def topic(broker: Broker) -> str:
    return make_topic(broker.bootstrap)


@pytest.fixture
def publisher(broker: Broker, topic: str) -> Iterator[Publisher]:
    with Publisher({"bootstrap.servers": broker.bootstrap}, topic) as started:
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "peer"
    public_key(directory)
    return directory


def open_peer(directory: Path) -> Peer:
    return Peer.open(directory, SWARM, [public_key(directory)])


def kafka_of(broker: Broker) -> dict[str, str | int | bool]:
    return {"bootstrap.servers": broker.bootstrap}


def read_topic(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Partition, key and value of every record, by a client that shares no code with the one under test."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        ends, records = consumer.end_offsets(partitions), []
        deadline = time.monotonic() + 30
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            assert time.monotonic() < deadline, "the topic could not be read to its end"
            for batch in consumer.poll(timeout_ms=500).values():
                records.extend((record.partition, record.key, record.value) for record in batch)
        return records
    finally:
        consumer.close()


def chain_on_topic(bootstrap: str, topic: str, author: bytes) -> dict[int, Segment]:
    """The author's segments by index; fails if they are not one chain without a gap and without a second version."""
    chain: dict[int, Segment] = {}
    for _, key, value in read_topic(bootstrap, topic):
        segment = judge(value, {SWARM: frozenset([author])})
        assert isinstance(segment, Segment)
        assert key == author
        assert chain.setdefault(segment.head.index, segment) == segment
    assert sorted(chain) == list(range(1, len(chain) + 1))
    for index, segment in chain.items():
        assert segment.head.previous == (chain[index - 1].id if index > 1 else NO_PREVIOUS)
    return chain


def test_what_is_published_is_read_by_an_independent_client_from_the_partition_java_would_choose(
    broker: Broker, topic: str, publisher: Publisher, home: Path
) -> None:
    with open_peer(home) as peer:
        assert publisher.resume(peer) == 0
        segments = []
        for number in range(5):
            peer.append(b"op %d" % number, origin=b"client")
            segments.append(peer.close())
            publisher.publish(segments[-1])
        publisher.flush()
        assert peer.acknowledged is not None
        assert peer.acknowledged.index == 5
        assert abs(peer.acknowledged.time_ms - time.time() * 1000) < 60_000
    partition = (murmur2(peer.public) & 0x7FFFFFFF) % PARTITIONS
    assert read_topic(broker.bootstrap, topic) == [(partition, peer.public, each.encode()) for each in segments]


def test_nothing_is_published_before_the_log_was_compared_with_the_topic(
    broker: Broker, topic: str, publisher: Publisher, home: Path
) -> None:
    with open_peer(home) as peer:
        segment = peer.close()
        with pytest.raises(ValueError, match=r"call resume\(peer\) first"):
            publisher.publish(segment)
    assert read_topic(broker.bootstrap, topic) == []


def test_a_segment_that_is_not_in_the_peers_log_is_not_published(
    broker: Broker, topic: str, publisher: Publisher, home: Path
) -> None:
    key = SigningKey(bytes.fromhex((home / "secret.key").read_text().strip()))
    stray = build(key, swarm=SWARM, index=1, previous=NO_PREVIOUS, time_ms=0, ops=[], root=bytes(32))
    with open_peer(home) as peer:
        publisher.resume(peer)
        with pytest.raises(ValueError, match="not in the peer's log"):
            publisher.publish(stray)
    assert read_topic(broker.bootstrap, topic) == []


def test_segments_on_disk_that_never_reached_kafka_are_published_at_the_next_start(
    broker: Broker, topic: str, publisher: Publisher, home: Path
) -> None:
    with open_peer(home) as peer:
        publisher.resume(peer)
        publisher.publish(peer.close())
        publisher.flush()
        unpublished = [peer.close() for _ in range(3)]
    with open_peer(home) as peer:
        assert publisher.resume(peer) == 3
        assert publisher.resume(peer) == 0
    assert list(chain_on_topic(broker.bootstrap, topic, peer.public).values())[1:] == unpublished
    assert len(read_topic(broker.bootstrap, topic)) == 4


def test_a_long_backlog_is_published_in_portions(
    broker: Broker, topic: str, publisher: Publisher, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "BACKLOG_SEGMENTS_MAX", 4)
    with open_peer(home) as peer:
        for _ in range(10):
            peer.close()
        assert publisher.resume(peer) == 10
    assert len(chain_on_topic(broker.bootstrap, topic, peer.public)) == 10


def test_a_gap_on_the_topic_is_filled_and_what_is_there_is_not_sent_again(
    broker: Broker, topic: str, publisher: Publisher, home: Path
) -> None:
    with open_peer(home) as peer:
        segments = [peer.close() for _ in range(4)]
        send_raw(broker, topic, peer.public, segments[0].encode(), segments[2].encode())
        assert publisher.resume(peer) == 2
        assert len(read_topic(broker.bootstrap, topic)) == 4
        assert peer.acknowledged is not None
        assert peer.acknowledged.index == 4


def test_a_lost_acknowledgement_is_found_out_again_and_nothing_is_sent_twice(
    broker: Broker, topic: str, publisher: Publisher, home: Path
) -> None:
    with open_peer(home) as peer:
        publisher.resume(peer)
        publisher.publish(peer.close())
        publisher.flush()
    (home / "acknowledged.json").unlink()
    with open_peer(home) as peer:
        assert publisher.resume(peer) == 0
    assert len(read_topic(broker.bootstrap, topic)) == 1


def test_what_was_acknowledged_elsewhere_does_not_count_for_another_topic(
    broker: Broker, publisher: Publisher, home: Path
) -> None:
    other = make_topic(broker.bootstrap)
    with open_peer(home) as peer:
        publisher.resume(peer)
        publisher.publish(peer.close())
        publisher.flush()
        with Publisher(kafka_of(broker), other) as second:
            assert second.resume(peer) == 1
    assert len(chain_on_topic(broker.bootstrap, other, peer.public)) == 1


def send_raw(broker: Broker, topic: str, key: bytes, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def publish_segments(publisher: Publisher, home: Path, count: int) -> None:
    with open_peer(home) as peer:
        publisher.resume(peer)
        for _ in range(count):
            publisher.publish(peer.close())
        publisher.flush()


def test_a_restored_backup_is_refused_with_words_and_signs_nothing(
    broker: Broker, topic: str, publisher: Publisher, home: Path, tmp_path: Path
) -> None:
    publish_segments(publisher, home, 3)
    backup = shutil.copytree(home, tmp_path / "backup")
    publish_segments(publisher, home, 2)
    with open_peer(backup) as peer:
        with pytest.raises(
            LogBehindError, match=r"ends at segment 3.*a backup was restored.*proven a fork.*newest log"
        ):
            publisher.resume(peer)
        with pytest.raises(LogBehindError):
            peer.close()
    publish_segments(publisher, home, 1)
    assert len(chain_on_topic(broker.bootstrap, topic, peer.public)) == 6


def test_a_restored_backup_that_has_already_signed_another_version_is_refused(
    broker: Broker, topic: str, publisher: Publisher, home: Path, tmp_path: Path
) -> None:
    publish_segments(publisher, home, 3)
    backup = shutil.copytree(home, tmp_path / "backup")
    publish_segments(publisher, home, 1)
    with open_peer(backup) as peer:
        peer.append(b"another story")
        second_version = peer.close()
        with pytest.raises(LogBehindError):
            publisher.resume(peer)
        with pytest.raises(ValueError, match="call resume"):
            publisher.publish(second_version)
    assert len(chain_on_topic(broker.bootstrap, topic, peer.public)) == 4


def test_a_new_log_under_a_used_key_is_refused(publisher: Publisher, home: Path) -> None:
    publish_segments(publisher, home, 1)
    (home / "home.log").unlink()
    (home / "acknowledged.json").unlink()
    with open_peer(home) as peer, pytest.raises(LogBehindError, match="ends at segment 0"):
        publisher.resume(peer)


@pytest.mark.parametrize("clock_ms", [0, 4_102_444_800_000], ids=["1970", "2100"])
def test_a_restored_backup_is_refused_however_wrong_the_peers_clock_is(
    publisher: Publisher, home: Path, tmp_path: Path, clock_ms: int
) -> None:
    def open_with_clock(directory: Path) -> Peer:
        return Peer.open(directory, SWARM, [public_key(directory)], clock_ms=lambda: clock_ms)

    with open_with_clock(home) as peer:
        publisher.resume(peer)
        publisher.publish(peer.close())
        publisher.flush()
    backup = shutil.copytree(home, tmp_path / "backup")
    publish_segments(publisher, home, 1)
    with open_with_clock(backup) as peer, pytest.raises(LogBehindError):
        publisher.resume(peer)


def test_only_what_is_as_new_as_the_last_acknowledgement_less_a_day_is_read(
    publisher: Publisher, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_segments(publisher, home, 3)
    read: list[int] = []
    judging = publisher_module.judge
    monkeypatch.setattr(publisher_module, "judge", lambda *args, **more: read.append(1) or judging(*args, **more))
    with open_peer(home) as peer:
        publisher.resume(peer)
    assert len(read) == 3
    move_acknowledgement(home, 2 * DAY_MS)
    with open_peer(home) as peer:
        publisher.resume(peer)
    assert len(read) == 3


def move_acknowledgement(home: Path, by_ms: int) -> None:
    path = home / "acknowledged.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "time_ms": known["time_ms"] + by_ms}))


def test_forged_and_foreign_records_on_the_topic_change_nothing(
    broker: Broker, topic: str, publisher: Publisher, home: Path
) -> None:
    stranger = SigningKey(bytes(32))
    foreign = build(stranger, swarm=SWARM, index=9, previous=bytes([1]) * 32, time_ms=0, ops=[], root=bytes(32))
    with open_peer(home) as peer:
        forged_head = foreign.head._replace(author=peer.public)
        forged = foreign._replace(head=forged_head, head_bytes=forged_head.encode())
        send_raw(broker, topic, peer.public, b"", b"garbage", foreign.encode(), forged.encode())
        assert publisher.resume(peer) == 0
        publisher.publish(peer.close())
        publisher.flush()


def test_a_topic_that_does_not_exist_is_a_clear_error_at_once(broker: Broker, home: Path) -> None:
    started = time.monotonic()
    with (
        open_peer(home) as peer,
        pytest.raises(DeliveryError, match=r"topic no-such-topic cannot be read: .*[Uu]nknown topic"),
    ):
        Publisher(kafka_of(broker), "no-such-topic", timeout_s=10).resume(peer)
    assert time.monotonic() - started < 10


def test_a_broker_that_cannot_be_reached_is_a_clear_error_in_bounded_time(home: Path) -> None:
    started = time.monotonic()
    with open_peer(home) as peer, pytest.raises(DeliveryError, match=r"nothing can be published.*(refused|down)"):
        Publisher({"bootstrap.servers": "127.0.0.1:1"}, "segments", timeout_s=2).resume(peer)
    assert time.monotonic() - started < 10


def test_a_record_that_the_broker_refuses_is_named_with_the_brokers_reason(broker: Broker, home: Path) -> None:
    small = make_topic(broker.bootstrap, max_message_bytes="1000")
    with open_peer(home) as peer, Publisher(kafka_of(broker), small) as publisher:
        publisher.resume(peer)
        publisher.publish(peer.close())
        publisher.flush()
        peer.append(bytes(2000))
        publisher.publish(peer.close())
        with pytest.raises(
            DeliveryError, match=r"segment 2 was not delivered to topic .*: Broker: Message size too large"
        ):
            publisher.flush()
        publisher.flush()
        assert peer.acknowledged is not None
        assert peer.acknowledged.index == 1


def publish_until(publisher: Publisher, peer: Peer, deadline: float) -> None:
    while time.monotonic() < deadline:
        publisher.publish(peer.close())


def test_a_failure_is_raised_by_the_next_publish_if_nobody_flushes(broker: Broker, home: Path) -> None:
    small = make_topic(broker.bootstrap, max_message_bytes="1000")
    with open_peer(home) as peer:
        publisher = Publisher(kafka_of(broker), small)
        publisher.resume(peer)
        peer.append(bytes(2000))
        publisher.publish(peer.close())
        with pytest.raises(DeliveryError, match="segment 1 was not delivered"):
            publish_until(publisher, peer, time.monotonic() + 30)


def test_a_segment_of_the_largest_size_is_delivered(broker: Broker, home: Path) -> None:
    large = make_topic(broker.bootstrap, max_message_bytes=str(2 << 20))
    with open_peer(home) as peer, Publisher(kafka_of(broker), large) as publisher:
        publisher.resume(peer)
        for _ in range(16):
            peer.append(bytes(65_000))
        segment = peer.close()
        assert len(segment.encode()) > 1_000_000
        publisher.publish(segment)
    assert chain_on_topic(broker.bootstrap, large, peer.public) == {1: segment}


def test_settings_that_the_promises_rest_on_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match=r"acks, enable\.idempotence"):
        Publisher({"bootstrap.servers": "127.0.0.1:1", "acks": 1, "enable.idempotence": False}, "segments")


def test_settings_that_kafkas_client_does_not_know_are_a_clear_error() -> None:
    with pytest.raises(ValueError, match=r"bootstrap\.serverz"):
        Publisher({"bootstrap.serverz": "127.0.0.1:1"}, "segments")


def test_a_broker_that_dies_is_an_error_in_bounded_time_and_resume_repairs_it(home: Path) -> None:
    with Broker() as broker, open_peer(home) as peer:
        topic = make_topic(broker.bootstrap)
        publisher = Publisher(kafka_of(broker), topic, timeout_s=3)
        publisher.resume(peer)
        publisher.publish(peer.close())
        publisher.flush()
        broker.kill()
        publisher.publish(peer.close())
        started = time.monotonic()
        with pytest.raises(DeliveryError, match=r"segment 2 .*(refused|down|[Dd]isconnected)"):
            publisher.flush(1)
        with pytest.raises(DeliveryError, match="cannot be read"):
            publisher.resume(peer)
        assert time.monotonic() - started < 20
        broker.restart()
        with Publisher(kafka_of(broker), topic) as publisher:
            assert publisher.resume(peer) <= 1
            publisher.publish(peer.close())
        assert len(chain_on_topic(broker.bootstrap, topic, peer.public)) == 3


PUBLISHING_PEER = """
import sys
from producers.homelog import public_key
from producers.peer import Peer
from producers.publisher import Publisher
from pathlib import Path

home, bootstrap, topic, rounds = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
with Peer.open(home, bytes(range(32)), [public_key(home)]) as peer:
    with Publisher({"bootstrap.servers": bootstrap}, topic) as publisher:
        publisher.resume(peer)
        for _ in range(rounds):
            for number in range(3):
                peer.append(b"op %d" % number)
            segment = peer.close()
            print(segment.head.index, segment.id.hex(), flush=True)
            publisher.publish(segment)
"""


def run_peer(home: Path, broker: Broker, topic: str, rounds: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", PUBLISHING_PEER, str(home), broker.bootstrap, topic, str(rounds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)


def test_a_peer_killed_again_and_again_leaves_one_chain_on_the_topic(broker: Broker, topic: str, home: Path) -> None:
    """SIGKILL falls wherever it falls: in a write, before an fsync, before publishing, in the middle of sending."""
    randomness = random.Random(7)
    closed: dict[int, str] = {}

    def note(line: str) -> None:
        index, segment_id = line.split()
        assert closed.setdefault(int(index), segment_id) == segment_id

    for _ in range(8):
        with run_peer(home, broker, topic, rounds=1_000_000) as process:
            assert process.stdout is not None
            for _ in range(randomness.randrange(1, 400)):
                note(process.stdout.readline())
            process.kill()
            for line in process.stdout:
                if line.endswith("\n"):
                    note(line)
    with run_peer(home, broker, topic, rounds=1) as process:
        assert process.stdout is not None
        note(process.stdout.readline())
        assert process.wait(60) == 0

    chain = chain_on_topic(broker.bootstrap, topic, public_key(home))
    assert {index: segment.id.hex() for index, segment in chain.items() if index in closed} == closed
    with open_peer(home) as peer:
        assert list(peer.segments()) == [chain[index] for index in sorted(chain)]
