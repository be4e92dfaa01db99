"""Who may do what on the topics, as Kafka's access control lists: the rules, writing them, and what is wrong with them.

- A peer writes `.segments`, and reads it: it compares its log with what its key has published.
- The monitor reads `.segments` and `.matrix`, and is the only one to write `.verdicts`, `.matrix` and `.rejected`.
- A reader (the exporter, `evidence`, `prove`, `explain`) reads all four and writes nothing.
- A canary writes `.segments`, and reads `.verdicts` to see what is said about it.

A right to read or to write a topic implies the right to see that it is there; writing implies idempotent producers.
Kafka's own client asks where its group would be led, though ours join none: so each may see groups of our names.
"""

import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from state.connection import Connection
from state.fold import Topic
from streaming.parts import MissingPartError
from streaming.topics import REQUEST_TIMEOUT_S, Admin, admin_client, existing

GROUPS = "quorumscope-"
"""What the names of our clients' groups begin with."""

Rights = dict[str, tuple[str, ...]]
"""The operations on each topic."""

PEER_RIGHTS: Rights = {Topic.SEGMENTS: ("READ", "WRITE")}
MONITOR_RIGHTS: Rights = {
    # The settings are for the metric of how long segments are kept.
    Topic.SEGMENTS: ("READ", "DESCRIBE_CONFIGS"),
    Topic.MATRIX: ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    Topic.VERDICTS: ("READ", "WRITE"),
    Topic.REJECTED: ("WRITE",),
}
READER_RIGHTS: Rights = dict.fromkeys((Topic.SEGMENTS, Topic.MATRIX, Topic.VERDICTS, Topic.REJECTED), ("READ",))
CANARY_RIGHTS: Rights = {Topic.SEGMENTS: ("WRITE",), Topic.VERDICTS: ("READ",)}

HARMLESS = {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
"""Operations that change nothing; whoever has another one on a topic of ours is told of, unless a rule gives it."""

PRINCIPAL_KIND = "User:"
ANYBODY = "User:*"


class Identities(NamedTuple):
    """The principals of a deployment, such as `User:alice`."""

    peers: tuple[str, ...]
    monitor: str
    readers: tuple[str, ...] = ()
    canaries: tuple[str, ...] = ()


class Rule(NamedTuple):
    """A principal may do one thing with one topic, or with the groups whose names begin so."""

    principal: str
    resource: str
    name: str
    operation: str


def principal(name: str) -> str:
    """Kafka's name for who logs in as `name`; one that is spelled out stays. Raises ValueError for no name, or all."""
    full = name if name.startswith(PRINCIPAL_KIND) else PRINCIPAL_KIND + name
    if full in (PRINCIPAL_KIND, ANYBODY):
        raise ValueError(f"expected the name of a user, got {name!r}")
    return full


def identities(peers: Iterable[str], monitor: str, readers: Iterable[str], canaries: Iterable[str] = ()) -> Identities:
    """The principals of these names; ValueError unless each has one role: who writes verdicts is nobody else."""
    others = (tuple(map(principal, names)) for names in (readers, canaries))
    found = Identities(tuple(map(principal, peers)), principal(monitor), *others)
    everybody = (*found.peers, found.monitor, *found.readers, *found.canaries)
    for one in everybody:
        if everybody.count(one) > 1:
            raise ValueError(f"expected a role for each user, got {one} in two roles")
    return found


def rules(prefix: str, who: Identities) -> list[Rule]:
    """All rights that a deployment needs, and no more."""
    roles: dict[str, Rights] = {
        **dict.fromkeys(who.peers, PEER_RIGHTS),
        who.monitor: MONITOR_RIGHTS,
        **dict.fromkeys(who.readers, READER_RIGHTS),
        **dict.fromkeys(who.canaries, CANARY_RIGHTS),
    }
    found = []
    for one, rights in roles.items():
        found += [
            Rule(one, "TOPIC", f"{prefix}.{topic}", operation)
            for topic, operations in rights.items()
            for operation in operations
        ]
        found.append(Rule(one, "GROUP", GROUPS, "DESCRIBE"))
    return found


def command_lines(wanted: Iterable[Rule]) -> Iterator[str]:
    """The rules as commands of Kafka's own tool, one for each principal and resource."""
    for (one, resource, name), group in groupby(wanted, key=lambda rule: rule[:3]):
        operations = [part for rule in group for part in ("--operation", _title(rule.operation))]
        pattern = ["--resource-pattern-type", "prefixed"] if resource == "GROUP" else []
        parts = ["--add", "--allow-principal", one, *operations, f"--{resource.lower()}", name, *pattern]
        yield "kafka-acls.sh --bootstrap-server BROKER --command-config ADMIN.properties " + shlex.join(parts)


def create_acls(connection: Connection, wanted: Iterable[Rule]) -> int:
    """Write the rules, and give how many they are. One that is there already stays as it is."""
    admin = _admin(connection)
    bindings = [
        AclBinding(
            ResourceType[rule.resource],
            rule.name,
            _pattern(rule),
            rule.principal,
            "*",
            AclOperation[rule.operation],
            AclPermissionType.ALLOW,
        )
        for rule in wanted
    ]
    for future in admin.create_acls(bindings, request_timeout=REQUEST_TIMEOUT_S).values():
        _result(future, "written")
    return len(bindings)


def check_acls(connection: Connection, wanted: list[Rule]) -> list[str]:
    """What is wrong, a sentence each: rights that are missing, and principals that may change what they must not."""
    admin = _admin(connection)
    problems = []
    for resource, name in dict.fromkeys((rule.resource, rule.name) for rule in wanted):
        allowed = _allowed(admin, resource, name)
        here = [rule for rule in wanted if (rule.resource, rule.name) == (resource, name)]
        problems += [
            f"{rule.principal} may not {_title(rule.operation)} {name}: `quorumscope acls --create` lets it"
            for rule in here
            if not allowed & {(who, what) for who in (rule.principal, ANYBODY) for what in (rule.operation, "ALL")}
        ]
        if resource == "TOPIC":
            surplus = allowed - {(rule.principal, rule.operation) for rule in here}
            problems += [
                f"{who} may {_title(what)} {name} and should not: remove that with kafka-acls.sh --remove"
                for who, what in sorted(surplus)
                if what not in HARMLESS
            ]
    return problems


def _allowed(admin: Admin, resource: str, name: str) -> set[tuple[str, str]]:
    """Who may do what with a resource, by whatever pattern that covers its name."""
    asked = AclBindingFilter(
        ResourceType[resource],
        name,
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ALLOW,
    )
    found = _result(admin.describe_acls(asked, request_timeout=REQUEST_TIMEOUT_S), "read")
    return {(binding.principal, binding.operation.name) for binding in found}


def _admin(connection: Connection) -> Admin:
    """A client whose broker answers."""
    admin = admin_client(connection)
    existing(admin, connection)
    return admin


def _pattern(rule: Rule) -> Any:
    return ResourcePatternType.PREFIXED if rule.resource == "GROUP" else ResourcePatternType.LITERAL


def _result(future: Any, done: str) -> Any:
    try:
        return future.result(REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise MissingPartError(
            f"the access control lists could not be {done}: {error.args[0].str()}; this is for an administrator of "
            "a broker that has an authorizer"
        ) from None


def _title(operation: str) -> str:
    """DESCRIBE_CONFIGS as Kafka's tool spells it: DescribeConfigs."""
    return operation.title().replace("_", "")
