"""What a Spark worker process makes once and keeps: the configuration, and a client that knows where partitions end."""

import json
from functools import cache

import msgspec

from state.config import Config
from streaming.ingest import ReadToEnd

WATERMARK_TIMEOUT_S = 5.0
"""How long to wait for a broker to say where a partition ends; without an answer it counts as not at its end."""


@cache
def worker_config(config_json: str) -> Config:
    return msgspec.json.decode(config_json, type=Config)


@cache
def watermarks(kafka_json: str, topic: str) -> ReadToEnd:
    """Asks the broker whether a record is the last one of its partition; one client a worker, never a group member."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({**json.loads(kafka_json), "group.id": "quorumscope-watermarks", "enable.auto.commit": False})

    def read_to_end(partition: int, offset: int) -> bool:
        try:
            answer = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WATERMARK_TIMEOUT_S)
        except KafkaException:
            return False
        return answer is not None and offset + 1 >= answer[1]

    return read_to_end
