"""The checkpoint directory: one job at a time, and one that this program can read.

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

from state.config import Config
from state.folds import make_folds
from streaming.queries import QUERIES

FORMAT = 2
"""1 did not count what it keeps."""
JVM_SECONDS_MAX = 60.0
"""How long a JVM whose Python was killed may take to end; it does so within ten seconds."""


REPLAY_LABEL = "replay.json"
"""What only the checkpoint of a replay has: the range that it reads, and where to."""

_OWN_FILES = {"lock", "spark.log", "quorumscope.tmp", REPLAY_LABEL, "replay.tmp"}
"""What a job can leave that ended before its checkpoint had a label."""


class CheckpointError(Exception):
    """The checkpoint cannot be used; the message says why and what to do."""


class Label(msgspec.Struct, frozen=True):
    """What a checkpoint was made with and cannot be changed: Spark fixes the shuffle partitions, state its folds."""

    format: int
    shuffle_partitions: int
    folds: dict[str, int]
    blocks: dict[str, int] = {}
    """By swarm: into how many blocks its columns are divided."""
    since: dict[str, int] = {}
    """By swarm, if it has one: the time before which what was published is gone."""


class Owner(msgspec.Struct, frozen=True):
    """The JVM that writes to the checkpoint; `started` tells it from a later process with the same id."""

    pid: int
    started: str


def open_label(directory: Path, shuffle_partitions: int | None, shuffle_default: int, config: Config) -> Label:
    """The label of a checkpoint, written if it is new. `shuffle_partitions` of None takes what is there."""
    path = directory / "quorumscope.json"
    folds = {name: fold.version for query in QUERIES.values() for name, fold in make_folds(query.folds, config).items()}
    blocks = {swarm.id: swarm.blocks_count for swarm in config.swarms}
    since = {swarm.id: swarm.since_ms for swarm in config.swarms if swarm.since_ms is not None}
    if not path.exists():
        _refuse_foreign(directory)
        label = Label(FORMAT, shuffle_partitions or shuffle_default, folds, blocks, since)
        _write_label(path, label)
        return label
    label = _read_label(path)
    again = "start with a new checkpoint directory: the topic is read again from its beginning, nothing is lost"
    for name, version in folds.items():
        if label.folds.get(name) != version:
            held = f"version {label.folds[name]}" if name in label.folds else "nothing"
            raise CheckpointError(
                f"{directory} holds {held} of the fold '{name}', this program reads version {version}: {again}"
            )
    for swarm in config.swarms:
        kept = label.blocks.get(swarm.id, swarm.blocks_count)
        if kept != swarm.blocks_count:
            raise CheckpointError(
                f"{directory} keeps the columns of {swarm.name} in {kept} blocks, the configuration says "
                f"{swarm.blocks_count}: set `blocks: {kept}` for this swarm, or {again}"
            )
        if swarm.id in label.blocks and label.since.get(swarm.id) != swarm.since_ms:
            raise CheckpointError(
                f"{directory} judges {swarm.name} with another `since` than the configuration says, or one says none: "
                f"set it back, or {again}"
            )
    if shuffle_partitions not in (None, label.shuffle_partitions):
        raise CheckpointError(
            f"{directory} was made with {label.shuffle_partitions} shuffle partitions and keeps them, got "
            f"{shuffle_partitions}: leave the option out, or {again}"
        )
    if blocks.keys() - label.blocks.keys():
        label = msgspec.structs.replace(label, blocks=label.blocks | blocks, since=label.since | since)
        _write_label(path, label)
    return label


def refuse_job(directory: Path) -> None:
    """CheckpointError unless a replay can begin with this directory: a job would be gone on with where it is."""
    if (directory / "quorumscope.json").exists():
        raise CheckpointError(f"{directory} is the checkpoint of a job: give another directory for the replay")
    _refuse_foreign(directory)


def _refuse_foreign(directory: Path) -> None:
    if {child.name for child in directory.iterdir()} - _OWN_FILES:
        raise CheckpointError(f"{directory} is not empty and no checkpoint of quorumscope: give another directory")


def refuse_replay(directory: Path) -> None:
    """CheckpointError if a directory is that of a replay: a job that went on from there would begin in mid topic."""
    if (directory / REPLAY_LABEL).exists():
        raise CheckpointError(f"{directory} is the checkpoint of a replay: give another directory for the job")


def count_start(directory: Path) -> int:
    """How often a job was started on a checkpoint, this time included."""
    path = directory / "starts"
    try:
        starts = int(path.read_text())
    except (OSError, ValueError):
        starts = 0
    replace_file(path, str(starts + 1).encode())
    return starts + 1


def _write_label(path: Path, label: Label) -> None:
    replace_file(path, msgspec.json.encode(label))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file at once: whoever is killed meanwhile leaves the old one or the new one."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.rename(path)


def _read_label(path: Path) -> Label:
    try:
        label = msgspec.json.decode(path.read_bytes(), type=Label)
    except (msgspec.DecodeError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): start with a new checkpoint directory") from None
    if label.format != FORMAT:
        raise CheckpointError(
            f"{path} has format {label.format}, this program reads {FORMAT}: start with a new checkpoint directory"
        )
    return label


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
        _wait_for_last_owner(directory / "lock")
        yield Lock(directory / "lock")
    finally:
        os.close(handle)


def _wait_for_last_owner(path: Path) -> None:
    try:
        owner = msgspec.json.decode(path.read_bytes(), type=Owner)
    except msgspec.DecodeError:
        return
    deadline = time.monotonic() + JVM_SECONDS_MAX
    while process_start(owner.pid) == owner.started:
        if time.monotonic() > deadline:
            raise CheckpointError(
                f"the process {owner.pid} of an earlier job still writes to {path.parent}: end it first"
            )
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
