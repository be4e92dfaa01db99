"""The checkpoint directory: labelled once, locked by one job, refused when it is something else."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streaming.checkpoint import CheckpointError, Label, locked, open_label, process_start
from tests.loglab import lab_config

CONFIG = lab_config()


def test_a_new_checkpoint_is_labelled_and_keeps_its_partitions(tmp_path: Path) -> None:
    made = open_label(tmp_path, None, 3, CONFIG)
    assert made.shuffle_partitions == 3
    assert open_label(tmp_path, None, 8, CONFIG) == made
    with pytest.raises(CheckpointError, match="3 shuffle partitions"):
        open_label(tmp_path, 8, 8, CONFIG)


def test_what_a_job_left_before_it_had_a_label_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("lock", "spark.log", "quorumscope.tmp"):
        (tmp_path / name).write_text("")
    assert open_label(tmp_path, None, 1, CONFIG).shuffle_partitions == 1


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(CheckpointError, match="no checkpoint of quorumscope"):
        open_label(tmp_path, None, 1, CONFIG)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 99, "shuffle_partitions": 1, "folds": {}}'])
def test_a_label_that_cannot_be_read_is_told_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "quorumscope.json").write_bytes(content)
    with pytest.raises(CheckpointError, match="new checkpoint directory"):
        open_label(tmp_path, None, 1, CONFIG)


def test_a_fold_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    label = open_label(tmp_path, None, 1, CONFIG)
    older = Label(label.format, 1, label.folds | {"logs": 99})
    (tmp_path / "quorumscope.json").write_bytes(msgspec.json.encode(older))
    with pytest.raises(CheckpointError, match="version 99 of the fold 'logs'"):
        open_label(tmp_path, None, 1, CONFIG)


def test_only_one_job_has_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path / "c"), pytest.raises(CheckpointError, match="another job"), locked(tmp_path / "c"):
        pass
    with locked(tmp_path / "c"):
        pass


def test_a_job_waits_for_the_last_ones_jvm_and_not_for_a_stranger_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.checkpoint.JVM_SECONDS_MAX", 0.3)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as survivor:
        with locked(tmp_path) as lock:
            lock.owned_by(survivor.pid)
        with pytest.raises(CheckpointError, match=f"process {survivor.pid}"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass
    (tmp_path / "lock").write_text(f'{{"pid": {os.getpid()}, "started": "at another time"}}')
    with locked(tmp_path):
        pass


def test_a_process_that_is_gone_has_no_start() -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    assert process_start(int(gone.stdout)) is None
    assert process_start(os.getpid()) is not None


def test_a_file_in_the_place_of_the_directory_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be used"), locked(tmp_path / "file"):
        pass
