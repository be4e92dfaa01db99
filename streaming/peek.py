"""Looks ahead in a topic: where it ends, and of what time a record is. Never a member of a group."""

from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from state.connection import Connection
from streaming.topics import QUIET

WATERMARK_TIMEOUT_S = 5.0
"""How long to wait for a broker to say where a partition ends."""

PEEK_TIMEOUT_S = 0.5
"""How long to wait for the next record, which is there: what stands there may be a marker that no client gives out."""

_SETTINGS: dict[str, Any] = {
    "group.id": "quorumscope-ahead",
    "enable.auto.commit": False,
    # Of records that expired before they were read, the next one is the oldest that is left.
    "auto.offset.reset": "earliest",
    # As Spark reads: what stands after an open transaction is read, so it is unread before that.
    "isolation.level": "read_uncommitted",
    # One record is enough; brokers send at least one, however large.
    "fetch.message.max.bytes": 1024,
    "fetch.wait.max.ms": 10,
    **QUIET,
}


class Peeker:
    """One client for one topic. Not for several threads."""

    def __init__(self, kafka: dict[str, str], topic: str) -> None:
        self._consumer = Consumer({**kafka, **_SETTINGS})
        self._topic = topic

    @classmethod
    def to(cls, connection: Connection, topic: str) -> "Peeker":
        return cls(connection.librdkafka(), topic)

    def end(self, partition: int) -> int | None:
        """The offset after the last record; None if no broker answers."""
        try:
            answer = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=WATERMARK_TIMEOUT_S
            )
        except KafkaException:
            return None
        return None if answer is None else int(answer[1])

    def time_at(self, partition: int, offset: int) -> int | None:
        """The time of the first record from an offset on; None if it does not come in time."""
        try:
            self._consumer.assign([TopicPartition(self._topic, partition, offset)])
            record = self._consumer.poll(PEEK_TIMEOUT_S)
            self._consumer.unassign()
        except KafkaException:
            return None
        return None if record is None or record.error() else int(record.timestamp()[1])

    def close(self) -> None:
        self._consumer.close()
