"""Simulations reach a real broker, byte for byte, and what goes wrong there is told in one sentence."""

import time
import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, TopicPartition

from producers.scenarios import SCENARIOS
from producers.simulation import Record
from producers.sinks import SinkError, publish_fast, publish_live
from producers.swarm import START_MS, Settings
from streaming.broker import Broker

pytestmark = pytest.mark.kafka

DEADLINE_S = 30


def new_topic(broker: Broker, partitions: int = 3, **config: str) -> str:
    name = f"test-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(DEADLINE_S)
    return name


def kafka(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


def read_back(broker: Broker, topic: str) -> dict[int, list[Record]]:
    """All records of each partition, read by a client that is not the one that wrote them."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False, fetch_max_bytes=64 << 20)
    places = [TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    left = sum(consumer.end_offsets(places).values())
    found: dict[int, list[Record]] = {}
    deadline = time.monotonic() + DEADLINE_S
    while left and time.monotonic() < deadline:
        for place, messages in consumer.poll(500).items():
            left -= len(messages)
            for message in messages:
                found.setdefault(place.partition, []).append(Record(message.timestamp, message.key, message.value))
    consumer.close()
    assert left == 0
    return found


def test_a_fast_run_keeps_virtual_times_bytes_and_the_order_of_each_key(broker: Broker) -> None:
    simulation = SCENARIOS["hostile-input"].run(Settings())
    topic = new_topic(broker, **{"message.timestamp.type": "CreateTime", "max.message.bytes": str(4 << 20)})
    assert publish_fast(simulation.records, kafka(broker), topic) == len(simulation.records)
    partitions = read_back(broker, topic)
    assert sum(map(len, partitions.values())) == len(simulation.records)
    for partition, records in partitions.items():
        keys = {record.key for record in records}
        assert records == [record for record in simulation.records if record.key in keys], partition


def test_a_live_run_follows_the_wall_clock_and_has_the_times_of_the_broker(broker: Broker) -> None:
    # Some seconds: what comes before the producer has its connection is written together.
    records = [Record(START_MS + 1000 * number, b"key", b"%d" % number) for number in range(10)]
    topic = new_topic(broker, **{"message.timestamp.type": "LogAppendTime"})
    seen: list[Record] = []
    started_s, started_ms = time.monotonic(), time.time() * 1000
    assert publish_live(records, kafka(broker), topic, speed=2, on_record=seen.append) == 10
    assert 4.5 <= time.monotonic() - started_s < DEADLINE_S
    assert seen == records
    (written,) = read_back(broker, topic).values()
    assert [record.value for record in written] == [record.value for record in records]
    assert all(started_ms - 1000 < record.time_ms < time.time() * 1000 + 1000 for record in written)
    assert written[-1].time_ms - written[0].time_ms >= 350


def test_a_live_run_ends_when_it_is_told_to_and_what_was_sent_is_written(broker: Broker) -> None:
    records = [Record(START_MS + 3_600_000 * number, b"key", b"value") for number in range(3)]
    topic = new_topic(broker)
    seen: list[Record] = []
    assert publish_live(records, kafka(broker), topic, stop=lambda: bool(seen), on_record=seen.append) == 1
    assert sum(map(len, read_back(broker, topic).values())) == 1


def test_a_record_that_the_broker_refuses_is_one_sentence(broker: Broker) -> None:
    topic = new_topic(broker, **{"max.message.bytes": "1000"})
    with pytest.raises(SinkError, match=f"could not be written to the topic {topic}: .*too large"):
        publish_fast(
            [Record(START_MS, b"key", bytes(range(256)) * 100)], {**kafka(broker), "compression.type": "none"}, topic
        )


def test_a_record_that_the_client_refuses_is_one_sentence(broker: Broker) -> None:
    topic = new_topic(broker)
    with pytest.raises(SinkError, match=f"could not be written to the topic {topic}: .*too large"):
        publish_fast([Record(START_MS, b"key", bytes(5 << 20))], kafka(broker), topic)


def test_a_topic_that_is_not_there_is_one_sentence(broker: Broker) -> None:
    with pytest.raises(SinkError, match=r"the topic nowhere cannot be written: .*[Uu]nknown topic"):
        publish_fast([], kafka(broker), "nowhere")


def test_a_broker_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producers.sinks.CONNECT_S_MAX", 1.0)
    with pytest.raises(SinkError, match=r"Kafka cannot be reached: .*; check the address of the broker"):
        publish_fast([], {"bootstrap.servers": "127.0.0.1:1"}, "anything")
