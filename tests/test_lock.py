"""The lock of a checkpoint directory: one job has it, and a JVM that outlives its job keeps it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.checkpoint import CheckpointError
from streaming.lock import locked, process_start, working


def test_only_one_job_has_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path / "c"), pytest.raises(CheckpointError, match="another job"), locked(tmp_path / "c"):
        pass
    with locked(tmp_path / "c"):
        pass


def test_a_job_waits_for_the_last_ones_jvm_and_not_for_a_stranger_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.lock.JVM_SECONDS_MAX", 0.3)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as survivor:
        with locked(tmp_path) as lock:
            assert working(tmp_path) is None
            lock.owned_by(survivor.pid)
        assert working(tmp_path) == survivor.pid
        with pytest.raises(CheckpointError, match=f"process {survivor.pid}"), locked(tmp_path):
            pass
    assert working(tmp_path) is None
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
