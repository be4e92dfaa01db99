"""Publishes a peer's segments to Kafka, after comparing its log with what its key has already published.

    publisher = Publisher({"bootstrap.servers": "…"}, "quorumscope.segments")
    publisher.resume(peer)
    publisher.publish(peer.close())
    publisher.flush()

Rules:
- Only segments of a peer that was resumed, and that its log has on disk, are published.
- `resume` reads what the topic has of the peer: from a day before the newest segment that Kafka has confirmed, by the
  broker's own clock; with none confirmed on this topic (a new log under a used key is the dangerous case), from the
  beginning. A segment there that the log lacks means that the log is behind: LogBehindError. One of the log that is
  neither confirmed nor there (a crash between fsync and publishing) is published again.
- Publishing the same segment twice is harmless. So after any failure the way on is `resume`, which repeats only what
  is missing.
- Every wait has an end: `timeout_s` without progress is a DeliveryError.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from producers.homelog import Acknowledged
from producers.peer import Peer
from state.limits import ROSTER_MAX
from state.segment import Segment, judge

Settings = Mapping[str, str | int | bool]
"""Settings of librdkafka, such as bootstrap.servers, sasl.username or ssl.ca.location."""

TIMEOUT_S = 30.0
"""A broker that is restarted or a partition that moves is back within seconds; longer, and a person should know."""

LOOK_BACK_MS = 24 * 3600 * 1000
"""How far before its newest confirmed segment a peer's past on the topic is read once more: two places that used one
key at the same time are seen at the next start, if that comes within a day."""

BACKLOG_SEGMENTS_MAX = 256
"""How many segments `resume` sends before it waits for Kafka: a segment's time starts when it is queued, so a long
backlog must not be queued all at once."""

POLL_S = 0.1
"""The pause before something is tried again: a full queue, a partition without a leader."""

# The client names its own errors with an underscore: they are public all the same.
_PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001
_TIMED_OUT = {KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT}  # noqa: SLF001

# A partition of a topic that exists has no leader, or another than the client believes: for a moment only.
_PASSING = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}

_FIXED: Settings = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",  # the partition of a key is then the one that Java clients choose
    "message.max.bytes": 2 << 20,  # a record of 1 MiB, its key and its batch
}

# librdkafka would write what error_cb already tells us to the standard error.
_QUIET: Settings = {"log_level": 2}


class DeliveryError(Exception):
    """Kafka does not have, or has not confirmed, what was to be published; one sentence with Kafka's reason."""


class Outbox:
    """The segments of one peer on their way to one topic: which are delivered, and up to which index without a gap."""

    def __init__(self, peer: Peer, destination: str) -> None:
        self.peer = peer
        known = peer.acknowledged
        self._saved = known if known and known.destination == destination else Acknowledged(destination, 0, 0)
        self.acknowledged = self._saved
        self.queued: set[int] = set()
        self.failures: list[str] = []
        self._times_ms: dict[int, int] = {}

    def is_delivered(self, index: int) -> bool:
        return index <= self.acknowledged.index or index in self._times_ms

    def deliver(self, index: int, time_ms: int) -> None:
        """Kafka has the segment, since `time_ms` by the broker's clock."""
        if index > self.acknowledged.index:
            self._times_ms[index] = time_ms
        while (next_ms := self._times_ms.pop(self.acknowledged.index + 1, None)) is not None:
            self.acknowledged = Acknowledged(self.acknowledged.destination, self.acknowledged.index + 1, next_ms)

    def settle(self) -> None:
        """Note on disk what was delivered, and raise the failures since the last time."""
        if self.acknowledged != self._saved:
            self.peer.acknowledge(self.acknowledged)
            self._saved = self.acknowledged
        failures, self.failures = self.failures, []
        if failures:
            more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
            raise DeliveryError(failures[0] + more)


class Publisher:
    """Publishes the segments of the peers that it has resumed. It is not made for use by several threads."""

    def __init__(self, kafka: Settings, topic: str, timeout_s: float = TIMEOUT_S) -> None:
        """`kafka` are librdkafka's settings without those that the promises of this class rest on."""
        if refused := sorted(_FIXED.keys() & kafka.keys()):
            raise ValueError(f"the publisher itself sets {', '.join(refused)}: leave it out")
        self.topic = topic
        self.timeout_s = timeout_s
        self._kafka: dict[str, Any] = {**_QUIET, **kafka, "error_cb": self._note_error}
        try:
            self._producer = Producer({**self._kafka, **_FIXED, "delivery.timeout.ms": int(timeout_s * 1000)})
        except KafkaException as error:
            raise ValueError(f"Kafka's client refuses its settings: {error.args[0].str()}") from error
        self._outboxes: dict[tuple[bytes, bytes], Outbox] = {}
        self._last_error: KafkaError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def resume(self, peer: Peer) -> int:
        """Compare the peer's log with the topic, then publish what is not there; gives how many segments that were.

        Must come before `publish`. LogBehindError if the key has published what the log lacks.
        """
        self._outboxes.pop((peer.swarm, peer.public), None)
        outbox = self.compare_with_topic(peer)
        missing = 0
        for segment in peer.segments(outbox.acknowledged.index + 1):
            if not outbox.is_delivered(segment.head.index):
                self._produce(outbox, segment)
                missing += 1
                if missing % BACKLOG_SEGMENTS_MAX == 0:
                    self._flush([outbox], self.timeout_s)
        self._flush([outbox], self.timeout_s)
        self._outboxes[peer.swarm, peer.public] = outbox
        return missing

    def compare_with_topic(self, peer: Peer) -> Outbox:
        """Read the peer's segments on the topic and hold them against its log; gives what Kafka has of them."""
        partitions, topic_id = self._describe_topic()
        outbox = Outbox(peer, f"{self.topic} {topic_id}")
        authors = {peer.swarm: frozenset([peer.public])}
        for message in self._read_topic(partitions, outbox.acknowledged.time_ms - LOOK_BACK_MS):
            segment = judge(message.value(), authors, refs_max=ROSTER_MAX)
            if isinstance(segment, Segment):
                peer.compare_own(segment)
                outbox.deliver(segment.head.index, message.timestamp()[1])
        outbox.settle()
        return outbox

    def publish(self, segment: Segment) -> None:
        """Hand a segment to Kafka's client, which sends it in the background; `flush` waits for it.

        A failure of an earlier segment is raised here too, before this one is sent.
        """
        outbox = self._outboxes.get((segment.head.swarm, segment.head.author))
        if outbox is None:
            raise ValueError("publish: call resume(peer) first, which compares the peer's log with the topic")
        if segment.id not in outbox.peer:
            raise ValueError(f"publish: segment {segment.head.index} is not in the peer's log")
        self._producer.poll(0)
        outbox.settle()
        self._produce(outbox, segment)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until Kafka has confirmed everything; DeliveryError if it refuses something or takes too long."""
        self._flush(list(self._outboxes.values()), self.timeout_s if timeout_s is None else timeout_s)

    def _flush(self, outboxes: Sequence[Outbox], timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        for outbox in outboxes:
            outbox.settle()
            if outbox.queued:
                first = min(outbox.queued)
                raise DeliveryError(f"segment {first} was not confirmed by Kafka in {timeout_s:g} s: {self._reason()}")

    def _produce(self, outbox: Outbox, segment: Segment) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            outbox.queued.discard(segment.head.index)
            if error is None:
                outbox.deliver(segment.head.index, message.timestamp()[1])
            else:
                outbox.failures.append(self._failed(segment, error))

        deadline = time.monotonic() + self.timeout_s
        while not self._try_produce(segment, delivered):
            if time.monotonic() > deadline:
                raise DeliveryError(f"segment {segment.head.index} found the client's queue full: {self._reason()}")
            self._producer.poll(POLL_S)
        outbox.queued.add(segment.head.index)

    def _try_produce(self, segment: Segment, delivered: Callable[[KafkaError | None, Message], None]) -> bool:
        """Whether the client has taken the segment; it does not while its queue is full."""
        try:
            self._producer.produce(self.topic, segment.encode(), segment.head.author, on_delivery=delivered)
        except BufferError:
            return False
        except KafkaException as error:
            raise DeliveryError(self._failed(segment, error.args[0])) from error
        return True

    def _failed(self, segment: Segment, error: KafkaError) -> str:
        reason = self._reason() if error.code() in _TIMED_OUT else error.str()
        return f"segment {segment.head.index} was not delivered to topic {self.topic}: {reason}"

    def _note_error(self, error: KafkaError) -> None:
        self._last_error = error

    def _reason(self) -> str:
        """What the client last complained about: a timeout by itself tells nobody what to do."""
        return self._last_error.str() if self._last_error else "the broker does not answer"

    def _describe_topic(self) -> tuple[list[int], str]:
        """The partitions of the topic, and the id that tells it from an earlier topic of the same name."""
        admin = AdminClient(self._kafka)
        asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=self.timeout_s)
        try:
            found = asked[self.topic].result(2 * self.timeout_s)
        except (KafkaException, TimeoutError) as error:
            raise self._unreadable(error) from error
        return [partition.id for partition in found.partitions], str(found.topic_id)

    def _read_topic(self, partitions: Sequence[int], since_ms: int) -> Iterator[Message]:
        """The records since a time, or all if that is before 1970, up to the end that the topic has now."""
        settings: dict[str, Any] = {
            "group.id": f"quorumscope-compare-{secrets.token_hex(8)}",  # asked for by the client; it joins no group
            **self._kafka,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        consumer = Consumer(settings)
        try:
            ranges = self._offsets_once_led(consumer, partitions, since_ms)
            yield from self._read(
                consumer, {start.partition: end for start, end in ranges}, [start for start, _ in ranges]
            )
        except KafkaException as error:
            raise self._unreadable(error) from error
        finally:
            consumer.close()

    def _offsets_once_led(
        self, consumer: Consumer, partitions: Sequence[int], since_ms: int
    ) -> list[tuple[TopicPartition, int]]:
        """As `_offsets`, asked again while a partition is between leaders, as it is when its topic is new."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return self._offsets(consumer, partitions, since_ms)
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                    raise
            consumer.poll(POLL_S)

    def _offsets(
        self, consumer: Consumer, partitions: Sequence[int], since_ms: int
    ) -> list[tuple[TopicPartition, int]]:
        """Where to start and to end in each partition that has something to read."""
        lows, ends = {}, {}
        for partition in partitions:
            place = TopicPartition(self.topic, partition)
            lows[partition], ends[partition] = consumer.get_watermark_offsets(place, timeout=self.timeout_s)
        starts = [TopicPartition(self.topic, partition, low) for partition, low in lows.items()]
        if since_ms >= 0:
            times = [TopicPartition(self.topic, partition, since_ms) for partition in partitions]
            starts = consumer.offsets_for_times(times, timeout=self.timeout_s)
        for start in starts:
            if start.error is not None:
                raise KafkaException(start.error)
        # A negative offset stands for the end: nothing is as new as `since_ms`.
        return [(start, ends[start.partition]) for start in starts if 0 <= start.offset < ends[start.partition]]

    def _read(self, consumer: Consumer, ends: dict[int, int], starts: Sequence[TopicPartition]) -> Iterator[Message]:
        """Every record from `starts` on and before `ends`. Offsets may have holes, so a partition's end counts too."""
        consumer.assign(starts)
        while ends:
            message = consumer.poll(self.timeout_s)
            if message is None:
                raise DeliveryError(f"topic {self.topic} could not be read to its end: {self._reason()}")
            error, partition = message.error(), message.partition()
            if error is not None and error.code() != _PARTITION_EOF:
                raise KafkaException(error)
            if error is None and message.offset() < ends.get(partition, 0):
                yield message
            if error is not None or message.offset() + 1 >= ends.get(partition, 0):
                ends.pop(partition, None)
                consumer.pause([TopicPartition(self.topic, partition)])

    def _unreadable(self, error: Exception) -> DeliveryError:
        self._producer.poll(0)  # it meets the same trouble, and says what it is
        cause = error.args[0] if error.args else None
        known = isinstance(cause, KafkaError) and cause.code() not in _TIMED_OUT
        reason = cause.str() if cause is not None and known else self._reason()
        return DeliveryError(f"nothing can be published, because topic {self.topic} cannot be read: {reason}")
