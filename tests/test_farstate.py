"""State away from the checkpoint directory: both ends hold one label, and a job goes on with what is at the URI."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from state.config import Config
from state.connection import Connection
from streaming.broker import Broker
from streaming.checkpoint import LABEL, CheckpointError, Label, open_label
from streaming.farstate import agree
from streaming.fsck import audit_checkpoint
from tests.commandlab import quorumscope, sentence
from tests.joblab import Deployment
from tests.loglab import lab_config
from tests.topiclab import DEADLINE_S, Lab, differences

pytestmark = [pytest.mark.spark]

CONFIG = lab_config()


def labelled(directory: Path, uri: str, config: Config = CONFIG) -> Path:
    directory.mkdir(exist_ok=True)
    open_label(directory, 1, 1, config, uri)
    return directory


def test_both_ends_keep_one_label_also_when_a_swarm_has_come(spark: Any, tmp_path: Path) -> None:
    far, uri = tmp_path / "far", (tmp_path / "far").as_uri()
    near = labelled(tmp_path / "near", uri)
    agree(spark, uri, near)
    assert (far / LABEL).read_bytes() == (near / LABEL).read_bytes()
    agree(spark, uri, near)
    another = msgspec.structs.replace(CONFIG.swarms[0], name="another", id="ab" * 32)
    labelled(near, uri, Config((*CONFIG.swarms, another)))
    agree(spark, uri, near)
    assert another.id in msgspec.json.decode((far / LABEL).read_bytes(), type=Label).blocks
    assert (far / LABEL).read_bytes() == (near / LABEL).read_bytes()


def test_a_state_of_another_directory_is_refused_and_not_changed(spark: Any, tmp_path: Path) -> None:
    far, uri = tmp_path / "far", (tmp_path / "far").as_uri()
    agree(spark, uri, labelled(tmp_path / "near", uri))
    other = tmp_path / "other"
    other.mkdir()
    open_label(other, 3, 1, CONFIG, uri)
    with pytest.raises(CheckpointError, match=f"is not that of {other}: give the directory that it was made with"):
        agree(spark, uri, other)
    (far / LABEL).write_text("{")
    (far / f".{LABEL}.crc").unlink()  # what Hadoop's own check would say comes first
    with pytest.raises(CheckpointError, match="is not that of"):
        agree(spark, uri, tmp_path / "near")
    assert (far / LABEL).read_text() == "{"


def test_what_is_no_state_or_cannot_be_reached_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_text("")
    uri = (tmp_path / "photos").as_uri()
    with pytest.raises(CheckpointError, match="is not empty and no state of quorumscope: give another URI"):
        agree(spark, uri, labelled(tmp_path / "near", uri))
    with pytest.raises(CheckpointError, match=r'cannot be used: .*No FileSystem for scheme "nowhere"'):
        agree(spark, "nowhere://bucket/state", labelled(tmp_path / "new", "nowhere://bucket/state"))
    with pytest.raises(CheckpointError, match=r"the state at x:y cannot be used: .*Relative path"):
        agree(spark, "x:y", labelled(tmp_path / "newer", "x:y"))


@pytest.mark.kafka
def test_a_job_goes_on_from_a_uri_when_its_directory_was_lost_and_its_label_put_back(
    broker: Broker, spark: Any, tmp_path: Path
) -> None:
    simulation = SCENARIOS["lying-peer"].run(Settings(duration_ms=20_000))
    calm = Lab(broker, spark, tmp_path, simulation.config, partitions=1)
    calm.publish(simulation.records)
    calm.run_all()
    place = Deployment(Connection(bootstrap=broker.bootstrap), "far-state", simulation.config, tmp_path)
    far = tmp_path / "far"
    run = place.arguments("--state-uri", far.as_uri(), "--available-now")
    half = len(simulation.records) // 2

    place.publish(simulation.records[:half])
    first = quorumscope(*run, timeout_s=DEADLINE_S)
    assert first.returncode == 0, (first.stdout, first.stderr)
    assert not (place.checkpoint / "segments").exists()
    status = quorumscope("status", *place.arguments()[1:7], "--prefix", place.prefix)
    assert f"keeps its state at {far.as_uri()}: copy that into a directory" in status.stdout

    place.checkpoint.rename(tmp_path / "lost")
    place.publish(simulation.records[half:])
    place.checkpoint.mkdir()
    (place.checkpoint / LABEL).write_bytes((far / LABEL).read_bytes())
    assert "keeps its state at" in sentence(quorumscope(*place.arguments("--available-now")), 2)
    again = quorumscope(*run, timeout_s=DEADLINE_S)
    assert again.returncode == 0, (again.stdout, again.stderr)
    assert differences(place.verdicts(), calm.verdicts()) == {}
    audits = list(audit_checkpoint(spark, far, place.prefix, place.config))
    assert [audit.problems for _, _, audit in audits] == [[], []]
