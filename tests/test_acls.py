"""Rights on the topics, asked of a real broker: each may do its own part, and nothing else."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from producers.canary import canary_swarm
from producers.homelog import public_key
from producers.peer import Peer
from producers.publisher import Publisher
from producers.swarmfile import config_yaml
from state.config import Config
from state.connection import Connection
from streaming.acls import command_lines, identities, rules
from streaming.brokersettings import Login
from streaming.follow import Follower
from tests.commandlab import quorumscope, sentence
from tests.securitylab import (
    CANARY,
    MATRIX,
    MONITOR,
    PEER,
    READER,
    REJECTED,
    ROLES,
    SEGMENTS,
    TOPICS,
    VERDICTS,
    Place,
    closed_place,
)

pytestmark = pytest.mark.kafka

SWARM = bytes(range(32))
DEADLINE_S = 30


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with closed_place(tmp_path_factory.mktemp("closed")) as started:
        yield started


def write(connection: Connection, topic: str) -> KafkaError | None:
    """Write one record; what the broker says against it."""
    outcome: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        outcome.append(error)

    producer = Producer({**connection.librdkafka(), "log_level": 0})
    producer.produce(topic, b"not a segment", b"key", on_delivery=delivered)
    assert producer.flush(DEADLINE_S) == 0
    return outcome[0]


def read(connection: Connection, topic: str) -> int:
    """How many records a reader of ours finds; MissingPartError if it may not see the topic."""
    with closing(Follower(connection, topic)) as follower:
        return sum(1 for _ in follower.read_to_end())


def refusals(connection: Connection, tried: dict[str, Callable[[AdminClient], dict[object, object]]]) -> set[str]:
    """Which of these the broker refuses for want of rights."""
    admin, found = AdminClient({**connection.librdkafka(), "log_level": 0}), set()
    for name, act in tried.items():
        (future,) = act(admin).values()
        with pytest.raises(KafkaException) as refused:
            future.result(DEADLINE_S)  # type: ignore[attr-defined]
        code = refused.value.args[0].code()
        assert code in {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}, name
        found.add(name)
    return found


# What each may do


def test_a_peer_publishes_its_segments(place: Place, tmp_path: Path) -> None:
    public = public_key(tmp_path / "peer")
    before = read(place.broker.connection(READER), SEGMENTS)
    with (
        Peer.open(tmp_path / "peer", SWARM, [public]) as peer,
        Publisher(place.broker.connection(PEER).librdkafka(), SEGMENTS) as publisher,
    ):
        publisher.resume(peer)
        publisher.publish(peer.close())
        publisher.flush()
    with Publisher(place.broker.connection(PEER).librdkafka(), SEGMENTS) as again:
        assert again.resume(Peer.open(tmp_path / "peer", SWARM, [public])) == 0, "it reads what it has published"
    assert read(place.broker.connection(READER), SEGMENTS) == before + 1


@pytest.mark.parametrize("topic", [VERDICTS, MATRIX, REJECTED])
def test_a_peer_that_writes_what_is_the_monitors_is_refused(place: Place, topic: str) -> None:
    refused = write(place.broker.connection(PEER), topic)
    assert refused is not None
    # A topic that one may not even see is as one that is not there.
    assert refused.code() in {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART}


@pytest.mark.parametrize("topic", [VERDICTS, MATRIX, REJECTED])
def test_the_monitor_writes_what_is_its_own(place: Place, topic: str) -> None:
    assert write(place.broker.connection(MONITOR), topic) is None


def test_the_monitor_cannot_write_segments(place: Place) -> None:
    refused = write(place.broker.connection(MONITOR), SEGMENTS)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("topic", TOPICS)
def test_a_reader_reads_everything_and_writes_nothing(place: Place, topic: str) -> None:
    reader = place.broker.connection(READER)
    assert read(reader, topic) >= 0
    refused = write(reader, topic)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_canary_lies_with_the_rights_of_a_canary_and_writes_no_verdicts(place: Place, tmp_path: Path) -> None:
    swarms, before = tmp_path / "swarms.yaml", read(place.broker.connection(READER), SEGMENTS)
    swarms.write_text(config_yaml(Config((canary_swarm(1),))))
    done = quorumscope("canary", "--swarms", swarms, "--kafka", place.file(CANARY), "--timeout", "1s")
    assert "no verdict about it" in done.stdout, done.stderr  # nobody judges here
    assert read(place.broker.connection(READER), SEGMENTS) == before + 2
    for topic in (VERDICTS, MATRIX, REJECTED):
        assert write(place.broker.connection(CANARY), topic) is not None


@pytest.mark.parametrize("login", [PEER, MONITOR, READER, CANARY], ids=lambda login: login.username)
def test_nobody_changes_topics_records_settings_or_rights(place: Place, login: Login) -> None:
    mine = AclBinding(
        ResourceType.TOPIC,
        VERDICTS,
        ResourcePatternType.LITERAL,
        f"User:{login.username}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    setting = ConfigResource(ResourceType.TOPIC, SEGMENTS, incremental_configs=[entry])
    tried: dict[str, Callable[[AdminClient], dict[object, object]]] = {
        "create": lambda admin: admin.create_topics([NewTopic("another", 1)]),
        "delete": lambda admin: admin.delete_topics([SEGMENTS]),
        "delete records": lambda admin: admin.delete_records([TopicPartition(SEGMENTS, 0, 1)]),
        "settings": lambda admin: admin.incremental_alter_configs([setting]),
        "rights": lambda admin: admin.create_acls([mine]),
    }
    assert refusals(place.broker.connection(login), tried) == tried.keys()


# The command that gives rights


def test_the_rights_that_were_written_are_found_to_be_right_and_one_more_is_told(place: Place) -> None:
    owner = place.owner_file
    checked = quorumscope("acls", *ROLES, "--kafka", owner)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    more = quorumscope("acls", *ROLES, "--peer", "newcomer", "--kafka", owner)
    assert more.returncode == 1
    assert f"User:newcomer may not Write {SEGMENTS}" in more.stdout
    other = quorumscope("acls", "--peer", "newcomer", "--monitor", "another", "--kafka", owner)
    assert other.returncode == 1
    assert f"User:{MONITOR.username} may Write {VERDICTS} and should not" in other.stdout


def test_rights_are_for_an_administrator(place: Place) -> None:
    told = sentence(quorumscope("acls", *ROLES, "--kafka", place.file(PEER), "--create"), 3)
    assert "administrator" in told


def test_the_rules_are_written_as_lines_of_kafkas_own_tool() -> None:
    lines = list(command_lines(rules("p", identities(["alice"], "User:CN=the monitor,O=us", []))))
    assert lines[0].endswith("--allow-principal User:alice --operation Read --operation Write --topic p.segments")
    assert all("'User:CN=the monitor,O=us'" in line for line in lines[2:])
    assert [line for line in lines if "--operation Write" in line and "p.verdicts" in line] == [lines[4]]


@pytest.mark.parametrize(
    "names", [(["me"], "me"), (["*"], "m"), (["User:*"], "m"), ([""], "m"), (["a", "User:a"], "m")]
)
def test_rights_for_all_for_nobody_or_for_one_in_two_roles_are_not_given(names: tuple[list[str], str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        identities(*names, [])
