"""`quorumscope status`: how a checkpoint stands, and what a start would do, as an operator asks before starting."""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from producers.scenarios import SCENARIOS
from producers.sinks import publish_fast
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.connection import Connection
from streaming.broker import Broker
from streaming.checkpoint import count_start, open_label
from streaming.lock import locked
from streaming.topics import Setup, create_topics
from tests.commandlab import run_here, sentence

pytestmark = pytest.mark.kafka

SIMULATION = SCENARIOS["honest"].run(Settings(peers=3, duration_ms=20_000))


class Deployment:
    """Topics with some segments, and a checkpoint whose files are written by hand."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.connection = Connection(bootstrap=broker.bootstrap)
        self.prefix = f"status-{uuid.uuid4().hex}"
        self.checkpoint = folder / "checkpoint"
        self.checkpoint.mkdir()
        self.swarms = folder / "swarms.yaml"
        self.swarms.write_text(config_yaml(SIMULATION.config))
        create_topics(self.connection, Setup(prefix=self.prefix, partitions=1, create_time=True))
        self.records = publish_fast(SIMULATION.records, self.connection.librdkafka(), f"{self.prefix}.segments")

    def label(self) -> None:
        open_label(self.checkpoint, None, 2, SIMULATION.config)
        count_start(self.checkpoint)

    def batch(self, number: int, read: int, *, is_done: bool = True) -> None:
        for kind in ("offsets", "commits") if is_done else ("offsets",):
            folder = self.checkpoint / "segments" / kind
            folder.mkdir(parents=True, exist_ok=True)
            (folder.parent / "metadata").write_text('{"id":"1"}')
            (folder / str(number)).write_text(f'v1\n{{}}\n{{"{self.prefix}.segments":{{"0":{read}}}}}')

    def arguments(self, *more: str | Path) -> list[str | Path]:
        options: dict[str, str | Path] = {
            "--swarms": self.swarms,
            "--checkpoint": self.checkpoint,
            "--bootstrap": self.connection.bootstrap,
            "--prefix": self.prefix,
        }
        return ["status", *(part for option in options.items() for part in option), *more]


@pytest.fixture
def deployment(broker: Broker, tmp_path: Path) -> Deployment:
    return Deployment(broker, tmp_path)


@pytest.fixture
def ask(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def status(*more: str | Path) -> subprocess.CompletedProcess[str]:
        return run_here(monkeypatch, capfd, *deployment.arguments(*more))

    return status


def on_start(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("on start")]
    return line.partition("    ")[2]


def test_a_new_checkpoint_begins_with_what_the_topics_hold(deployment: Deployment, ask: Any) -> None:
    done = ask()
    assert done.returncode == 0, done
    assert f"it begins anew, and reads what the topics hold: {deployment.records} of " in on_start(done)
    assert "no batch is done yet" in done.stdout


def test_one_that_was_stopped_goes_on_with_what_is_unread(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    for number in range(3):
        deployment.batch(number, 5 * (number + 1))
    done = ask()
    assert done.returncode == 0, done
    left = deployment.records - 15
    assert on_start(done).startswith(
        f"it goes on, with what is unread: {left} of {deployment.prefix}.segments and 0 of"
    )
    assert "batch 2 was done at 20" in done.stdout
    assert (
        f"{deployment.prefix}.segments/0: read up to 15, {left} unread, the oldest of 2026-01-01T00:00:0" in done.stdout
    )
    assert "shuffle partitions: 2; versions of folds: clocks 1, columns 1, logs 1, rejected 1, splits 1" in done.stdout


def test_one_that_was_killed_in_a_batch_does_it_again(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    deployment.batch(0, 5)
    deployment.batch(1, 10, is_done=False)
    done = ask()
    assert done.returncode == 0, done
    assert "it goes on, does batch 1 of segments again, with what is unread" in on_start(done)


def test_the_same_is_told_as_json(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    deployment.batch(0, 5)
    done = ask("--json")
    told = json.loads(done.stdout)
    assert told["can_start"] is True
    assert told["starts"] == 1
    (segments, _) = told["queries"]
    assert (segments["batch"], segments["begun"]) == (0, None)
    (partition,) = segments["partitions"]
    assert (partition["read"], partition["unread"]) == (5, deployment.records - 5)


def test_while_a_job_runs_a_second_one_is_refused(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    with locked(deployment.checkpoint) as lock:
        lock.owned_by(os.getpid())
        done = ask()
    assert done.returncode == 1
    assert f"another job is refused while the process {os.getpid()} works" in on_start(done)
    assert f"job         process {os.getpid()}" in done.stdout


def test_records_that_expired_before_they_were_read_are_told(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    deployment.batch(0, 5)
    admin = AdminClient(deployment.connection.librdkafka())
    for future in admin.delete_records([TopicPartition(f"{deployment.prefix}.segments", 0, 9)]).values():
        future.result(30)
    done = ask()
    assert done.returncode == 1
    assert "ends with an error, because 4 records of" in on_start(done)
    assert "`since`" in on_start(done)
    assert f"{deployment.records - 9} unread" in done.stdout


def test_files_that_cannot_be_read_are_told_with_what_to_do(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    deployment.batch(0, 5)
    (deployment.checkpoint / "segments" / "offsets" / "0").write_text("v1")
    done = ask()
    assert done.returncode == 1
    assert "start with a new checkpoint directory" in on_start(done)
    shutil.rmtree(deployment.checkpoint / "segments")
    (deployment.checkpoint / "quorumscope.json").write_text("{")
    done = ask()
    assert done.returncode == 1
    assert "quorumscope.json cannot be read" in on_start(done)


def test_the_checkpoint_of_another_version_is_told_before_a_start_is_tried(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    deployment.batch(0, 5)
    path = deployment.checkpoint / "quorumscope.json"
    label = json.loads(path.read_bytes())
    label["folds"]["logs"] = 99
    path.write_text(json.dumps(label))
    done = ask()
    assert done.returncode == 1
    assert "version 99 of the fold 'logs'" in on_start(done)
    assert "start with a new checkpoint directory" in on_start(done)
    assert json.loads(path.read_bytes()) == label


def test_without_kafka_the_checkpoint_alone_is_told(deployment: Deployment, ask: Any) -> None:
    deployment.label()
    deployment.batch(0, 5)
    done = ask("--bootstrap", "127.0.0.1:1")
    assert done.returncode == 3
    assert "batch 0 was done at" in done.stdout
    assert f"{deployment.prefix}.segments/0: read up to 5\n" in done.stdout
    assert "no Kafka broker answers at 127.0.0.1:1" in on_start(done)


def test_the_checkpoint_of_a_replay_and_a_path_that_is_none_are_told(
    deployment: Deployment, ask: Any, tmp_path: Path
) -> None:
    assert "is no directory" in sentence(ask("--checkpoint", tmp_path / "none"), 2)
    assert not (tmp_path / "none").exists()
    (deployment.checkpoint / "replay.json").write_text("{}")
    done = ask()
    assert done.returncode == 1
    assert "this is the checkpoint of a replay" in on_start(done)
