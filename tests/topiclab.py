"""Runs the queries over topics of their own, and reads back what came of it with clients that are not ours.

What is written to Kafka is read by kafka-python; what is kept in the checkpoint is read by Spark's state reader.
"""

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]

from producers.simulation import Record
from producers.sinks import publish_fast
from state.config import Config
from state.connection import Connection
from state.fold import Arrival, Arrivals, Message, Topic
from state.logs import ShardState
from state.rejected import Counts
from state.report import decode_report
from state.segment import Segment, judge
from streaming.broker import Broker
from streaming.plain import PlainHost
from streaming.queries import QUERIES, TALLIES, Plan, Query, start_query
from streaming.topics import Setup, create_topics

DEADLINE_S = 240
ONE_BATCH = 1_000_000
"""More offsets than any test writes: everything is read at once."""


class Spot(NamedTuple):
    """Where a record stands on its topic."""

    partition: int
    offset: int


class Send(NamedTuple):
    """A record with any key, also none, and the partition it is sent to."""

    partition: int
    time_ms: int
    key: bytes | None
    value: bytes | None


class Written(NamedTuple):
    """A record as the independent client reads it."""

    spot: Spot
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


class DeadLetter(NamedTuple):
    reason: str
    key: bytes | None
    value: bytes | None


class Size(NamedTuple):
    """How much a fold keeps, over all its keys."""

    blob_bytes: int
    archive_entries: int
    archive_bytes: int


class KeptState(NamedTuple):
    """What a checkpoint keeps of a query, read from its files: what the folds counted, and how much they keep."""

    shards: dict[bytes, ShardState]
    counts: dict[bytes, Counts]
    errors: dict[tuple[str, bytes], str]
    sizes: dict[str, Size]
    keys: dict[str, int]
    """How many keys each fold has."""

    @property
    def verified(self) -> int:
        return sum(shard.verified for shard in self.shards.values())

    @property
    def duplicates(self) -> int:
        return sum(shard.duplicates for shard in self.shards.values())

    @property
    def rejected(self) -> dict[str, int]:
        total: dict[str, int] = defaultdict(int)
        for counts in self.counts.values():
            for reason, count in counts.by_reason.items():
                total[reason] += count
        return dict(total)


class Lab:
    """One prefix with topics of its own and one checkpoint. Record times are those that the test writes."""

    def __init__(self, broker: Broker, spark: Any, folder: Path, config: Config, partitions: int = 3) -> None:
        self.connection = Connection(bootstrap=broker.bootstrap)
        self.prefix = f"lab-{uuid.uuid4().hex}"
        self.config = config
        self._spark = spark
        self._checkpoint = str(folder / self.prefix)
        create_topics(self.connection, Setup(prefix=self.prefix, partitions=partitions, create_time=True))

    def topic(self, suffix: str) -> str:
        return f"{self.prefix}.{suffix}"

    def publish(self, records: Iterable[Record]) -> int:
        return publish_fast(records, self.connection.librdkafka(), self.topic(Topic.SEGMENTS))

    def send(self, sends: Sequence[Send]) -> dict[Spot, Send]:
        """Write to the partitions of the segments as told; gives where each stands."""
        return send_all(self.connection, self.topic(Topic.SEGMENTS), sends)

    def run_all(self, offsets_max: int = ONE_BATCH) -> dict[str, list[Any]]:
        """Run every query to the end of its topic, each after the one whose reports it reads."""
        return {name: self.run(offsets_max, query) for name, query in QUERIES.items()}

    def run(self, offsets_max: int = ONE_BATCH, query: Query = QUERIES["segments"]) -> list[Any]:
        """Read the query's topic to its end; gives the progress of the batches that read something."""
        plan = Plan(self.config, self.connection, self.prefix, self._checkpoint, offsets_max, available_now=True)
        started = start_query(self._spark, query, plan)
        try:
            assert started.awaitTermination(DEADLINE_S), f"the query did not end within {DEADLINE_S} s"
            assert started.exception() is None
            return [progress for progress in started.recentProgress if progress.numInputRows]
        finally:
            started.stop()

    def segments(self) -> list[Written]:
        return read_topic(self.connection, self.topic(Topic.SEGMENTS))

    def verdicts(self) -> dict[bytes, bytes]:
        """What compaction would leave: the last value of each key, without those withdrawn."""
        return compacted(read_topic(self.connection, self.topic(Topic.VERDICTS)))

    def reports(self) -> dict[bytes, bytes]:
        """The reports of ticks by key; two of one key must be the same."""
        found: dict[bytes, bytes] = {}
        for message in read_topic(self.connection, self.topic(Topic.MATRIX)):
            assert message.key is not None
            assert message.value is not None
            assert found.setdefault(message.key, message.value) == message.value
        return found

    def rejected(self) -> list[Written]:
        return read_topic(self.connection, self.topic(Topic.REJECTED))

    def dead_letters(self) -> dict[Spot, DeadLetter]:
        """By distinct place on the topic of segments; two letters about one place must say the same."""
        found: dict[Spot, DeadLetter] = {}
        for message in self.rejected():
            headers = message.headers
            assert headers["topic"].decode() == self.topic(Topic.SEGMENTS)
            spot = Spot(int(headers["partition"]), int(headers["offset"]))
            assert message.key == f"{self.topic(Topic.SEGMENTS)}/{spot.partition}/{spot.offset}".encode()
            letter = DeadLetter(headers["reason"].decode(), headers.get("key"), message.value)
            assert found.setdefault(spot, letter) == letter
        return found

    def state(self, query: Query = QUERIES["segments"]) -> KeptState:
        reader = self._spark.read.format("statestore").option("path", f"{self._checkpoint}/{query.name}")
        stored = reader.option("stateVarName", "stored").load().select("key", "value").collect()
        rows = [(row.key[0], bytes(row.key[1]), row.value) for row in stored]
        archive = reader.option("stateVarName", "archive").load().select("key", "user_map_value").collect()
        entries: dict[str, list[int]] = defaultdict(list)
        for row in archive:
            entries[row.key[0]].append(len(row.user_map_value[0]))
        blobs: dict[str, int] = defaultdict(int)
        for fold, _, value in rows:
            blobs[fold] += len(value.blob)
        return KeptState(
            {key: msgspec.msgpack.decode(value.blob, type=ShardState) for fold, key, value in rows if fold == "logs"},
            {key: msgspec.msgpack.decode(value.blob, type=Counts) for fold, key, value in rows if fold == "rejected"},
            {(fold, key): value.error for fold, key, value in rows if value.error},
            {fold: Size(blobs[fold], len(entries[fold]), sum(entries[fold])) for fold in query.folds},
            {name: sum(fold == name for fold, _, _ in rows) for name in query.folds},
        )


def send_all(connection: Connection, topic: str, sends: Sequence[Send]) -> dict[Spot, Send]:
    """Write to the partitions as told, in the order given, but those of time 0 first; gives where each stands.

    librdkafka takes a time of 0 for «now», and kafka-python refuses a record with neither key nor value.
    """
    found: dict[Spot, Send] = {}
    zero = KafkaProducer(bootstrap_servers=connection.bootstrap)
    futures = [
        (send, zero.send(topic, send.value, send.key, partition=send.partition, timestamp_ms=0))
        for send in sends
        if send.time_ms == 0
    ]
    for send, future in futures:
        done = future.get(DEADLINE_S)
        found[Spot(done.partition, done.offset)] = send
    zero.close()
    producer = Producer({**connection.librdkafka(), "enable.idempotence": True})
    for send in sends:
        if send.time_ms:
            producer.produce(
                topic,
                send.value,
                send.key,
                send.partition,
                timestamp=send.time_ms,
                on_delivery=lambda _, done, send=send: found.update({Spot(done.partition(), done.offset()): send}),
            )
            producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    assert len(found) == len(sends)
    return found


def read_topic(connection: Connection, topic: str) -> list[Written]:
    """All records of a topic, partition by partition in their order."""
    consumer = KafkaConsumer(
        bootstrap_servers=connection.bootstrap,
        enable_auto_commit=False,
        fetch_max_bytes=64 << 20,
        max_partition_fetch_bytes=16 << 20,
    )
    try:
        places = [TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        found: list[Written] = []
        deadline = time.monotonic() + DEADLINE_S
        while any(consumer.position(place) < end for place, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} could not be read within {DEADLINE_S} s"
            for messages in consumer.poll(500).values():
                found += [
                    Written(Spot(m.partition, m.offset), m.timestamp, m.key, m.value, dict(m.headers)) for m in messages
                ]
        return sorted(found, key=lambda message: message.spot)
    finally:
        consumer.close()


def spots_of(records: Sequence[Record], written: Sequence[Written]) -> list[Spot]:
    """Where each record came to stand. One producer wrote them: a key has one partition, and their order is kept."""
    partition_of = {message.key: message.spot.partition for message in written}
    waiting = defaultdict(list)
    for message in written:
        waiting[message.spot.partition].append(message)
    at: dict[int, int] = defaultdict(int)
    spots = []
    for record in records:
        partition = partition_of[record.key]
        message = waiting[partition][at[partition]]
        assert (message.time_ms, message.key, message.value) == tuple(record)
        at[partition] += 1
        spots.append(message.spot)
    assert len(spots) == len(written)
    return spots


def tallied(progress: Iterable[Any]) -> dict[str, int]:
    """What the batches of a query counted, added up."""
    total: dict[str, int] = defaultdict(int)
    for one in progress:
        for name, amount in one.observedMetrics[TALLIES].asDict().items():
            total[name] += amount or 0
    return dict(total)


def compacted(messages: Iterable[Written | Message]) -> dict[bytes, bytes]:
    """What Kafka's compaction leaves of these: the last value of each key, without those withdrawn."""
    left: dict[bytes, bytes | None] = {}
    for message in messages:
        assert message.key is not None
        left[message.key] = message.value
    return {key: value for key, value in left.items() if value is not None}


def differences(got: dict[bytes, bytes], want: dict[bytes, bytes]) -> dict[bytes, tuple[bytes | None, bytes | None]]:
    """What was got and what was wanted, by the keys where it is not the same: there are too many to show them all."""
    keys = sorted(got.keys() | want.keys())
    return {key: (got.get(key), want.get(key)) for key in keys if got.get(key) != want.get(key)}


def fold_alone(config: Config, written: Sequence[Written]) -> dict[bytes, bytes]:
    """The compacted verdicts of all folds over these records, in this process: no Spark, no state store."""
    judged = [(judge(message.value, config.authors), message.time_ms) for message in written]
    verified = [Arrival(segment, time_ms) for segment, time_ms in judged if isinstance(segment, Segment)]
    clock_ms = max(message.time_ms for message in written)
    hosts = {name: PlainHost(query, config) for name, query in QUERIES.items()}
    said = list(hosts["segments"].absorb(Arrivals(verified, []), clock_ms))
    reports = [decode_report(message.value) for message in said if message.topic == Topic.MATRIX and message.value]
    said += hosts["matrix"].absorb(Arrivals([], [], reports), clock_ms)
    assert [
        problem for host in hosts.values() for m in host.machines.values() for problem in m.check_invariants()
    ] == []
    return compacted(message for message in said if message.topic == Topic.VERDICTS)
