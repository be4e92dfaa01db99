"""Reads `.segments` as anyone may: from its beginning to where it ends now, each record judged as ingest judges it."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from state.config import Swarm
from state.connection import Connection
from state.fold import Topic
from state.segment import Reason, Segment, judge
from streaming.bar import OnProgress
from streaming.follow import READER_SETTINGS
from streaming.parts import MissingPartError
from streaming.topics import REQUEST_TIMEOUT_S, admin_client, existing

SILENCE_SECONDS_MAX = 30.0
"""How long a broker may send nothing, while there is more to read, before reading is given up."""


class Reading(NamedTuple):
    """The segments of one swarm with their record times, copies included."""

    copies: list[tuple[Segment, int]]
    from_start: bool
    """Whether the topic still holds its first record; else its beginning has expired."""


class _Stretch(NamedTuple):
    """The offsets that a partition holds now: from `low` up to but not including `high`."""

    low: int
    high: int


def read_segments(connection: Connection, prefix: str, swarm: Swarm, on_progress: OnProgress) -> Reading:
    """All valid segments of a swarm that stand on the topic now; what is bad, or of other swarms, is left out."""
    topic = f"{prefix}.{Topic.SEGMENTS}"
    if topic not in existing(admin_client(connection), connection):
        raise MissingPartError(f"the topic {topic} does not exist: give the right --prefix")
    consumer = Consumer({**connection.librdkafka(), **READER_SETTINGS})
    try:
        stretches = _stretches(consumer, topic)
        authors = {swarm.key: frozenset(swarm.authors)}
        copies = []
        for message in _messages(consumer, topic, stretches, on_progress):
            judged = judge(message.value(), authors)
            if not isinstance(judged, Reason):
                # As in ingest: brokers may give −1 for «no time».
                copies.append((judged, max(message.timestamp()[1], 0)))
        return Reading(copies, from_start=all(stretch.low == 0 for stretch in stretches.values()))
    except KafkaException as error:
        raise MissingPartError(f"{topic} could not be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _stretches(consumer: Consumer, topic: str) -> dict[int, _Stretch]:
    partitions = consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic].partitions
    return {
        partition: _Stretch(*consumer.get_watermark_offsets(TopicPartition(topic, partition), REQUEST_TIMEOUT_S))
        for partition in partitions
    }


def _messages(consumer: Consumer, topic: str, stretches: dict[int, _Stretch], on_progress: OnProgress) -> Iterator[Any]:
    """Every record of these stretches. A partition is done at its last offset, or where it ends: the offsets below
    `high` need not all be records.
    """
    done = {partition: stretch.low for partition, stretch in stretches.items()}
    total = sum(stretch.high - stretch.low for stretch in stretches.values())
    consumer.assign([TopicPartition(topic, partition, stretch.low) for partition, stretch in stretches.items()])
    heard, problem = time.monotonic(), "nothing came"
    while any(done[partition] < stretch.high for partition, stretch in stretches.items()):
        for message in consumer.consume(1000, timeout=0.1):
            partition, error = message.partition(), message.error()
            if error is None:
                heard, done[partition] = time.monotonic(), message.offset() + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  this is the name of a public constant
                heard, done[partition] = time.monotonic(), stretches[partition].high
            else:
                problem = error.str()
        if time.monotonic() - heard > SILENCE_SECONDS_MAX:
            waited = f"{SILENCE_SECONDS_MAX:.0f} s"
            raise MissingPartError(f"{topic} could not be read to its end within {waited} of silence: {problem}")
        read = sum(min(done[partition], stretch.high) - stretch.low for partition, stretch in stretches.items())
        on_progress(read, total)
