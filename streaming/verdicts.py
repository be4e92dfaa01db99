"""Reads `.verdicts` as anyone may: from its beginning, by key, the last value counts and no value withdraws."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from state.connection import Connection
from state.fold import Topic
from state.verdict import AnyVerdict, decode_verdict
from streaming.parts import MissingPartError
from streaming.topics import REQUEST_TIMEOUT_S, admin_client, existing

READ_SECONDS_MAX = 60.0
"""How long reading a topic to its end may take before it is given up."""


class Update(NamedTuple):
    """A record of the topic: a verdict, or None where one is withdrawn."""

    key: str
    verdict: AnyVerdict | None


class VerdictReader:
    """Follows the verdicts of one deployment. `unreadable` counts records that are no verdicts; they are skipped."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self.unreadable = 0
        self.verdicts: dict[str, AnyVerdict] = {}
        self._topic = f"{prefix}.{Topic.VERDICTS}"
        if self._topic not in existing(admin_client(connection), connection):
            raise MissingPartError(f"the topic {self._topic} does not exist: give the right --prefix")
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _error: None}
        settings = {"group.id": "quorumscope-reader", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**connection.librdkafka(), **settings, **quiet})
        partitions = self._consumer.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S).topics[self._topic].partitions
        self._next = dict.fromkeys(partitions, 0)
        self._consumer.assign([TopicPartition(self._topic, partition, 0) for partition in partitions])

    def poll(self, seconds: float) -> Iterator[Update]:
        """What has come; waits at most `seconds` for the first."""
        for message in self._consumer.consume(1000, timeout=seconds):
            if message.error():
                continue
            self._next[message.partition()] = message.offset() + 1
            update = self._read(message)
            if update is not None:
                yield update

    def read_to_end(self) -> dict[str, AnyVerdict]:
        """All that stands on the topic now, by key."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        ends = self._ends()
        while any(self._next[partition] < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise MissingPartError(f"{self._topic} could not be read to its end within {READ_SECONDS_MAX:.0f} s")
            for _ in self.poll(0.2):
                pass
        return self.verdicts

    def close(self) -> None:
        self._consumer.close()

    def _ends(self) -> dict[int, int]:
        """Where each partition ends; a compacted topic may have gaps below that, but its last record stays."""
        try:
            return {
                partition: self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, partition), timeout=REQUEST_TIMEOUT_S
                )[1]
                for partition in self._next
            }
        except KafkaException as error:
            raise MissingPartError(f"{self._topic} could not be read: {error.args[0].str()}") from None

    def _read(self, message: Any) -> Update | None:
        key = (message.key() or b"").decode(errors="replace")
        if message.value() is None:
            self.verdicts.pop(key, None)
            return Update(key, None)
        try:
            verdict = decode_verdict(message.value())
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unreadable += 1
            return None
        self.verdicts[key] = verdict
        return Update(key, verdict)
