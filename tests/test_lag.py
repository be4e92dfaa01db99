"""How far a query is behind its topic: asked of the broker, because a query that hangs tells nothing."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from state.connection import Connection
from streaming import lag
from streaming.broker import Broker
from streaming.lag import Lag, LagWatch, measure
from streaming.peek import Peeker
from streaming.pipeline import Pipeline
from streaming.progress import Totals
from streaming.topics import Setup, create_topics, retention_ms

DEADLINE_S = 20
START_MS = 1_767_225_600_000
DAY_MS = 86_400_000


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


# What is measured, from what a broker answers.


def measured(
    ends: dict[int, int | None], read: dict[int, int], before: dict[int, Lag] | None = None, time_ms: int | None = 7
) -> dict[int, Lag]:
    asked: list[tuple[int, int]] = []

    def time_at(partition: int, offset: int) -> int | None:
        asked.append((partition, offset))
        return time_ms

    found = measure(ends.__getitem__, time_at, read, before or {})
    # Only what is unread is looked at, and there the first record that is.
    assert asked == [(partition, read[partition]) for partition, one in found.items() if one.records and one != (9, 9)]
    return found


def test_what_is_unread_is_counted_from_where_the_query_has_read_to_and_has_the_age_of_its_oldest() -> None:
    assert measured({0: 10, 1: 3}, {0: 4, 1: 2}) == {0: Lag(6, 7), 1: Lag(1, 7)}


def test_a_partition_that_is_read_has_no_lag_also_where_the_broker_knows_of_less() -> None:
    """A topic that was made anew has an end before what was read."""
    assert measured({0: 10, 1: 3}, {0: 10, 1: 99}) == {0: Lag(0, None), 1: Lag(0, None)}


def test_records_whose_time_cannot_be_read_are_counted_without_an_age() -> None:
    assert measured({0: 10}, {0: 4}, time_ms=None) == {0: Lag(6, None)}


def test_without_an_answer_a_lag_is_what_it_was_and_what_never_was_known_stays_unknown() -> None:
    assert measured({0: None, 1: None, 2: 5}, {0: 4, 1: 4, 2: 5}, {0: Lag(9, 9), 2: Lag(9, 9)}) == {
        0: Lag(9, 9),
        2: Lag(0, None),
    }


def test_before_the_first_batch_nothing_is_known() -> None:
    assert measured({0: 10}, {}, {0: Lag(9, 9)}) == {}


# With the real broker.


class Topic:
    """A topic of segments with records in some of its partitions."""

    def __init__(self, broker: Broker, *, create_time: bool = True) -> None:
        self.connection = Connection(bootstrap=broker.bootstrap)
        prefix = f"test-{uuid.uuid4().hex}"
        self.name = f"{prefix}.segments"
        create_topics(self.connection, Setup(prefix=prefix, partitions=3, create_time=create_time))

    def write(self, partition: int, times_ms: Sequence[int], value: bytes = b"value") -> None:
        producer = Producer({**self.connection.librdkafka(), "message.max.bytes": 2 << 20})
        for time_ms in times_ms:
            producer.produce(self.name, value, partition=partition, timestamp=time_ms)
        assert producer.flush(DEADLINE_S) == 0

    def expire(self, partition: int, offset: int) -> None:
        """Let the records before an offset go, as retention would."""
        admin = AdminClient(self.connection.librdkafka())
        for future in admin.delete_records([TopicPartition(self.name, partition, offset)]).values():
            future.result(DEADLINE_S)

    def end(self, partition: int) -> int:
        admin, place = AdminClient(self.connection.librdkafka()), TopicPartition(self.name, partition)
        return int(admin.list_offsets({place: OffsetSpec.latest()})[place].result(DEADLINE_S).offset)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "ASK_SECONDS", 0.05)


@pytest.fixture
def watch_of() -> Iterator[Callable[[Connection, str, Totals], LagWatch]]:
    """Starts watches, and stops them at the end."""
    watches: list[LagWatch] = []

    def start(connection: Connection, topic: str, totals: Totals) -> LagWatch:
        watches.append(LagWatch(connection, topic, totals))
        watches[-1].start()
        return watches[-1]

    yield start
    for watch in watches:
        watch.stop()


Watch = Callable[[Connection, str, Totals], LagWatch]


def shown(watch: LagWatch) -> dict[tuple[str, str], float]:
    """The samples of a watch by metric and partition."""
    pipeline = Pipeline(["segments"])
    pipeline.lags = [watch]
    return {
        (name, labels[-1]): value
        for name, labels, value in pipeline.samples()
        if name.startswith("kafka_") and isinstance(value, int | float)
    }


@pytest.mark.kafka
@pytest.mark.usefixtures("_quick")
def test_a_watch_tells_records_and_age_of_each_partition_and_follows_what_is_read(
    broker: Broker, watch_of: Watch
) -> None:
    topic, totals = Topic(broker), Totals()
    now_ms = time.time_ns() // 1_000_000
    topic.write(0, [now_ms - 60_000, now_ms - 50_000, now_ms - 40_000])
    topic.write(1, [now_ms - 9000], bytes(1 << 20))
    watch = watch_of(topic.connection, topic.name, totals)
    totals.ends = {0: 1, 1: 0, 2: 0}
    wait_for(lambda: watch.now == {0: Lag(2, now_ms - 50_000), 1: Lag(1, now_ms - 9000), 2: Lag(0, None)})
    wait_for(lambda: watch.retention_ms is not None)
    samples = shown(watch)
    assert {partition: samples["kafka_lag_records", partition] for partition in "012"} == {"0": 2, "1": 1, "2": 0}
    assert 50 <= samples["kafka_lag_seconds", "0"] < 50 + DEADLINE_S
    assert 9 <= samples["kafka_lag_seconds", "1"] < 9 + DEADLINE_S
    assert samples["kafka_lag_seconds", "2"] == 0
    totals.ends = {0: 3, 1: 1, 2: 0}
    wait_for(lambda: set(watch.now.values()) == {Lag(0, None)})
    topic.write(2, [now_ms - 1000])
    wait_for(lambda: watch.now[2] == Lag(1, now_ms - 1000))


@pytest.mark.kafka
@pytest.mark.usefixtures("_quick")
def test_where_the_broker_sets_the_times_a_writer_cannot_make_a_record_look_old(
    broker: Broker, watch_of: Watch
) -> None:
    topic, totals = Topic(broker, create_time=False), Totals()
    before_ms = time.time_ns() // 1_000_000
    topic.write(0, [1000])
    totals.ends = {0: 0}
    watch = watch_of(topic.connection, topic.name, totals)
    wait_for(lambda: bool(watch.now))
    assert watch.now[0].records == 1
    assert (watch.now[0].oldest_ms or 0) >= before_ms - 1000


@pytest.mark.kafka
def test_a_topic_tells_how_long_it_keeps_its_records(broker: Broker) -> None:
    connection = Connection(bootstrap=broker.bootstrap)
    prefix = f"test-{uuid.uuid4().hex}"
    create_topics(connection, Setup(prefix=prefix, retention_ms=DAY_MS))
    assert retention_ms(connection, f"{prefix}.segments") == DAY_MS
    assert retention_ms(connection, Topic(broker).name) == float("inf")


@pytest.mark.kafka
def test_of_records_that_expired_unread_the_oldest_that_is_left_tells_the_age(broker: Broker) -> None:
    topic = Topic(broker)
    topic.write(0, [START_MS + number for number in range(5)])
    topic.expire(0, 3)
    with closing(Peeker.to(topic.connection, topic.name)) as peeker:
        assert peeker.time_at(0, 0) == START_MS + 3
        assert measure(peeker.end, peeker.time_at, {0: 1}, {}) == {0: Lag(4, START_MS + 3)}
        topic.expire(0, 5)
        assert measure(peeker.end, peeker.time_at, {0: 1}, {}) == {0: Lag(4, None)}
        assert topic.end(0) == 5


@pytest.mark.kafka
def test_a_peek_sees_the_record_at_each_offset_in_any_order(broker: Broker) -> None:
    topic = Topic(broker)
    topic.write(0, [START_MS + 10 * number for number in range(5)])
    topic.write(1, [START_MS + 5])
    with closing(Peeker.to(topic.connection, topic.name)) as peeker:
        for partition, offset, time_ms in [(0, 3, 30), (1, 0, 5), (0, 0, 0), (0, 4, 40), (0, 1, 10)]:
            assert peeker.time_at(partition, offset) == START_MS + time_ms
        assert peeker.time_at(0, 5) is None
        assert [peeker.end(partition) for partition in range(3)] == [5, 1, 0]


# Without a broker.


@pytest.mark.usefixtures("_quick")
def test_a_watch_goes_on_asking_a_broker_that_is_dead_and_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, watch_of: Watch
) -> None:
    monkeypatch.setattr("streaming.peek.WATERMARK_TIMEOUT_S", 0.05)
    monkeypatch.setattr("streaming.topics.REQUEST_TIMEOUT_S", 0.1)
    monkeypatch.setattr(lag, "RETENTION_SECONDS", 0.0)
    monkeypatch.setattr(lag, "STOP_SECONDS_MAX", 0.1)
    rounds = threading.Semaphore(0)

    def counted(*arguments: object) -> dict[int, Lag]:
        rounds.release()
        return measure(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lag, "measure", counted)
    totals = Totals()
    totals.ends = {0: 0}
    watch = watch_of(Connection(bootstrap="127.0.0.1:9"), "topic", totals)
    for _ in range(2):
        assert rounds.acquire(timeout=DEADLINE_S)
    assert (watch.now, watch.retention_ms) == ({}, None)
    monkeypatch.setattr("streaming.peek.WATERMARK_TIMEOUT_S", 3.0)
    while rounds.acquire(blocking=False):
        pass
    assert rounds.acquire(timeout=DEADLINE_S)
    started = time.monotonic()
    watch.stop()
    assert time.monotonic() - started < 1
