"""Lines: what a noop endorses of the other authors, and whether the root that it signed says the same.

Rules (SPEC: DESIGN, wire format, `root`):
- The line of an author is the newest noop of it that the noop endorses: the newest one covered, or, where it covers
  several continuations, the fork point, the lowest one if there are several. If it covers several beginnings, none.
- A noop whose past is not complete endorses nothing, so it has no lines.

To find them, logs are cut into *stretches*: parts without a fork, each ending at a fork point or at a tip. Of a stretch
a past holds the noops up to some index, or none. So a past is a vector, one index for each stretch: the elementwise
maximum of the vectors of all that the noop links to, and its own index. They are made in one pass, parents first, and
dropped when all that builds on them has its own.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state import merkle
from state.history import History
from state.segment import Ref, Segment

Past = NDArray[np.int64]
"""By stretch, the newest index that a noop covers of it; 0 for none."""


class _Stretch(NamedTuple):
    """Noops of one log, each the only one that follows the one before it, and the stretches that follow the last."""

    noops: list[Segment]
    following: list[int]

    def newest(self, index: int) -> Ref:
        return self.noops[index - self.noops[0].head.index].ref


class Lines:
    """The lines of all noops of a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._stretches: list[_Stretch] = []
        self._beginnings: dict[bytes, list[int]] = defaultdict(list)
        """By author, the stretches that follow nothing: one, unless it forked at its first index."""
        self._stretch_of: dict[bytes, int] = {}
        for log in history.logs.values():
            self._cut([segment for segment in log if segment.id not in history.incomplete])

    def pasts(self) -> Iterator[tuple[Segment, Past]]:
        """Every noop with a complete past, after all that is in its past, and that past as a vector."""
        history = self._history
        kept: dict[bytes, Past] = {}
        waits_for = {noop: len(links) for noop, links in history.links.items() if noop not in history.incomplete}
        needed_by = {noop: sum(upper in waits_for for upper in history.followers[noop]) for noop in waits_for}
        ready = deque(noop for noop, count in waits_for.items() if not count)
        while ready:
            noop = ready.popleft()
            segment, links = history.segments[noop], history.links[noop]
            past = np.zeros(len(self._stretches), np.int64)
            for lower in links:
                np.maximum(past, kept[lower], out=past)
                needed_by[lower] -= 1
                if not needed_by[lower]:
                    del kept[lower]
            past[self._stretch_of[noop]] = segment.head.index
            if needed_by[noop]:
                kept[noop] = past
            yield segment, past
            for upper in history.followers[noop]:
                if upper in waits_for:
                    waits_for[upper] -= 1
                    if not waits_for[upper]:
                        ready.append(upper)

    def lines(self, segment: Segment, past: Past) -> list[Ref]:
        """What a noop with this past endorses of every other author, sorted by author."""
        others = sorted(author for author in self._beginnings if author != segment.head.author)
        lines = (self._line(self._beginnings[author], past) for author in others)
        return [line for line in lines if line is not None]

    def _line(self, following: list[int], past: Past) -> Ref | None:
        line = None
        while len(covered := [stretch for stretch in following if past[stretch]]) == 1:
            stretch = self._stretches[covered[0]]
            line = stretch.newest(int(past[covered[0]]))
            following = stretch.following
        return line

    def _cut(self, log: list[Segment]) -> None:
        """Cut one log, whose noops are sorted by index, so that each comes after its `previous`."""
        by_previous: dict[bytes, list[Segment]] = defaultdict(list)
        for segment in log:
            by_previous[segment.head.previous].append(segment)
        for segment in log:
            previous = self._history.previous(segment)
            before = None if previous is None else self._stretch_of[previous.id]
            if before is not None and len(by_previous[segment.head.previous]) == 1:
                self._stretches[before].noops.append(segment)
                self._stretch_of[segment.id] = before
            else:
                follows = self._beginnings[segment.head.author] if before is None else self._stretches[before].following
                follows.append(len(self._stretches))
                self._stretch_of[segment.id] = len(self._stretches)
                self._stretches.append(_Stretch([segment], []))


def fits_root(segment: Segment, lines: list[Ref]) -> bool:
    """Whether the root that a noop signed is the one over these lines."""
    return merkle.root([line.encode() for line in lines]) == segment.head.root
