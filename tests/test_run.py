"""`quorumscope run` as an operator starts, stops and kills it: a real broker, real Spark, processes of their own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from producers.scenarios import SCENARIOS
from producers.simulation import Simulation
from producers.sinks import publish_fast
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.connection import Connection
from streaming.broker import Broker
from streaming.checkpoint import Label
from streaming.topics import Setup, create_topics
from tests.commandlab import command, quorumscope, sentence
from tests.topiclab import compacted, differences, read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

START_SECONDS_MAX = 180.0


class Deployment:
    """Topics with a simulated run on them, and the command that watches it."""

    def __init__(self, broker: Broker, prefix: str, simulation: Simulation, folder: Path) -> None:
        self.connection = Connection(bootstrap=broker.bootstrap)
        self.prefix = prefix
        self.checkpoint = folder / f"checkpoint-{prefix}"
        self.swarms = folder / f"{prefix}.yaml"
        self.swarms.write_text(config_yaml(simulation.config))
        create_topics(self.connection, Setup(prefix=prefix, partitions=3, create_time=True))
        publish_fast(simulation.records, self.connection.librdkafka(), f"{prefix}.segments")

    def arguments(self, *more: str | Path) -> list[str | Path]:
        """Of options given twice the last one counts."""
        options: dict[str, str | Path] = {
            "--swarms": self.swarms,
            "--checkpoint": self.checkpoint,
            "--bootstrap": self.connection.bootstrap,
            "--prefix": self.prefix,
            "--master": "local[2]",
        }
        parts = [part for option in options.items() for part in option]
        return ["run", *parts, *more]

    def verdicts(self) -> dict[bytes, bytes]:
        return compacted(read_topic(self.connection, f"{self.prefix}.verdicts"))


def wait_for(condition: Callable[[], bool], seconds: float, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def batches(deployment: Deployment, what: str) -> int:
    """How many batches have been planned (`offsets`) or ended (`commits`)."""
    folder = deployment.checkpoint / "segments" / what
    return len([path for path in folder.iterdir() if path.name.isdigit()]) if folder.exists() else 0


def test_killed_in_the_middle_of_a_batch_and_started_again_it_gives_the_bytes_of_two_calm_applications(
    broker: Broker, tmp_path: Path
) -> None:
    simulation = SCENARIOS["ref-to-nothing"].run(Settings(seed=5))
    calm = Deployment(broker, "calm", simulation, tmp_path)
    for query in ("segments", "matrix"):
        own = ("--queries", query, "--checkpoint", tmp_path / query)
        done = quorumscope(*calm.arguments("--available-now", *own))
        assert done.returncode == 0, done.stderr
        assert {path.name for path in (tmp_path / query).iterdir()} & {"segments", "matrix"} == {query}
    killed = Deployment(broker, "killed", simulation, tmp_path)
    for kill, at in ((os.kill, 2), (os.killpg, 4)):
        process = subprocess.Popen(
            command(*killed.arguments("--offsets-max", "60", "--trigger", "0 seconds")),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

        def is_inside_a_batch(at: int = at) -> bool:
            return batches(killed, "offsets") > max(at, batches(killed, "commits"))

        wait_for(is_inside_a_batch, START_SECONDS_MAX, process)
        kill(process.pid, signal.SIGKILL)
        process.communicate()
    done = quorumscope(*killed.arguments("--available-now", "--offsets-max", "60"))
    assert done.returncode == 0, done.stderr
    kinds = {key.split(b"/")[0] for key in calm.verdicts()}
    assert kinds == {b"missing", b"known", b"accepted", b"one_way"}, "the run must have found something"
    assert differences(killed.verdicts(), calm.verdicts()) == {}


def test_it_ends_in_order_on_sigterm_and_goes_on_from_there(broker: Broker, tmp_path: Path) -> None:
    deployment = Deployment(broker, "polite", SCENARIOS["restored-backup"].run(Settings()), tmp_path)
    process = subprocess.Popen(
        command(*deployment.arguments()), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: batches(deployment, "commits") > 0, START_SECONDS_MAX, process)
    # Meanwhile, a second job on the same checkpoint is refused, and so is another number of partitions later.
    assert "another job" in sentence(quorumscope(*deployment.arguments()), 2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "reading polite.segments and polite.matrix on" in out
    assert "records read" in out
    assert "reports read" in out
    found = deployment.verdicts()
    assert found
    assert "shuffle partitions" in sentence(quorumscope(*deployment.arguments("--shuffle-partitions", "7")), 2)
    evidence = quorumscope(
        "evidence", "simulated", _accused(deployment), "--swarms", deployment.swarms, "--prefix", "polite",
        "--bootstrap", deployment.connection.bootstrap, "--out", tmp_path / "evidence.json",
    )  # fmt: skip
    assert evidence.returncode == 0, evidence.stderr
    verified = quorumscope("verify", tmp_path / "evidence.json", "--swarms", deployment.swarms)
    assert "proved: " in verified.stdout
    label = msgspec.json.decode((deployment.checkpoint / "quorumscope.json").read_bytes(), type=Label)
    other = msgspec.structs.replace(label, folds=label.folds | {"logs": 99})
    (deployment.checkpoint / "quorumscope.json").write_bytes(msgspec.json.encode(other))
    told = sentence(quorumscope(*deployment.arguments()), 2)
    assert "version 99" in told
    assert "new checkpoint directory" in told


def _accused(deployment: Deployment) -> str:
    (key,) = [key for key in deployment.verdicts() if key.startswith(b"equivocation/")]
    return key.decode().split("/")[2]


def test_missing_topics_are_told_with_what_to_do(broker: Broker, tmp_path: Path) -> None:
    deployment = Deployment(broker, "present", SCENARIOS["honest"].run(Settings(duration_ms=20_000)), tmp_path)
    deployment.prefix = "absent"
    told = sentence(quorumscope(*deployment.arguments()), 3)
    assert "absent.segments" in told
    assert "absent.matrix" in told
    assert "quorumscope topics --create" in told
    evidence = quorumscope(
        "evidence", "simulated", "peer-1", "--swarms", deployment.swarms, "--prefix", "present",
        "--bootstrap", deployment.connection.bootstrap,
    )  # fmt: skip
    assert "no verdict" in sentence(evidence, 1)


def test_a_broker_that_dies_ends_the_job_with_three_and_nothing_is_lost(tmp_path: Path) -> None:
    simulation = SCENARIOS["restored-backup"].run(Settings())
    with Broker() as broker:
        deployment = Deployment(broker, "mortal", simulation, tmp_path)
        process = subprocess.Popen(
            command(*deployment.arguments("--offsets-max", "100", "--patience", "5s")),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: batches(deployment, "commits") > 1, START_SECONDS_MAX, process)
        broker.kill()
        _, err = process.communicate(timeout=240)
        assert process.returncode == 3, err
        assert "nothing is lost" in err
        broker.restart()
        done = quorumscope(*deployment.arguments("--available-now"))
        assert done.returncode == 0, done.stderr
        assert any(key.startswith(b"equivocation/") for key in deployment.verdicts())
