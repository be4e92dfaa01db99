"""What a worker asks the real broker: the time of the next record, without reading on."""

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from state.connection import Connection
from streaming import peek
from streaming.broker import Broker
from streaming.clock import NO_TIME
from streaming.ingest import NextTime
from streaming.worker import next_times

DEADLINE_S = 30
START_MS = 1_700_000_000_000


class Book:
    """A topic of two partitions with record times of our own."""

    def __init__(self, broker: Broker) -> None:
        self.topic = f"ahead-{uuid.uuid4().hex}"
        self.settings = Connection(bootstrap=broker.bootstrap).librdkafka()
        admin = AdminClient(self.settings)
        times = {"message.timestamp.type": "CreateTime"}
        admin.create_topics([NewTopic(self.topic, 2, config=times)])[self.topic].result(DEADLINE_S)
        self._producer = Producer({**self.settings, "enable.idempotence": True})

    def write(self, *times_ms: int, partition: int = 0, size: int = 10) -> None:
        for time_ms in times_ms:
            self._producer.produce(self.topic, bytes(size), partition=partition, timestamp=START_MS + time_ms)
        assert self._producer.flush(DEADLINE_S) == 0

    def next_time(self) -> NextTime:
        return next_times(json.dumps(self.settings), self.topic)


@pytest.fixture(autouse=True)
def _clients_do_not_outlive_the_test() -> Iterator[None]:
    yield
    next_times.cache_clear()


@pytest.fixture
def book(broker: Broker) -> Book:
    return Book(broker)


@pytest.mark.kafka
def test_the_time_of_the_next_record_is_told(book: Book) -> None:
    book.write(10, 20, 30)
    next_time = book.next_time()
    assert next_time(0, 0, START_MS + 10) == START_MS + 20
    assert next_time(0, 1, START_MS + 20) == START_MS + 30
    assert next_time(0, 0, START_MS + 10) == START_MS + 20


@pytest.mark.kafka
def test_at_the_end_there_is_none_until_more_is_written(book: Book) -> None:
    book.write(10, 20)
    next_time = book.next_time()
    assert next_time(0, 1, START_MS + 20) == NO_TIME
    book.write(30, 40)
    assert next_time(0, 1, START_MS + 20) == START_MS + 30
    assert next_time(0, 3, START_MS + 40) == NO_TIME


@pytest.mark.kafka
def test_partitions_are_asked_in_turn_and_do_not_mix(book: Book) -> None:
    book.write(10, 20, 30)
    book.write(500, 600, partition=1)
    next_time = book.next_time()
    for _ in range(5):
        assert next_time(0, 0, START_MS + 10) == START_MS + 20
        assert next_time(1, 0, START_MS + 500) == START_MS + 600
        assert next_time(1, 1, START_MS + 600) == NO_TIME
        assert next_time(0, 1, START_MS + 20) == START_MS + 30


@pytest.mark.kafka
def test_a_next_record_that_is_older_than_what_was_read_counts_as_just_as_old(book: Book) -> None:
    book.write(10, 90, 50)
    assert book.next_time()(0, 1, START_MS + 90) == START_MS + 90


@pytest.mark.kafka
def test_a_next_record_larger_than_what_is_asked_for_is_looked_at_too(book: Book) -> None:
    book.write(10)
    book.write(20, size=900_000)
    assert book.next_time()(0, 0, START_MS + 10) == START_MS + 20


@pytest.mark.kafka
def test_what_stands_after_an_open_transaction_is_looked_at_as_spark_reads_it(book: Book) -> None:
    producer = Producer({**book.settings, "transactional.id": book.topic})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for time_ms in (10, 20):
        producer.produce(book.topic, b"", partition=0, timestamp=START_MS + time_ms)
    assert producer.flush(DEADLINE_S) == 0
    assert book.next_time()(0, 0, START_MS + 10) == START_MS + 20
    producer.abort_transaction(DEADLINE_S)


@pytest.mark.kafka
def test_a_marker_of_a_transaction_at_the_end_holds_the_clock_at_the_last_record(book: Book) -> None:
    """No client is given the marker, so nobody can tell that nothing comes after it."""
    producer = Producer({**book.settings, "transactional.id": book.topic})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(book.topic, b"", partition=0, timestamp=START_MS + 10)
    producer.commit_transaction(DEADLINE_S)
    next_time = book.next_time()
    deadline_s = time.monotonic() + DEADLINE_S
    while next_time(0, 0, START_MS + 10) == NO_TIME:  # the marker is written a moment after the commit
        assert time.monotonic() < deadline_s
    assert next_time(0, 0, START_MS + 10) == START_MS + 10
    book.write(20)
    assert next_time(0, 0, START_MS + 10) == START_MS + 20
    assert next_time(0, 2, START_MS + 20) == NO_TIME


@pytest.mark.kafka
def test_one_client_serves_all_tasks_of_a_worker(book: Book) -> None:
    assert book.next_time() is book.next_time()


def in_the_time_of(ask: Callable[[], int]) -> tuple[int, float]:
    started_s = time.monotonic()
    return ask(), time.monotonic() - started_s


def test_without_a_broker_the_clock_is_held_at_what_was_read_within_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peek, "WATERMARK_TIMEOUT_S", 0.5)
    with socket.socket() as taken:  # taken by a socket that does not listen, so that nobody answers
        taken.bind(("127.0.0.1", 0))
        settings = {"bootstrap.servers": f"127.0.0.1:{taken.getsockname()[1]}", "log_level": 0}
        next_time = next_times(json.dumps(settings), "any.segments")
        told, took_s = in_the_time_of(lambda: next_time(0, 7, START_MS))
    assert told == START_MS
    assert took_s < 5
