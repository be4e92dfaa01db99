"""How far a query has come, by the files of its checkpoint: for those who ask while it does not run.

Spark writes `offsets/N` before it runs batch N, and `commits/N` when all of the batch is done.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from streaming.checkpoint import CheckpointError


def position(checkpoint: Path, query: str, topic: str) -> Mapping[int, int]:
    """The offset, by partition, up to which a query has done its work; nothing if it has done none."""
    batch = _newest(checkpoint / query / "commits")
    if batch is None:
        return {}
    path = checkpoint / query / "offsets" / str(batch)
    try:
        # The version of the file, settings of the batch, and a line for each source.
        found = json.loads(path.read_text(encoding="utf-8").splitlines()[2])
        return {int(partition): int(offset) for partition, offset in found[topic].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): start with a new checkpoint directory") from None


def _newest(folder: Path) -> int | None:
    if not folder.exists():
        return None
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
