"""The topics: how each must be set up, creating them, and telling what is wrong with those that exist."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from state.connection import Connection
from state.fold import Topic
from streaming.parts import MissingPartError
from streaming.refusal import REFUSALS, explain_refusal

PREFIX_DEFAULT = "quorumscope"
QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _error: None}
"""For a client whose own chatter does not reach the terminal: what fails is told by the call that fails."""

REQUEST_TIMEOUT_S = 10.0
"""How long a broker may take to answer: an unreachable one is told within this time."""

ASK_PARTS = (0.2, 0.8)
"""That time in two parts: Kafka's client tells why it is not let in only between two questions."""

_MIB = 1 << 20
_TIME_MS_MAX = 1 << 53


class TopicPlan(NamedTuple):
    """How a topic is to be made: its partitions, and the settings that must hold."""

    name: str
    partitions: int
    settings: dict[str, str]
    wanted_bytes: int
    """The least `max.message.bytes` that will do."""


class Setup(NamedTuple):
    """What an operator chooses about the topics."""

    prefix: str = PREFIX_DEFAULT
    partitions: int = 4
    replication: int = -1
    """−1: what the broker is set to."""
    retention_ms: int = 7 * 86_400_000
    """How long segments are kept, and so how far back a replay can go."""
    create_time: bool = False
    """Record times are the writer's: for simulations and imports only, because peers' clocks lie."""


class Admin(AdminClient):  # type: ignore[misc]  # the library brings no types
    """Kafka's client for administration; it remembers why it was not let in."""

    def __init__(self, connection: Connection) -> None:
        self.refusal: KafkaError | None = None
        super().__init__(connection.librdkafka() | QUIET | {"error_cb": self._note})

    def _note(self, error: KafkaError) -> None:
        if error.code() in REFUSALS:
            self.refusal = error


class MissingTopicError(MissingPartError):
    """A topic that is needed does not exist."""


def plans(setup: Setup) -> list[TopicPlan]:
    """The topics of a deployment.

    `.segments` takes records over our own limit of 1 MiB, so that they can be judged and kept as dead letters instead
    of vanishing at the broker; the dead letters must hold them with their headers.
    """
    time_type = "CreateTime" if setup.create_time else "LogAppendTime"
    # Records with times of their own choice would expire by them at once; and Spark cannot read one of a time beyond
    # what microseconds count to, so the broker refuses those.
    kept_ms = -1 if setup.create_time else setup.retention_ms
    times = {"message.timestamp.after.max.ms": str(_TIME_MS_MAX)} if setup.create_time else {}
    delete = {"cleanup.policy": "delete", "retention.ms": str(setup.retention_ms)}

    segments = delete | times | {"message.timestamp.type": time_type, "retention.ms": str(kept_ms)}

    def plan(topic: str, partitions: int, settings: dict[str, str], wanted_bytes: int) -> TopicPlan:
        settings = settings | {"max.message.bytes": str(wanted_bytes)}
        return TopicPlan(f"{setup.prefix}.{topic}", partitions, settings, wanted_bytes)

    return [
        plan(Topic.SEGMENTS, setup.partitions, segments, 2 * _MIB),
        plan(Topic.VERDICTS, 1, {"cleanup.policy": "compact"}, 4 * _MIB),
        plan(Topic.MATRIX, 1, delete, 8 * _MIB),
        plan(Topic.REJECTED, 1, delete, 4 * _MIB),
    ]


def create_topics(connection: Connection, setup: Setup) -> list[str]:
    """Make the topics that do not exist yet, and give their names. Those that exist are not touched."""
    admin = admin_client(connection)
    present = existing(admin, connection)
    absent = [plan for plan in plans(setup) if plan.name not in present]
    new = [NewTopic(p.name, p.partitions, setup.replication, config=p.settings) for p in absent]
    for name, future in (admin.create_topics(new) if new else {}).items():
        try:
            future.result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise MissingPartError(f"the topic {name} could not be made: {error.args[0].str()}") from None
    return [plan.name for plan in absent]


def check_topics(connection: Connection, setup: Setup) -> list[str]:
    """What is wrong with the topics, a sentence each; nothing if all is well."""
    admin = admin_client(connection)
    present = existing(admin, connection)
    problems = []
    for plan in plans(setup):
        if plan.name not in present:
            problems.append(f"{plan.name} does not exist: `quorumscope topics --create` makes it")
            continue
        problems += [f"{plan.name}: {problem}" for problem in _differences(plan, _settings(admin, plan.name))]
        if present[plan.name] < plan.partitions:
            problems.append(f"{plan.name}: want at least {plan.partitions} partitions, got {present[plan.name]}")
    return problems


def require_topics(connection: Connection, prefix: str) -> None:
    """Raise MissingTopicError, with what to do, unless every topic exists."""
    present = existing(admin_client(connection), connection)
    absent = [plan.name for plan in plans(Setup(prefix)) if plan.name not in present]
    if absent:
        raise MissingTopicError(
            f"the topics {', '.join(absent)} do not exist on {connection.bootstrap}: "
            f"make them with `quorumscope topics --create`, or give the right --prefix"
        )


def time_type(connection: Connection, name: str) -> str:
    """Whose times the records of a topic have: `CreateTime`, the writer's, or `LogAppendTime`, the broker's."""
    admin = admin_client(connection)
    if name not in existing(admin, connection):
        raise MissingTopicError(f"the topic {name} does not exist: make it with `quorumscope topics --create`")
    return _settings(admin, name).get("message.timestamp.type", "")


def retention_ms(connection: Connection, name: str) -> float:
    """How long a topic keeps its records; infinite if for ever."""
    return _forever_if_negative(_settings(admin_client(connection), name).get("retention.ms", "-1"))


def admin_client(connection: Connection) -> Admin:
    try:
        return Admin(connection)
    except KafkaException as error:
        raise MissingPartError(f"the Kafka settings are not usable: {error.args[0].str()}") from None


def existing(admin: Admin, connection: Connection) -> dict[str, int]:
    """All topics that may be seen, with their numbers of partitions; MissingPartError if no broker answers."""
    reason = ""
    for part in ASK_PARTS:
        try:
            found = admin.list_topics(timeout=part * REQUEST_TIMEOUT_S).topics
            return {name: len(topic.partitions) for name, topic in found.items()}
        except KafkaException as error:
            reason = error.args[0].str()
        admin.poll(0)  # its complaints come now
        if admin.refusal is not None:
            raise MissingPartError(explain_refusal(connection, admin.refusal))
    raise MissingPartError(
        f"no Kafka broker answers at {connection.bootstrap} ({reason}): "
        "check the address, that it runs, and the security settings"
    )


def _settings(admin: Admin, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    try:
        entries = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource].result()
    except KafkaException as error:
        raise MissingPartError(f"the settings of {name} could not be read: {error.args[0].str()}") from None
    return {key: entry.value for key, entry in entries.items()}


def _differences(plan: TopicPlan, settings: dict[str, str]) -> Iterator[str]:
    for name in ("cleanup.policy", "message.timestamp.type"):
        want = plan.settings.get(name)
        if want is not None and settings.get(name) != want:
            yield f"want {name}={want}, got {settings.get(name)}"
    if int(settings.get("max.message.bytes", "0")) < plan.wanted_bytes:
        yield f"want max.message.bytes of at least {plan.wanted_bytes}, got {settings.get('max.message.bytes')}"
    kept_ms = _forever_if_negative(settings.get("retention.ms", "-1"))
    want_ms = _forever_if_negative(plan.settings.get("retention.ms", "0"))
    if kept_ms < want_ms:
        yield f"want retention.ms of at least {want_ms}, got {kept_ms}: a replay could not go back that far"


def _forever_if_negative(retention_ms: str) -> float:
    return float("inf") if int(retention_ms) < 0 else int(retention_ms)
