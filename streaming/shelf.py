"""What Kafka holds of a topic now: its partitions, where each begins and ends, and which offset stands at a time."""

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from state.connection import Connection
from streaming.bounds import Held
from streaming.follow import READER_SETTINGS
from streaming.parts import MissingPartError
from streaming.peek import Peeker
from streaming.topics import REQUEST_TIMEOUT_S, admin_client, existing

PEEK_SECONDS_MAX = 10.0
"""How long a record that is there may take to come; what does not come is no record, but a mark of a transaction."""


class Shelf:
    """Asks for one topic. MissingPartError if it does not exist, or if no broker answers."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.topic = topic
        partitions = existing(admin_client(connection), connection).get(topic)
        if partitions is None:
            raise MissingPartError(f"the topic {topic} does not exist: give the right --prefix")
        self._partitions = range(partitions)
        self._consumer = Consumer({**connection.librdkafka(), **READER_SETTINGS})
        self._peeker = Peeker.to(connection, topic)

    def held(self) -> dict[int, Held]:
        """What each partition holds now."""
        found = {}
        for partition, (low, high) in self.ends().items():
            # Only where records have expired is it asked how old the oldest one is.
            found[partition] = Held(low, high, self.time_at(partition, low) if 0 < low < high else None)
        return found

    def ends(self) -> dict[int, tuple[int, int]]:
        """Where each partition begins and ends now."""
        return {
            partition: tuple(self._ask(self._consumer.get_watermark_offsets, self._place(partition)))
            for partition in self._partitions
        }

    def offsets_at(self, time_ms: int) -> Mapping[int, int | None]:
        """For each partition the first offset of a record at or after a time; None if there is none."""
        places = [self._place(partition, time_ms) for partition in self._partitions]
        found = self._ask(self._consumer.offsets_for_times, places)
        return {place.partition: place.offset if place.offset >= 0 else None for place in found}

    def time_at(self, partition: int, offset: int) -> int | None:
        """The time of the first record from an offset on; None if there is none."""
        deadline = time.monotonic() + PEEK_SECONDS_MAX
        while time.monotonic() < deadline:
            time_ms = self._peeker.time_at(partition, offset)
            if time_ms is not None:
                return time_ms
        return None

    def close(self) -> None:
        self._consumer.close()
        self._peeker.close()

    def _place(self, partition: int, offset: int = 0) -> TopicPartition:
        return TopicPartition(self.topic, partition, offset)

    def _ask(self, question: Any, *about: Any) -> Any:
        try:
            return question(*about, timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise MissingPartError(f"{self.topic} could not be read: {error.args[0].str()}") from None
