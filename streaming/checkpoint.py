"""The checkpoint directory: labelled with what it was made with, and refused where this program cannot go on with it.

A fold, Spark's partitions and the blocks of columns cannot be changed under a state that exists. What does not fit is
told with what to do: the topic holds all that the state was made from, so a new directory reads it again.
"""

from pathlib import Path

import msgspec

from state.config import Config
from state.folds import make_folds
from streaming.queries import QUERIES

FORMAT = 2
"""1 did not count what it keeps."""

LABEL = "quorumscope.json"
REPLAY_LABEL = "replay.json"
"""What only the checkpoint of a replay has: the range that it reads, and where to."""

STARTS = "starts"

_OWN_FILES = {"lock", "spark.log", "quorumscope.tmp", REPLAY_LABEL, "replay.tmp"}
"""What a job can leave that ended before its checkpoint had a label."""


AGAIN = (
    "start with a new checkpoint directory: the topic is read again and gives the same verdicts "
    "(if its beginning has expired, set `since`)"
)
"""What to do when a state cannot be gone on with."""


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
    state_uri: str = ""
    """Where Spark keeps offsets and state, if it is not this directory."""


def open_label(
    directory: Path, shuffle_partitions: int | None, shuffle_default: int, config: Config, state_uri: str = ""
) -> Label:
    """The label of a checkpoint, written if it is new. `shuffle_partitions` of None takes what is there."""
    label = fitting_label(directory, shuffle_partitions, config)
    wanted = msgspec.structs.replace(_wanted(shuffle_partitions or shuffle_default, config), state_uri=state_uri)
    if label is not None and label.state_uri != state_uri:
        kept, got = (f"at {uri}" if uri else "in itself" for uri in (label.state_uri, state_uri))
        raise CheckpointError(f"{directory} keeps its state {kept}, got {got}: set --state-uri back, or {AGAIN}")
    if label is None:
        _write_label(directory, wanted)
        return wanted
    if wanted.blocks.keys() - label.blocks.keys():
        label = msgspec.structs.replace(label, blocks=label.blocks | wanted.blocks, since=label.since | wanted.since)
        _write_label(directory, label)
    return label


def fitting_label(directory: Path, shuffle_partitions: int | None, config: Config) -> Label | None:
    """The label of a checkpoint that this program can go on with, None if it is new; else CheckpointError."""
    path = directory / LABEL
    if not path.exists():
        _refuse_foreign(directory)
        return None
    label, wanted = _read_label(path), _wanted(0, config)
    for name, version in wanted.folds.items():
        if label.folds.get(name) != version:
            held = f"version {label.folds[name]}" if name in label.folds else "nothing"
            raise CheckpointError(
                f"{directory} holds {held} of the fold '{name}', this program reads version {version}: {AGAIN}"
            )
    for swarm in config.swarms:
        kept = label.blocks.get(swarm.id, swarm.blocks_count)
        if kept != swarm.blocks_count:
            raise CheckpointError(
                f"{directory} keeps the columns of {swarm.name} in {kept} blocks, the configuration says "
                f"{swarm.blocks_count}: set `blocks: {kept}` for this swarm, or {AGAIN}"
            )
        if swarm.id in label.blocks and label.since.get(swarm.id) != swarm.since_ms:
            raise CheckpointError(
                f"{directory} judges {swarm.name} with another `since` than the configuration says, or one says none: "
                f"set it back, or {AGAIN}"
            )
    if shuffle_partitions not in (None, label.shuffle_partitions):
        raise CheckpointError(
            f"{directory} was made with {label.shuffle_partitions} shuffle partitions and keeps them, got "
            f"{shuffle_partitions}: leave the option out, or {AGAIN}"
        )
    return label


def refuse_far(directory: Path, label: Label) -> None:
    """CheckpointError unless the state of a checkpoint is in its directory: elsewhere only Spark can read it."""
    if label.state_uri and not any((directory / query).exists() for query in QUERIES):
        raise CheckpointError(
            f"{directory} keeps its state at {label.state_uri}: copy that into a directory and give this one"
        )


def is_of(state: bytes, label: bytes) -> bool:
    """Whether a state with one label is that of a directory with the other: swarms may have come since."""
    theirs, ours = (msgspec.json.decode(text, type=Label) for text in (state, label))
    same = msgspec.structs.replace(ours, blocks=theirs.blocks, since=theirs.since) == theirs
    return same and theirs.blocks.items() <= ours.blocks.items() and theirs.since.items() <= ours.since.items()


def _wanted(shuffle_partitions: int, config: Config) -> Label:
    """The label of a checkpoint that is made now."""
    return Label(
        FORMAT,
        shuffle_partitions,
        {name: fold.version for query in QUERIES.values() for name, fold in make_folds(query.folds, config).items()},
        {swarm.id: swarm.blocks_count for swarm in config.swarms},
        {swarm.id: swarm.since_ms for swarm in config.swarms if swarm.since_ms is not None},
    )


def refuse_job(directory: Path) -> None:
    """CheckpointError unless a replay can begin with this directory: a job would be gone on with where it is."""
    if (directory / LABEL).exists():
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
    starts = starts_of(directory) + 1
    replace_file(directory / STARTS, str(starts).encode())
    return starts


def starts_of(directory: Path) -> int:
    """How often a job was started on a checkpoint."""
    try:
        return int((directory / STARTS).read_text())
    except (OSError, ValueError):
        return 0


def _write_label(directory: Path, label: Label) -> None:
    replace_file(directory / LABEL, msgspec.json.encode(label))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file at once: whoever is killed meanwhile leaves the old one or the new one."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.rename(path)


def _read_label(path: Path) -> Label:
    try:
        label = msgspec.json.decode(path.read_bytes(), type=Label)
    except (msgspec.DecodeError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): {AGAIN}") from None
    if label.format != FORMAT:
        raise CheckpointError(f"{path} has format {label.format}, this program reads {FORMAT}: {AGAIN}")
    return label
