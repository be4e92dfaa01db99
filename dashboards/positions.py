"""A set of positions in a log that needs no more room than it has holes: what was counted once is not counted again.

Verdicts come again, after a restart all of them, and a log grows for ever. Positions come nearly in order, so they are
kept as stretches.
"""

from bisect import bisect_right

STRETCHES_MAX = 4096
"""Stretches of one log: a peer that makes every second position count does not fill the memory. Beyond this the lowest
hole is closed, and what would still come there is not counted."""


class Positions:
    """Positions as stretches [start, end], ascending, with a hole between each two."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, position: int) -> bool:
        """Put a position in; whether it was not there."""
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, position) - 1
        if at >= 0 and position <= ends[at]:
            return False
        follows = at >= 0 and ends[at] == position - 1
        leads = at + 1 < len(starts) and starts[at + 1] == position + 1
        if follows and leads:
            ends[at] = ends.pop(at + 1)
            del starts[at + 1]
        elif follows:
            ends[at] = position
        elif leads:
            starts[at + 1] = position
        else:
            starts.insert(at + 1, position)
            ends.insert(at + 1, position)
            if len(starts) > STRETCHES_MAX:
                del starts[1], ends[0]
        return True

    @property
    def newest(self) -> int:
        """The highest position; 0 if there is none."""
        return self._ends[-1] if self._ends else 0

    @property
    def stretches(self) -> int:
        return len(self._starts)
