"""What a Spark worker process makes once and keeps: the configuration, and a client that looks ahead in partitions."""

import json
from functools import cache

import msgspec

from state.config import Config
from streaming.clock import NO_TIME
from streaming.ingest import NextTime

WATERMARK_TIMEOUT_S = 5.0
"""How long to wait for a broker to say where a partition ends; without an answer there may be more of the same time."""

PEEK_TIMEOUT_S = 0.5
"""How long to wait for the next record, which is there: what stands there may be a marker that no client gives out."""

_PEEK_SETTINGS = {
    "group.id": "quorumscope-ahead",
    "enable.auto.commit": False,
    # As Spark reads: what stands after an open transaction is read, so it is unread before that.
    "isolation.level": "read_uncommitted",
    # One record is enough; brokers send at least one, however large.
    "fetch.message.max.bytes": 1024,
    "fetch.wait.max.ms": 10,
}


@cache
def worker_config(config_json: str) -> Config:
    return msgspec.json.decode(config_json, type=Config)


@cache
def next_times(kafka_json: str, topic: str) -> NextTime:
    """Asks the broker for the time of the next record; one client a worker, never a group member."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({**json.loads(kafka_json), **_PEEK_SETTINGS})

    def next_time(partition: int, offset: int, time_ms: int) -> int:
        try:
            answer = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WATERMARK_TIMEOUT_S)
            if answer is not None and offset + 1 >= answer[1]:
                return NO_TIME
            consumer.assign([TopicPartition(topic, partition, offset + 1)])
            record = consumer.poll(PEEK_TIMEOUT_S)
            consumer.unassign()
        except KafkaException:
            return time_ms
        return time_ms if record is None or record.error() else max(time_ms, record.timestamp()[1])

    return next_time
