"""Single pairs of the matrix: who misses how much of whom, all of them or the worst."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from state.grid import Grid, node_letters


class Pair(NamedTuple):
    """An observer, an author, and what the one does not have of the other. A branch is named `peer/a`."""

    observer: str
    author: str
    lag: int
    age_ticks: int
    fresh: bool


def node_labels(grid: Grid, names: Mapping[str, str]) -> list[str]:
    """How each node is called: by its peer's name, and a letter if the peer forked."""
    pairs = zip(grid.nodes, node_letters(grid.nodes), strict=True)
    return ["/".join(filter(None, (names[node.author.hex()], letter))) for node, letter in pairs]


def worst_pairs(grid: Grid, names: Mapping[str, str], limit: int | None) -> Iterator[Pair]:
    """All pairs of different nodes, row by row; with a limit only so many that miss something, the worst first."""
    labels, size = node_labels(grid, names), len(grid.nodes)
    places = np.flatnonzero(~np.eye(size, dtype=np.bool_).ravel())
    if limit is not None:
        # By age, then by lag: what has been missing for long is worse than much that is new.
        badness = grid.ages.ravel()[places].astype(np.int32) * 256 + grid.lags.ravel()[places]
        limit = min(limit, int(np.count_nonzero(badness)))
        worst = np.argpartition(-badness, max(limit - 1, 0))[:limit] if limit else np.zeros(0, np.intp)
        places = places[worst[np.lexsort((places[worst], -badness[worst]))]]
    for place in places.tolist():
        row, column = divmod(place, size)
        lag, age, fresh = grid.lags[row, column], grid.ages[row, column], grid.fresh[row, column]
        yield Pair(labels[row], labels[column], int(lag), int(age), bool(fresh))
