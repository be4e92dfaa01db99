"""Follows a topic as anyone may: from its beginning, all partitions, without a group that remembers offsets."""

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from state.connection import Connection
from streaming.parts import MissingPartError
from streaming.topics import QUIET, REQUEST_TIMEOUT_S, admin_client, existing

SILENT_SECONDS_MAX = 60.0
"""How long a topic may give nothing, while it is read to its end, before it is given up."""

ASK_SECONDS_MAX = 2.0
"""How long a broker may take to say where a topic ends, when someone waits for more records meanwhile."""

READER_SETTINGS: dict[str, Any] = {
    "group.id": "quorumscope-reader",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # An end is told: the last record may be one that no client gives out, such as the mark of a transaction.
    "enable.partition.eof": True,
    **QUIET,
}


class Follower:
    """Reads one topic, or the last `tail` records of each of its partitions. MissingPartError if it does not exist."""

    def __init__(self, connection: Connection, topic: str, tail: int | None = None) -> None:
        self._topic = topic
        if topic not in existing(admin_client(connection), connection):
            raise MissingPartError(f"the topic {topic} does not exist: give the right --prefix")
        self._consumer = Consumer({**connection.librdkafka(), **READER_SETTINGS})
        partitions = self._consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic].partitions
        self._next = dict.fromkeys(partitions, 0)
        if tail is not None:
            self._next = {partition: max(end - tail, 0) for partition, end in self._ends().items()}
        self._consumer.assign([TopicPartition(topic, partition, at) for partition, at in self._next.items()])

    def poll(self, seconds: float) -> Iterator[Any]:
        """The records that have come; waits at most `seconds` for the first."""
        for message in self._consumer.consume(1000, timeout=seconds):
            error = message.error()
            if error is None:
                self._next[message.partition()] = message.offset() + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  the library's own name for it
                self._next[message.partition()] = message.offset()

    def read_to_end(self) -> Iterator[Any]:
        """The records up to where the topic ends now; MissingPartError if none comes for a minute."""
        deadline = time.monotonic() + SILENT_SECONDS_MAX
        ends = self._ends()
        while any(self._next[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise MissingPartError(f"{self._topic} gave no record for {SILENT_SECONDS_MAX:.0f} s, before its end")
            for message in self.poll(0.2):
                deadline = time.monotonic() + SILENT_SECONDS_MAX
                yield message

    def unread(self) -> int | None:
        """How many records there are beyond what was read, at most; None if no broker answers."""
        try:
            ends = self._ends(ASK_SECONDS_MAX)
        except MissingPartError:
            return None
        return sum(max(end - self._next[partition], 0) for partition, end in ends.items())

    def close(self) -> None:
        self._consumer.close()

    def _ends(self, seconds: float = REQUEST_TIMEOUT_S) -> dict[int, int]:
        """Where each partition ends; a compacted topic may have gaps below that, but its last record stays."""
        try:
            return {
                partition: self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, partition), timeout=seconds
                )[1]
                for partition in self._next
            }
        except KafkaException as error:
            raise MissingPartError(f"{self._topic} could not be read: {error.args[0].str()}") from None
