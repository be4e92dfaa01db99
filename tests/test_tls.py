"""A broker that is closed to all but its users: how clients come in, and what a user is told who does not."""

import base64
import datetime as dt
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from producers.scenarios import SCENARIOS
from producers.sinks import publish_fast
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.connection import Connection, Tls
from streaming.brokersettings import Login
from streaming.follow import Follower
from streaming.services import free_port
from tests.commandlab import command, run_here, sentence
from tests.securitylab import (
    MONITOR,
    PEER,
    READER,
    ROLES,
    SEGMENTS,
    VERDICTS,
    Place,
    closed_place,
    kafka_file,
    shown_by_files,
    shown_by_pages,
    shown_by_processes,
)

pytestmark = pytest.mark.kafka

DEADLINE_S = 30
YESTERDAY = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)

COMMANDS = {
    "topics": ["topics"],
    "acls": ["acls", *ROLES],
    "run": ["run", "--swarms", "swarms.yaml", "--checkpoint", "checkpoint"],
    "exporter": ["exporter", "--swarms", "swarms.yaml", "--listen", "127.0.0.1:0"],
    "evidence": ["evidence", "simulated", "peer-1", "--swarms", "swarms.yaml"],
    "explain": ["explain", "simulated", "peer-1:1", "--swarms", "swarms.yaml"],
    "simulate": ["simulate", "honest", "--fast"],
}

TALKATIVE = """
appender.file.type = File
appender.file.name = file
appender.file.fileName = talk.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
logger.kafka.name = org.apache.spark.sql.kafka010
logger.kafka.level = debug
logger.streaming.name = org.apache.spark.sql.execution.streaming
logger.streaming.level = debug
"""
"""What makes Spark write down what it does with Kafka: its own default writes warnings only."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with closed_place(tmp_path_factory.mktemp("closed")) as started:
        yield started


@pytest.fixture
def _swarms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own to work in, with a file of swarms."""
    monkeypatch.chdir(tmp_path)
    simulation = SCENARIOS["honest"].run(Settings(duration_ms=20_000))
    (tmp_path / "swarms.yaml").write_text(config_yaml(simulation.config))


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that finds no way to Kafka; gives the one sentence that it ends with."""
    return lambda *arguments: sentence(run_here(monkeypatch, capfd, *arguments), 3)


def changed(connection: Connection, **changes: object) -> Connection:
    return msgspec.structs.replace(connection, **changes)


@contextmanager
def stranger(authority: trustme.CA, not_after: dt.datetime) -> Iterator[str]:
    """The address of a server that shows everybody a certificate, and says nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", not_after=not_after).configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(client, server_side=True).close()
                except OSError:
                    client.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(DEADLINE_S)


def test_an_independent_client_comes_in_too(place: Place) -> None:
    def settings(login: Login) -> dict[str, object]:
        return {
            "bootstrap_servers": place.broker.secure_bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cadata=place.authority.cert_pem.bytes().decode()),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": login.username,
            "sasl_plain_password": login.password,
        }

    producer = KafkaProducer(**settings(PEER))
    producer.send(SEGMENTS, b"not a segment", timestamp_ms=1).get(DEADLINE_S)
    producer.close()
    reader = KafkaConsumer(
        SEGMENTS,
        **settings(READER),
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=DEADLINE_S * 1000,
    )
    try:
        assert next(reader).value == b"not a segment"
    finally:
        reader.close()


def test_without_a_password_nobody_comes_in_by_any_door(place: Place) -> None:
    tls = Tls(place.authority.cert_pem.bytes().decode())
    for address in (place.broker.bootstrap, place.broker.secure_bootstrap):
        for connection in (Connection(address), Connection(address, "SSL", tls=tls)):
            with pytest.raises(KafkaException):
                AdminClient({**connection.librdkafka(), "log_level": 0}).list_topics(timeout=1)


@pytest.mark.spark
def test_the_job_works_and_its_password_is_nowhere_to_be_seen(place: Place, tmp_path: Path) -> None:
    simulation = SCENARIOS["restored-backup"].run(Settings(duration_ms=20_000))
    (tmp_path / "swarms.yaml").write_text(config_yaml(simulation.config))
    publish_fast(simulation.records, place.broker.connection(PEER).librdkafka(), SEGMENTS)
    port = free_port()
    process = start_talkative_job(place, tmp_path, port)
    try:
        wait_for_verdict(place, process)
        shown = dict(shown_by_processes()) | dict(shown_by_files(tmp_path))
        shown |= dict(shown_by_pages(f"http://127.0.0.1:{port}"))
    finally:
        process.terminate()
        out, err = process.communicate(timeout=2 * DEADLINE_S)
    assert process.returncode == 0, err
    shown |= {"output": (out + err).encode()} | dict(shown_by_files(tmp_path))
    shown |= dict(shown_by_files(place.broker.folder))
    # What is searched does hold what there is to see: Kafka's settings and the plans.
    assert b"sasl.jaas.config = [hidden]" in shown[str(tmp_path / "talk.log")]
    assert any("cmdline" in address and b"org.apache.spark" in text for address, text in shown.items())
    for what, told in {"/environment": b"redaction.regex", "/SQL/": b"kafka010", "/events/": b"kafka010"}.items():
        assert any(what in address and told in text for address, text in shown.items()), what
    secret = MONITOR.password.encode()
    assert [address for address, text in shown.items() if secret in text or base64.b64encode(secret) in text] == []


def start_talkative_job(place: Place, folder: Path, port: int) -> subprocess.Popen[str]:
    """The job, made to show and to write as much as Spark can of what it does."""
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.log.level": "INFO",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "spark.local.dir": str(folder / "local"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.compress": "false",
    }
    (folder / "events").mkdir()
    (folder / "log4j2.properties").write_text(TALKATIVE)
    conf = [part for name, text in settings.items() for part in ("--conf", f"{name}={text}")]
    files = ["--swarms", folder / "swarms.yaml", "--kafka", place.file(MONITOR), "--checkpoint", folder / "checkpoint"]
    return subprocess.Popen(
        command("run", *files, *conf), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )


def wait_for_verdict(place: Place, process: subprocess.Popen[str]) -> None:
    """Until a reader finds that somebody lied."""
    deadline = time.monotonic() + 4 * DEADLINE_S
    with closing(Follower(place.broker.connection(READER), VERDICTS)) as follower:
        while not any(message.key().startswith(b"equivocation/") for message in follower.poll(0.2)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.usefixtures("_swarms")
def test_a_wrong_password_is_one_sentence_from_every_command(
    place: Place, ended: Callable[..., str], arguments: list[str]
) -> None:
    wrong = place.broker.connection(Login(MONITOR.username, "n0tThePassword"))
    told = ended(*arguments, "--kafka", kafka_file(Path("kafka"), wrong))
    assert "refuses the user 'monitor'" in told
    assert "n0tThePassword" not in told


def test_an_unknown_user_is_one_sentence(place: Place, ended: Callable[..., str], tmp_path: Path) -> None:
    unknown = place.broker.connection(Login("stranger", MONITOR.password))
    assert "refuses the user 'stranger'" in ended("topics", "--kafka", kafka_file(tmp_path / "kafka", unknown))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("another authority", "unable to get local issuer certificate"),
        ("another host", "Hostname mismatch"),
        ("expired", "certificate has expired"),
    ],
)
def test_a_certificate_that_does_not_fit_is_one_sentence(
    place: Place, ended: Callable[..., str], tmp_path: Path, fault: str, reason: str
) -> None:
    right = place.broker.connection(MONITOR)
    with stranger(place.authority, not_after=YESTERDAY) as expired:
        wrong = {
            "another authority": changed(right, tls=Tls(trustme.CA().cert_pem.bytes().decode())),
            "another host": changed(right, bootstrap=right.bootstrap.replace("127.0.0.1", "localhost")),
            "expired": changed(right, bootstrap=expired),
        }[fault]
        told = ended("topics", "--kafka", kafka_file(tmp_path / "kafka", wrong))
    assert reason in told
    assert "check `tls.ca_file`" in told
