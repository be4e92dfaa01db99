"""How far a query has come, by the files of its checkpoint: for those who ask while it does not run.

Spark writes `offsets/N` before it runs batch N, and `commits/N` when all of the batch is done.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from streaming.checkpoint import AGAIN, CheckpointError

_T = TypeVar("_T")


class Position(NamedTuple):
    """Where a query stands. Batches count from 0."""

    done: int | None = None
    """The newest batch of which all is done; None if there is none."""
    done_s: float = 0.0
    """When that was, by the clock of whoever wrote the file."""
    begun: int | None = None
    """A batch that was begun after it: the next start does it again."""
    read: Mapping[int, int] = MappingProxyType({})
    """The offset, by partition, up to which the work is done."""


def position_of(checkpoint: Path, query: str, topic: str) -> Position:
    """CheckpointError, with the name of the file, if Spark could not go on from what stands there."""
    folder = checkpoint / query
    done, begun = _newest(folder / "commits"), _newest(folder / "offsets")
    later = begun if begun is not None and (done is None or begun > done) else None
    if done is None and later is None:
        return Position()
    _read(folder / "metadata", lambda text: json.loads(text)["id"])
    if later is not None:
        _offsets(folder, later, topic)
    if done is None:
        return Position(begun=later)
    commit = folder / "commits" / str(done)
    _read(commit, lambda text: json.loads(_lines(text)[1]))
    return Position(done, commit.stat().st_mtime, later, _offsets(folder, done, topic))


def begun_from(checkpoint: Path, query: str, topic: str) -> Mapping[int, int]:
    """The offset, by partition, from which a query began to read. CheckpointError if the file cannot be read."""
    # Before the offsets stand a zero byte, for old versions of Spark to stumble over, and the version of the file.
    path = checkpoint / query / "sources" / "0" / "0"
    return _of_topic(path, topic, _read(path, lambda text: _by_topic(text[text.index("{") :])))


def _offsets(folder: Path, batch: int, topic: str) -> dict[int, int]:
    """Where the partitions of a topic stand at the end of a batch."""
    path = folder / "offsets" / str(batch)
    # The version of the file, settings of the batch, and a line for each source.
    return _of_topic(path, topic, _read(path, lambda text: _by_topic(_lines(text)[2])))


def _by_topic(text: str) -> dict[str, dict[int, int]]:
    return {
        topic: {int(partition): int(offset) for partition, offset in offsets.items()}
        for topic, offsets in json.loads(text).items()
    }


def _of_topic(path: Path, topic: str, found: dict[str, dict[int, int]]) -> dict[int, int]:
    if topic not in found:
        raise CheckpointError(
            f"{path} is of {', '.join(found) or 'no topic'} and not of {topic}: give the --prefix of the checkpoint"
        )
    return found[topic]


def _lines(text: str) -> list[str]:
    lines = text.splitlines()
    if lines[0] != "v1":
        raise ValueError(f"want version v1, got {lines[0]!r}")
    return lines


def _read(path: Path, parse: Callable[[str], _T]) -> _T:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{path} cannot be read ({reason}): {AGAIN}") from None


def _newest(folder: Path) -> int | None:
    if not folder.exists():
        return None
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
