"""Kafka's security settings reach every client: ours, Spark's source and Spark's sink."""

from pathlib import Path

import pytest

from producers.scenarios import SCENARIOS
from producers.sinks import publish_fast
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.connection import Connection, Sasl, Tls
from streaming.broker import Broker
from streaming.brokersettings import Login
from tests.commandlab import quorumscope, sentence

LOGIN = Login("monitor", "s3cretWithDigits")


@pytest.mark.spark
@pytest.mark.kafka
def test_with_a_password_from_a_file_everything_works_and_with_a_wrong_one_nothing_does(tmp_path: Path) -> None:
    simulation = SCENARIOS["restored-backup"].run(Settings(duration_ms=20_000))
    swarms, kafka, password = tmp_path / "swarms.yaml", tmp_path / "kafka.yaml", tmp_path / "password"
    swarms.write_text(config_yaml(simulation.config))
    password.write_text(LOGIN.password + "\n")
    with Broker(LOGIN) as broker:
        kafka.write_text(
            f"bootstrap: {broker.secure_bootstrap}\nprotocol: SASL_PLAINTEXT\n"
            f"sasl: {{mechanism: PLAIN, username: {LOGIN.username}, password_file: {password}}}\n"
        )
        made = quorumscope("topics", "--create", "--create-time", "--kafka", kafka)
        assert made.returncode == 0, made.stderr
        publish_fast(simulation.records, broker.connection(LOGIN).librdkafka(), "quorumscope.segments")
        job: list[str | Path] = ["--swarms", swarms, "--kafka", kafka]
        run = quorumscope("run", *job, "--checkpoint", tmp_path / "checkpoint", "--available-now")
        assert run.returncode == 0, run.stderr
        (author,) = {equivocation.author for equivocation in simulation.truth.equivocations}
        evidence = quorumscope("evidence", "simulated", author, *job, "--out", tmp_path / "evidence.json")
        assert evidence.returncode == 0, evidence.stderr
        assert LOGIN.password not in run.stdout + run.stderr + (tmp_path / "checkpoint" / "spark.log").read_text()
        password.write_text("wrong")
        assert "refuses the user 'monitor'" in sentence(quorumscope("topics", "--kafka", kafka), 3)


def test_both_kinds_of_clients_are_told_the_same() -> None:
    connection = Connection(
        "broker:9093",
        "SASL_SSL",
        Sasl("SCRAM-SHA-512", "me", 'quote " and \\ backslash'),
        Tls("ca-text", "certificate-text", "key-text", "key-password"),
    )
    java, ours = connection.java(), connection.librdkafka()
    assert java["security.protocol"] == ours["security.protocol"] == "SASL_SSL"
    assert java["sasl.mechanism"] == ours["sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="quote \\" and \\\\ backslash";'
    )
    assert ours["sasl.password"] == 'quote " and \\ backslash'
    pairs = {
        "ssl.truststore.certificates": "ssl.ca.pem",
        "ssl.keystore.certificate.chain": "ssl.certificate.pem",
        "ssl.keystore.key": "ssl.key.pem",
        "ssl.key.password": "ssl.key.password",
    }
    assert {java[name] for name in pairs} == {ours[name] for name in pairs.values()}


def test_the_text_form_of_a_connection_shows_no_secret() -> None:
    shown = repr(Connection("b:1", "SASL_SSL", Sasl("PLAIN", "me", "hidden"), Tls("ca", "cert", "hidden", "hidden")))
    assert "hidden" not in shown
