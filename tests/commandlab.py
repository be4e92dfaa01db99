"""Runs the command line as a user would: a process of its own, its output and its exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

from streaming import cli


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "streaming.cli", *map(str, arguments)]


def quorumscope(*arguments: str | Path, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
    """Run to the end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=timeout_s, check=False)


def run_here(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    """Run to the end in this process, which saves the time of starting one."""
    parts = ["quorumscope", *map(str, arguments)]
    monkeypatch.setattr("sys.argv", parts)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return subprocess.CompletedProcess(parts, int(ended.value.code or 0), *capfd.readouterr())


def sentence(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one sentence of a failed run. Asserts that it is one, without a traceback, and the exit code."""
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("quorumscope: ")
    return lines[0]
