"""The logs of all authors as trees of columns: a column is a stretch of a log in which nothing forks.

Rules (SPEC: DESIGN, columns), each independent of the order in which noops come:
- A noop that follows the end of a column which nothing continues makes that column longer.
- When a noop follows one that is followed already, the trunk ends there, and each continuation is a column, named by
  its first noop. What a column was before it was cut goes on in its *heir*.
- A noop whose `previous` is not held starts a column without a parent, an *orphan*; when that noop comes, its column
  becomes the parent of the orphan. One child alone is no branch: it only shows where something was missing.
- An author has *forked* if two of its columns have an index in common.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from state.head import NO_PREVIOUS


class Column:
    """A stretch of one author's log, from index `start` to `end`. `live` are the slots of its noops by index."""

    __slots__ = (
        "author",
        "children",
        "end",
        "first",
        "first_ms",
        "heir",
        "leaps",
        "live",
        "missing",
        "newest_ms",
        "number",
        "parent",
        "serial",
        "start",
    )

    def __init__(self, serial: int, author: int, start: int, first: bytes, first_ms: int) -> None:
        self.serial = serial
        self.author = author
        self.start = start
        self.end = start
        self.first = first
        self.first_ms = first_ms
        self.missing = NO_PREVIOUS
        """The `previous` of an orphan's first noop; zeros if the column has a parent or begins the log."""
        self.leaps = False
        """Whether that `previous` is held at another index: no peer that is honest holds what leaps."""
        self.parent: Column | None = None
        self.children: list[Column] = []
        self.heir: Column | None = None
        self.number = -1
        """Its place in the rows of the matrix; −1 if another block keeps it."""
        self.live: dict[int, int] = {}
        self.newest_ms = first_ms

    def path(self) -> Iterator["Column"]:
        """The column and all that it grew from."""
        column: Column | None = self
        while column is not None:
            yield column
            column = column.parent

    def branch(self) -> bytes:
        """The name of the branch that it is a part of: where it, or what it continues alone, begins."""
        first = self
        while first.parent is not None and len(first.parent.children) == 1:
            first = first.parent
        return first.first


class Tree:
    """All columns of one author."""

    def __init__(self, author: int) -> None:
        self.author = author
        self.columns: list[Column] = []
        self.forked = False
        self.begins = 0
        """Where what was published before is gone, the index that the log begins with; 0 if it has not begun."""
        self.newest_ms = 0
        self.run_ms = 0
        """When its author, after a pause, began to publish again."""

    @property
    def leaves(self) -> list[Column]:
        return [column for column in self.columns if not column.children]

    def sound_leaves(self) -> list[Column]:
        """The leaves but for those that grow from a leap, if there are others."""
        leaves = self.leaves
        return [leaf for leaf in leaves if not any(part.leaps for part in leaf.path())] or leaves

    def branches(self) -> list[Column]:
        """The columns that are continuations of a fork."""
        roots = [column for column in self.columns if column.start == 1]
        forked = [column for column in self.columns if column.parent and len(column.parent.children) > 1]
        return forked + (roots if len(roots) > 1 else [])

    def rivals(self) -> NDArray[np.bool_]:
        """For each two columns, whether their noops conflict: neither grew from the other, and it is not only a gap
        that parts them. (Of what is above a gap it is not known what it grew from.)
        """
        place = {column: at for at, column in enumerate(self.columns)}
        paths = [[place[part] for part in column.path()] for column in self.columns]
        related = np.zeros((len(paths), len(paths)), np.bool_)
        for at, path in enumerate(paths):
            related[at, path] = related[path, at] = True
        roots = np.array([path[-1] for path in paths])
        start, end = (np.array([getattr(column, name) for column in self.columns]) for name in ("start", "end"))
        begins = start[roots] == (self.begins or 1)
        overlap = (start[:, None] <= end) & (start <= end[:, None])
        apart: NDArray[np.bool_] = ~related & (overlap | (roots[:, None] == roots) | (begins[:, None] & begins))
        return apart

    def orphans_of(self, index: int, noop_id: bytes) -> list[Column]:
        """The orphans that this noop is the `previous` of."""
        return [c for c in self.columns if c.missing == noop_id and c.start == index + 1 and c.start > 1]

    def note_time(self, time_ms: int, pause_ms: int) -> None:
        """The author published at a time; if not within `pause_ms` of the last time, it had paused."""
        if time_ms - self.newest_ms > pause_ms:
            self.run_ms = time_ms
        self.newest_ms = max(self.newest_ms, time_ms)

    def note_change(self) -> None:
        """Call after columns were added, cut or joined."""
        spans = sorted((column.start, column.end) for column in self.columns)
        reach = 0
        self.forked = False
        for start, end in spans:
            self.forked |= start <= reach
            reach = max(reach, end)

    def problems(self) -> Iterator[str]:
        """What is wrong with the shape of the tree."""
        for column in self.columns:
            if column.start > column.end:
                yield f"a column from {column.start} to {column.end}"
            if any(child.parent is not column or child.start != column.end + 1 for child in column.children):
                yield f"a branch does not begin where its trunk, from {column.start}, ends"
            if column.parent is None and (column.start > 1) != (column.missing != NO_PREVIOUS):
                yield f"the column at {column.start} has no parent and misses none"
            if not column.children and column.end not in column.live:
                yield f"the tip at {column.end} is gone"
        chain = sorted((column.start, column.end) for column in self.columns)
        if self.forked != any(one[1] >= other[0] for one, other in pairwise(chain)):
            yield "whether the author forked is noted wrongly"
