"""Records that come twice, late, in no order or to one partition of many: the verdicts are those of a calm topic."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from producers.simulation import Record
from state.connection import Connection
from streaming.broker import Broker
from tests.faults.faultlab import Input, Trials, story
from tests.joblab import Deployment
from tests.loglab import since_config
from tests.topiclab import DEADLINE_S, Send, read_topic, send_all

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HOUR_MS = 3_600_000
BATCH = 60
SEED = 11


@pytest.fixture
def place(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Deployment:
    name = request.node.name.removeprefix("test_")[:40]
    return Deployment(Connection(bootstrap=broker.bootstrap), name, story(SEED).config, tmp_path, partitions=6)


def send(place: Deployment, sends: Iterable[tuple[int, Record]]) -> None:
    """Write records to these partitions, in this order."""
    written = [Send(partition, record.time_ms, record.key, record.value) for partition, record in sends]
    send_all(place.connection, place.topic("segments"), written)


def test_a_topic_that_is_written_twice(trials: Trials, place: Deployment) -> None:
    given = story(SEED)
    place.publish(given.records)
    trials.finish(place, BATCH)
    place.publish(record._replace(time_ms=record.time_ms + HOUR_MS) for record in given.records)
    trials.finish(place, BATCH)
    later = [record._replace(time_ms=record.time_ms + HOUR_MS) for record in given.records]
    outcome = trials.settle(place, Input(given.config, [*given.records, *later]), "the topic written twice", 1)
    assert outcome.duplicate > outcome.verified


def test_partitions_that_are_skewed(trials: Trials, place: Deployment) -> None:
    """Nine of ten records stand in one partition of six, and one partition is empty."""
    given, chance = story(SEED), random.Random(1)
    send(place, ((0 if chance.random() < 0.9 else chance.randint(1, 4), record) for record in given.records))
    trials.finish(place, BATCH)
    trials.settle(place, given, "skewed partitions", 1)


def test_logs_that_are_scattered_over_partitions(trials: Trials, place: Deployment) -> None:
    """Each record stands in any partition, so no log comes in order."""
    given, chance = story(SEED), random.Random(2)
    send(place, ((chance.randint(0, 5), record) for record in given.records))
    trials.finish(place, BATCH)
    trials.settle(place, given, "reordered across partitions", 1)


def test_records_that_are_delivered_hours_late(trials: Trials, place: Deployment) -> None:
    """Two peers are cut off in mid run; all that they sign from then on comes three hours later."""
    given = story(SEED)
    records = given.records
    middle_ms = records[len(records) // 2].time_ms
    cut_off = sorted({record.key for record in records})[:2]

    def delivered(record: Record) -> Record:
        late = record.time_ms > middle_ms and record.key in cut_off
        return record._replace(time_ms=record.time_ms + 3 * HOUR_MS) if late else record

    come = sorted(map(delivered, records), key=lambda record: record.time_ms)
    late = sum(record.time_ms > records[-1].time_ms for record in come)
    assert late > 50
    place.publish(come)
    trials.finish(place, BATCH)
    trials.settle(place, Input(given.config, come), "delivered three hours late", late)


def test_a_backlog_of_an_hour_that_is_read_with_a_rate_limit(trials: Trials, broker: Broker, tmp_path: Path) -> None:
    """An honest swarm, one of whose peers is away for a while. Read in small pieces, nobody must seem to be apart."""
    given = story(3, "honest", duration_ms=HOUR_MS, interval_ms=10_000, split_after="60s", peers=6, ops=2)
    place = Deployment(Connection(bootstrap=broker.bootstrap), "backlog", given.config, tmp_path, partitions=4)
    place.publish(given.records)
    trials.finish(place, 200)
    outcome = trials.settle(place, given, "a backlog of an hour, 200 records a batch", 1)
    assert outcome.verified > 2000
    kinds = {key.split(b"/")[0] for key in place.verdicts()}
    assert kinds == {b"known", b"accepted", b"silent"}


def test_a_topic_whose_beginning_has_expired(trials: Trials, place: Deployment) -> None:
    given = story(SEED)
    place.publish(given.records)
    written = read_topic(place.connection, place.topic("segments"))
    start_ms = given.records[len(given.records) // 3].time_ms
    admin, lows = AdminClient(place.connection.librdkafka()), {}
    for partition in {message.spot.partition for message in written}:
        earlier = [m.spot.offset for m in written if m.spot.partition == partition and m.time_ms < start_ms]
        lows[partition] = max(earlier, default=-1) + 1
    places = [TopicPartition(place.topic("segments"), partition, low) for partition, low in lows.items()]
    for future in admin.delete_records(places).values():
        future.result(DEADLINE_S)
    config = since_config(given.config, start_ms)
    place.config = config
    left = [Record(m.time_ms, m.key or b"", m.value) for m in written if m.spot.offset >= lows[m.spot.partition]]
    trials.finish(place, BATCH)
    trials.settle(place, Input(config, left), "a third of the topic has expired", 1)
    assert not any(key.startswith(b"missing/") for key in place.verdicts())
