"""The embedded broker: Apache Kafka itself, one node on free loopback ports, for the demo and the tests.

It lives in a temporary directory and ends with its owner, however the owner ends (`guard.py` tells how).

    with Broker() as broker:
        … broker.bootstrap …

A start takes about four seconds: the data directory is formatted by one JVM and served by the next, and `start` returns
only when the broker answers a client.
"""

import base64
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from streaming.guard import BrokerError, GuardedProcess
from streaming.jars import broker_jars
from streaming.java import find_java_home

START_SECONDS_MAX = 90.0  # four on an idle machine with two cores; a busy one takes many times that
STOP_SECONDS_MAX = 20.0  # a node that stops in order takes half a second
PORT_ATTEMPTS_MAX = 5  # another process may take a port between our choice and Kafka's start
PORT_TAKEN = "Address already in use"  # Java's words for it, on every system
LOG_LINES_SHOWN = 15
POLL_SECONDS = 0.05

RECORD_BYTES_MAX = 8 << 20  # room for hostile records far above our own limit of 1 MiB, and their batch
FOREVER = (1 << 63) - 1

# A small heap, to sit beside Spark on a laptop: the page cache does the work. Nothing may be left outside of the
# directory, so no performance counters; the files that the compression libraries unpack go there too (see `start`).
_JVM_OPTIONS = ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true"]
_LOG_OPTIONS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
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


class Login(NamedTuple):
    """A user that may log in with a password, over a second address. Requires letters and digits only."""

    username: str
    password: str


class Broker:
    """One Kafka node. Not for use from two threads at once."""

    def __init__(self, login: Login | None = None) -> None:
        self._process: GuardedProcess | None = None
        self._command: list[str] = []
        self._login = login
        self._ports = (0, 0, 0)

    @property
    def bootstrap(self) -> str:
        """The address for clients; it stays the same over `restart`."""
        self._started()
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def secure_bootstrap(self) -> str:
        """The address for clients that log in; for a broker that was made with a login."""
        self._started()
        return f"127.0.0.1:{self._ports[2]}"

    @property
    def folder(self) -> Path:
        """The temporary directory with its data and its log."""
        return Path(self._started().folder)

    def start(self) -> None:
        """Start on free ports and wait until clients are served."""
        if self._process is not None:
            raise BrokerError("The broker is already started.")
        jars = os.pathsep.join(map(str, broker_jars()))
        java = find_java_home() / "bin" / "java"
        self._process = GuardedProcess()
        try:
            self._command = [str(java), *_JVM_OPTIONS, *_LOG_OPTIONS, f"-Djava.io.tmpdir={self.folder}", "-cp", jars]
            self._start_node(time.monotonic() + START_SECONDS_MAX)
        except BaseException:  # Ctrl-C too
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the node and remove its directory; does nothing if it is not started."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def kill(self) -> None:
        """End the node with SIGKILL, as a crash would; its data and ports are kept for `restart`."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the node in order, if it runs, and start it again with the same data on the same ports."""
        self._end(signal.SIGTERM)
        self._serve(time.monotonic() + START_SECONDS_MAX)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self) -> GuardedProcess:
        if self._process is None:
            raise BrokerError("The broker is not started.")
        return self._process

    def _start_node(self, deadline: float) -> None:
        self._choose_ports()
        self._format(deadline)
        for attempt in range(1, PORT_ATTEMPTS_MAX + 1):
            try:
                self._serve(deadline)
            except BrokerError as error:
                if PORT_TAKEN not in str(error) or attempt == PORT_ATTEMPTS_MAX:
                    raise
                self._choose_ports()
            else:
                return

    def _choose_ports(self) -> None:
        self._ports = _free_ports()
        (self.folder / "server.properties").write_text(
            _properties(self.folder, self._ports, self._login), encoding="utf-8"
        )

    def _format(self, deadline: float) -> None:
        # With "=" in between, since an id may begin with a dash, which the tool would take for an option.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._run("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", "server.properties")
        _wait(self._ended, deadline)
        if self._started().status() != 0:
            raise self._failure("Kafka could not format its data directory")

    def _serve(self, deadline: float) -> None:
        self._log.unlink(missing_ok=True)  # what a failure shows must be of this start
        self._run("kafka.Kafka", "server.properties")
        answered = _wait(lambda: self._ended() or self._answers(), deadline)
        if self._ended():
            raise self._failure("The broker ended while it started")
        if not answered:
            self._end(signal.SIGKILL)
            raise self._failure(f"The broker did not answer within {START_SECONDS_MAX:.0f} seconds")

    def _answers(self) -> bool:
        """Whether a client gets metadata that names the node, which it does once it may lead partitions."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with socket.socket() as probe:  # without it the client would wait longer and longer between its attempts
            if probe.connect_ex(("127.0.0.1", self._ports[0])) != 0:
                return False
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "error_cb": lambda _error: None})
        try:
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _run(self, *arguments: str) -> None:
        self._started().start([*self._command, *arguments], str(self._log))

    def _ended(self) -> bool:
        return self._started().status() is not None

    def _end(self, number: signal.Signals) -> None:
        for attempt in (number, signal.SIGKILL):
            if self._ended():
                return
            self._started().signal(attempt)
            _wait(self._ended, time.monotonic() + STOP_SECONDS_MAX)

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    def _failure(self, what: str) -> BrokerError:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return BrokerError("\n".join([f"{what}; the last lines of its log:", *lines[-LOG_LINES_SHOWN:]]))


def _wait(condition: Callable[[], bool], deadline: float) -> bool:
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return met


def _free_ports() -> tuple[int, int, int]:
    """Ports for clients, the controller and clients that log in, free a moment ago; held together, so they differ."""
    with socket.socket() as first, socket.socket() as second, socket.socket() as third:
        for free in (first, second, third):
            free.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1], third.getsockname()[1]


def _properties(folder: Path, ports: tuple[int, int, int], login: Login | None) -> str:
    port, controller_port, secure_port = ports
    place = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(folder / "data"),
    }
    if login is not None:
        secure = f",SECURE://127.0.0.1:{secure_port}"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        place |= {
            "listeners": place["listeners"] + secure,
            "advertised.listeners": place["advertised.listeners"] + secure,
            "listener.security.protocol.map": _SETTINGS["listener.security.protocol.map"] + ",SECURE:SASL_PLAINTEXT",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": (
                f'{module} required user_{login.username}="{login.password}";'
            ),
        }
    return "".join(f"{name}={value}\n" for name, value in (_SETTINGS | place).items())
