"""How far a query has come, by the files of its checkpoint: for those who ask while it does not run.

Spark writes `offsets/N` before it runs batch N, and `commits/N` when all of the batch is done.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from streaming.checkpoint import AGAIN, CheckpointError


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
    """CheckpointError if the files cannot be read."""
    folder = checkpoint / query
    done, begun = _newest(folder / "commits"), _newest(folder / "offsets")
    later = begun if begun is not None and (done is None or begun > done) else None
    if done is None:
        return Position(begun=later)
    path = folder / "offsets" / str(done)
    try:
        # The version of the file, settings of the batch, and a line for each source.
        found = json.loads(path.read_text(encoding="utf-8").splitlines()[2])
        read = {int(partition): int(offset) for partition, offset in found[topic].items()}
        return Position(done, (folder / "commits" / str(done)).stat().st_mtime, later, read)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): {AGAIN}") from None


def begun_from(checkpoint: Path, query: str, topic: str) -> Mapping[int, int]:
    """The offset, by partition, from which a query began to read. CheckpointError if the file cannot be read."""
    path = checkpoint / query / "sources" / "0" / "0"
    try:
        # Before the offsets stand a zero byte, for old versions of Spark to stumble over, and the version of the file.
        text = path.read_text(encoding="utf-8")
        found = json.loads(text[text.index("{") :])
        return {int(partition): int(offset) for partition, offset in found[topic].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): {AGAIN}") from None


def _newest(folder: Path) -> int | None:
    if not folder.exists():
        return None
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
