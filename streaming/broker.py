"""The embedded broker: Apache Kafka itself, one node on free loopback ports, for the demo and the tests.

It lives in a temporary directory and ends with its owner, however the owner ends (`guard.py` tells how).

    with Broker() as broker:
        … broker.bootstrap …

A start takes about four seconds: the data directory is formatted by one JVM and served by the next, and `start` returns
only when the broker answers a client. With `Broker(Login(…))` or `Broker(Secure(…))` it asks for passwords, the latter
over TLS (`brokersettings.py` tells how); then `start` returns only when each user can log in.
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
from typing import Self

from state.connection import Connection
from streaming.brokersettings import Access, Login, Ports, Secure, owner_connection, user_connection, write_settings
from streaming.guard import BrokerError, GuardedProcess
from streaming.jars import broker_jars
from streaming.java import find_java_home

START_SECONDS_MAX = 90.0  # four on an idle machine with two cores; a busy one takes many times that
STOP_SECONDS_MAX = 20.0  # a node that stops in order takes half a second
PORT_ATTEMPTS_MAX = 5  # another process may take a port between our choice and Kafka's start
PORT_TAKEN = "Address already in use"  # Java's words for it, on every system
LOG_LINES_SHOWN = 15
POLL_SECONDS = 0.05
SCRAM_ITERATIONS = 4096  # the least that Kafka takes; these passwords live as long as a test

# A small heap, to sit beside Spark on a laptop: the page cache does the work. Nothing may be left outside of the
# directory, so no performance counters; the files that the compression libraries unpack go there too (see `start`).
_JVM_OPTIONS = ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true"]
_LOG_OPTIONS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]


class Broker:
    """One Kafka node. Not for use from two threads at once."""

    def __init__(self, access: Access = None) -> None:
        self._process: GuardedProcess | None = None
        self._command: list[str] = []
        self._access = access
        self._ports = Ports(0, 0, 0)

    @property
    def bootstrap(self) -> str:
        """The address for clients; it stays the same over `restart`."""
        return self.owner.bootstrap

    @property
    def owner(self) -> Connection:
        """How its owner reaches it, who may do everything; with `Secure`, by the node's own certificate."""
        self._started()
        return owner_connection(self._access, self._ports)

    @property
    def secure_bootstrap(self) -> str:
        """The address for clients that log in; for a broker that was made with logins."""
        self._started()
        return f"127.0.0.1:{self._ports.secure}"

    def connection(self, login: Login) -> Connection:
        """How a user reaches it; for a broker that was made with logins."""
        self._started()
        if self._access is None:
            raise BrokerError("The broker was made without logins.")
        return user_connection(self._access, self._ports, login)

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
            deadline = time.monotonic() + START_SECONDS_MAX
            self._start_node(deadline)
            self._let_in(deadline)
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
        write_settings(self.folder, self._ports, self._access)

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
        answered = _wait(lambda: self._ended() or self._answers(self.owner), deadline)
        if self._ended():
            raise self._failure("The broker ended while it started")
        if not answered:
            self._end(signal.SIGKILL)
            raise self._failure(f"The broker did not answer within {START_SECONDS_MAX:.0f} seconds")

    def _let_in(self, deadline: float) -> None:
        """Make the users that the node was made with, and wait until each can log in.

        Through a client and not while the data is formatted: that takes passwords on a command line, for all to see.
        """
        from confluent_kafka import admin

        users = self._access.users if isinstance(self._access, Secure) else ()
        if not users:
            return
        mechanism = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_512, SCRAM_ITERATIONS)
        wanted = [admin.UserScramCredentialUpsertion(name, mechanism, secret.encode()) for name, secret in users]
        client = admin.AdminClient(self.owner.librdkafka())
        for made in client.alter_user_scram_credentials(wanted).values():
            made.result(max(deadline - time.monotonic(), 0))
        for login in users:
            if not _wait(lambda login=login: self._answers(self.connection(login)), deadline):  # type: ignore[misc]
                raise self._failure(f"The user {login.username} could not log in")

    def _answers(self, connection: Connection) -> bool:
        """Whether a client gets metadata that names the node, which it does once it may lead partitions."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with socket.socket() as probe:  # without it the client would wait longer and longer between its attempts
            if probe.connect_ex(("127.0.0.1", int(connection.bootstrap.rpartition(":")[2]))) != 0:
                return False
        client = AdminClient({**connection.librdkafka(), "log_level": 0, "error_cb": lambda _error: None})
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


def _free_ports() -> Ports:
    """Ports that were free a moment ago; held together, so they differ."""
    with socket.socket() as first, socket.socket() as second, socket.socket() as third:
        for free in (first, second, third):
            free.bind(("127.0.0.1", 0))
        return Ports(*(free.getsockname()[1] for free in (first, second, third)))
