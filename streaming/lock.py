"""The lock of a checkpoint directory: one job at a time writes to it.

A job that is killed can leave its JVM behind for some seconds, still writing. So the lock holds the JVM's process id,
and the next job waits until that process has gone.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from streaming.checkpoint import CheckpointError

JVM_SECONDS_MAX = 60.0
"""How long a JVM whose Python was killed may take to end; it does so within ten seconds."""


class Owner(msgspec.Struct, frozen=True):
    """The JVM that writes to the checkpoint; `started` tells it from a later process with the same id."""

    pid: int
    started: str


class Lock:
    """Held by the one job that may write to a checkpoint."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def owned_by(self, pid: int) -> None:
        """Name the JVM that writes from now on."""
        self._path.write_bytes(msgspec.json.encode(Owner(pid, process_start(pid) or "")))


@contextmanager
def locked(directory: Path) -> Iterator[Lock]:
    """Take the lock of a checkpoint directory, making it if need be; CheckpointError if another job has it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise CheckpointError(f"{directory} cannot be used as checkpoint directory: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(
                f"another job works with {directory}: stop it first, or give another checkpoint directory"
            ) from None
        _wait_for_last_owner(directory)
        yield Lock(directory / "lock")
    finally:
        os.close(handle)


def working(directory: Path) -> int | None:
    """The process that writes to a checkpoint directory, as far as its lock tells; it is not taken."""
    try:
        owner = msgspec.json.decode((directory / "lock").read_bytes(), type=Owner)
    except (OSError, msgspec.DecodeError):
        return None
    return owner.pid if process_start(owner.pid) == owner.started else None


def _wait_for_last_owner(directory: Path) -> None:
    deadline = time.monotonic() + JVM_SECONDS_MAX
    while (pid := working(directory)) is not None:
        if time.monotonic() > deadline:
            raise CheckpointError(f"the process {pid} of an earlier job still writes to {directory}: end it first")
        time.sleep(0.1)


def process_start(pid: int) -> str | None:
    """When a process was started, as its system tells it; None if there is none. Without /proc: whether it is there."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        try:
            # The name in brackets may hold anything; the start is the 22nd field, the 20th after it.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    if Path("/proc/self").exists():
        return None
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "running"
