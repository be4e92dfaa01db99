"""What the embedded broker is told: a node for one machine, open to all on loopback, or closed to all but its users.

- By default there is one address for clients, `INTERNAL`, where everybody may do everything.
- With a `Login` there is a second one, `SECURE`, for who knows the password; it is not encrypted (SASL/PLAIN).
- With `Secure` nothing is open: `SECURE` is TLS with SASL/SCRAM-SHA-512, and a user may do what ACLs say. `INTERNAL`
  and the controller take who shows the node's own certificate: the node and its owner, who may do everything.
"""

from pathlib import Path
from typing import NamedTuple

from state.connection import Connection, Sasl, Tls

RECORD_BYTES_MAX = 8 << 20  # room for hostile records far above our own limit of 1 MiB, and their batch
FOREVER = (1 << 63) - 1

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    # A misspelt topic is an error, not a new topic with the wrong settings.
    "auto.create.topics.enable": "false",
    # One node: one copy of everything, and no more partitions of the inner topics than it needs.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Simulations write record times of another year: no record is refused for its time, dropped or rolled for its age.
    "log.message.timestamp.before.max.ms": str(FOREVER),
    "log.message.timestamp.after.max.ms": str(FOREVER),
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "log.roll.ms": str(FOREVER),
    "message.max.bytes": str(RECORD_BYTES_MAX),
    "replica.fetch.max.bytes": str(RECORD_BYTES_MAX),
    # A consumer group of a test is alone: nobody else to wait for.
    "group.initial.rebalance.delay.ms": "0",
    # Sized for the small heap; the cleaner takes 128 MiB otherwise.
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    # How soon a node that starts is told to serve, and a node that was killed is given up.
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
}


NODE_NAME = "quorumscope-node"
"""The common name in the certificate of a node; who shows it is the node, to whom everything is allowed."""

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Login(NamedTuple):
    """A user that may log in with a password. Requires letters and digits only."""

    username: str
    password: str


class Certificate(NamedTuple):
    """A node's certificate with its chain, its key (PKCS #8, without password) and who signed it; all as PEM text."""

    chain: str
    key: str
    authority: str


class Secure(NamedTuple):
    """A node that is closed to all but its users. The certificate is for 127.0.0.1 and named NODE_NAME."""

    certificate: Certificate
    users: tuple[Login, ...]


Access = Login | Secure | None
"""Who may use a broker; None: everybody on this machine."""


class Ports(NamedTuple):
    """The loopback ports of a node."""

    internal: int
    controller: int
    secure: int


def owner_connection(access: Access, ports: Ports) -> Connection:
    """How the owner of a node reaches it, who may do everything."""
    address = f"127.0.0.1:{ports.internal}"
    if not isinstance(access, Secure):
        return Connection(address)
    chain, key, authority = access.certificate
    return Connection(address, "SSL", tls=Tls(authority, chain, key))


def user_connection(access: Login | Secure, ports: Ports, login: Login) -> Connection:
    """How a user reaches the node."""
    address = f"127.0.0.1:{ports.secure}"
    if isinstance(access, Secure):
        tls = Tls(access.certificate.authority)
        return Connection(address, "SASL_SSL", Sasl("SCRAM-SHA-512", *login), tls)
    return Connection(address, "SASL_PLAINTEXT", Sasl("PLAIN", *login))


def write_settings(folder: Path, ports: Ports, access: Access) -> None:
    """Write the file that Kafka is started with, and the files that it names. Requires a folder of the owner alone."""
    settings = SETTINGS | _listeners(ports, access) | {"log.dirs": str(folder / "data")}
    if isinstance(access, Login):
        settings |= _plain(access)
    elif isinstance(access, Secure):
        node, authority = folder / "node.pem", folder / "authority.pem"
        node.write_text(access.certificate.key + access.certificate.chain, encoding="utf-8")
        authority.write_text(access.certificate.authority, encoding="utf-8")
        settings |= _secure(node, authority)
    text = "".join(f"{name}={value}\n" for name, value in settings.items())
    (folder / "server.properties").write_text(text, encoding="utf-8")


def _listeners(ports: Ports, access: Access) -> dict[str, str]:
    internal = "SSL" if isinstance(access, Secure) else "PLAINTEXT"
    protocols = {"INTERNAL": internal, "CONTROLLER": internal}
    if access is not None:
        protocols["SECURE"] = "SASL_SSL" if isinstance(access, Secure) else "SASL_PLAINTEXT"
    places = {name: f"{name}://127.0.0.1:{getattr(ports, name.lower())}" for name in protocols}
    return {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "listeners": ",".join(places.values()),
        "advertised.listeners": ",".join(place for name, place in places.items() if name != "CONTROLLER"),
        "controller.quorum.voters": f"1@127.0.0.1:{ports.controller}",
    }


def _plain(login: Login) -> dict[str, str]:
    return {
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": (
            f'{_PLAIN_MODULE} required user_{login.username}="{login.password}";'
        ),
    }


def _secure(node: Path, authority: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(node),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        "listener.name.internal.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": f"RULE:^(.*,)?CN={NODE_NAME}(,.*)?$/{NODE_NAME}/,DEFAULT",
        "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{NODE_NAME}",
    }
