"""The topics: made once, left alone when they exist, and what is wrong with them is told in sentences."""

import socket
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient  # type: ignore[import-untyped]

from state.connection import Connection
from streaming.broker import Broker
from streaming.parts import MissingPartError
from streaming.topics import MissingTopicError, Setup, check_topics, create_topics, plans, require_topics

DEADLINE_S = 30


@pytest.fixture
def connection(broker: Broker) -> Connection:
    return Connection(bootstrap=broker.bootstrap)


@pytest.fixture
def prefix() -> str:
    return f"test-{uuid.uuid4().hex}"


def names(prefix: str) -> list[str]:
    return [f"{prefix}.{suffix}" for suffix in ("segments", "verdicts", "matrix", "rejected")]


def make_wrong(connection: Connection, setup: Setup, suffix: str, **changes: str) -> None:
    """Make all topics as they should be, but one of them with other settings."""
    settings = {name.replace("_", "."): value for name, value in changes.items()}
    topics = [
        NewTopic(
            plan.name,
            plan.partitions,
            config=plan.settings | (settings if plan.name == f"{setup.prefix}.{suffix}" else {}),
        )
        for plan in plans(setup)
    ]
    admin = AdminClient(connection.librdkafka())
    for future in admin.create_topics(topics).values():
        future.result(DEADLINE_S)


@pytest.fixture
def unreachable() -> Iterator[Connection]:
    """An address where nobody answers, and nobody will: it is taken by a socket that does not listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield Connection(bootstrap=f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.kafka
@pytest.mark.parametrize("create_time", [False, True])
def test_topics_that_are_made_are_found_to_be_right(connection: Connection, prefix: str, create_time: bool) -> None:
    setup = Setup(prefix=prefix, partitions=3, create_time=create_time)
    assert create_topics(connection, setup) == names(prefix)
    assert check_topics(connection, setup) == []
    require_topics(connection, prefix)
    described = KafkaAdminClient(bootstrap_servers=connection.bootstrap).describe_topics(names(prefix))
    assert {topic["name"]: len(topic["partitions"]) for topic in described} == dict(
        zip(names(prefix), (3, 1, 1, 1), strict=True)
    )


@pytest.mark.kafka
def test_making_topics_again_makes_none_and_changes_none(connection: Connection, prefix: str) -> None:
    setup = Setup(prefix=prefix, partitions=2)
    create_topics(connection, setup)
    assert create_topics(connection, setup) == []
    other = Setup(prefix=prefix, partitions=9, create_time=True)
    assert create_topics(connection, other) == []
    assert check_topics(connection, setup) == []


@pytest.mark.kafka
def test_only_the_topics_that_are_missing_are_made(connection: Connection, prefix: str) -> None:
    setup = Setup(prefix=prefix)
    admin = AdminClient(connection.librdkafka())
    admin.create_topics([NewTopic(f"{prefix}.rejected", 1)])[f"{prefix}.rejected"].result(DEADLINE_S)
    assert create_topics(connection, setup) == names(prefix)[:3]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("suffix", "changes", "problem"),
    [
        ("segments", {"message_timestamp_type": "CreateTime"}, "want message.timestamp.type=LogAppendTime"),
        ("segments", {"cleanup_policy": "compact"}, "want cleanup.policy=delete, got compact"),
        ("segments", {"retention_ms": "1000"}, "want retention.ms of at least 604800000, got 1000"),
        ("segments", {"max_message_bytes": "1000000"}, "want max.message.bytes of at least 2097152, got 1000000"),
        ("verdicts", {"cleanup_policy": "delete"}, "want cleanup.policy=compact, got delete"),
        ("matrix", {"cleanup_policy": "compact"}, "want cleanup.policy=delete, got compact"),
        ("matrix", {"max_message_bytes": "1000000"}, "want max.message.bytes of at least 8388608, got 1000000"),
        ("rejected", {"max_message_bytes": "1000000"}, "want max.message.bytes of at least 4194304, got 1000000"),
        ("rejected", {"retention_ms": "1000"}, "want retention.ms of at least 604800000, got 1000"),
    ],
)
def test_a_topic_that_is_set_up_wrongly_is_told_with_what_is_wanted_and_what_it_has(
    connection: Connection, prefix: str, suffix: str, changes: dict[str, str], problem: str
) -> None:
    setup = Setup(prefix=prefix)
    make_wrong(connection, setup, suffix, **changes)
    (told,) = check_topics(connection, setup)
    assert told.startswith(f"{prefix}.{suffix}: {problem}")


@pytest.mark.kafka
def test_a_topic_that_keeps_more_than_is_wanted_is_right(connection: Connection, prefix: str) -> None:
    setup = Setup(prefix=prefix)
    make_wrong(connection, setup, "segments", retention_ms="-1", max_message_bytes=str(8 << 20))
    assert check_topics(connection, setup) == []


@pytest.mark.kafka
def test_a_missing_topic_is_a_sentence_that_says_how_to_make_it(connection: Connection, prefix: str) -> None:
    create_topics(connection, Setup(prefix=prefix))
    admin = AdminClient(connection.librdkafka())
    admin.delete_topics([f"{prefix}.verdicts"])[f"{prefix}.verdicts"].result(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while f"{prefix}.verdicts" in admin.list_topics(timeout=DEADLINE_S).topics:
        assert time.monotonic() < deadline
    (problem,) = check_topics(connection, Setup(prefix=prefix))
    assert problem == f"{prefix}.verdicts does not exist: `quorumscope topics --create` makes it"
    with pytest.raises(MissingTopicError, match=rf"{prefix}\.verdicts do(es)? not exist on .* --create"):
        require_topics(connection, prefix)


@pytest.mark.kafka
def test_a_topic_that_the_broker_refuses_is_a_sentence(connection: Connection, prefix: str) -> None:
    with pytest.raises(MissingPartError, match=rf"the topic {prefix}\.segments could not be made: .+"):
        create_topics(connection, Setup(prefix=prefix, replication=7))


@pytest.mark.parametrize("ask", [create_topics, check_topics, lambda c, setup: require_topics(c, setup.prefix)])
def test_a_broker_that_cannot_be_reached_is_a_sentence_within_a_bounded_time(
    unreachable: Connection, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Connection, Setup], object]
) -> None:
    monkeypatch.setattr("streaming.topics.REQUEST_TIMEOUT_S", 1.0)
    started_s = time.monotonic()
    with pytest.raises(MissingPartError, match=rf"no Kafka broker answers at {unreachable.bootstrap} .*check"):
        ask(unreachable, Setup())
    assert time.monotonic() - started_s < 5


def test_settings_that_kafka_does_not_know_are_a_sentence() -> None:
    with pytest.raises(MissingPartError, match=r"the Kafka settings are not usable: .+"):
        check_topics(Connection(bootstrap="127.0.0.1:1", protocol="NONE"), Setup())  # type: ignore[arg-type]


@pytest.mark.kafka
def test_too_few_partitions_are_told(connection: Connection, prefix: str) -> None:
    create_topics(connection, Setup(prefix=prefix, partitions=2))
    (problem,) = check_topics(connection, Setup(prefix=prefix, partitions=3))
    assert "want at least 3 partitions, got 2" in problem
