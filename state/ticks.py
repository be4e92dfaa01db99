"""Ticks: moments of event time, a fifth of `split_after` apart, at which a block reports its columns.

Rules (SPEC: DESIGN, columns and splits):
- A tick shows the noops with a time up to it. It is reported once the clock is past it.
- A tick at which nobody has published within `split_after` is not reported; a report names the tick before it.
- X is fresh on Y unless a noop of Y that X does not cover is older than `split_after`. Who covers a noop has the log
  below it, also where a segment of it was never published: so a loss darkens nobody.
- What an author builds on a noop whose index does not fit its `previous` is left out: no honest peer can hold it.
- A peer that has published nothing yet counts as there when the swarm, or the epoch, began.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.branches import Column, Tree
from state.config import Epoch, Swarm
from state.matrix import NEVER
from state.noops import author_of
from state.pasts import LOST_GAP, Pasts
from state.report import AGE_MAX, Cells, Node, Report, pack_cells

INTERVALS = 32
"""Times between noops whose median is taken: enough to even out a late one, few enough to look up at each tick."""


class _Subject(NamedTuple):
    """A node with the columns that are its log, and the tips of these."""

    node: Node
    log: list[Column]
    tips: list[int]


def tick_from(swarm: Swarm, time_ms: int) -> int:
    """The first tick at or after a time."""
    epoch = swarm.epoch_at(time_ms) or swarm.epochs[0]
    time_ms = max(time_ms, epoch.start_ms)
    tick_ms = -(-time_ms // epoch.tick_ms) * epoch.tick_ms
    later = next((other for other in swarm.epochs if epoch.start_ms < other.start_ms <= tick_ms), None)
    return tick_ms if later is None else tick_from(swarm, later.start_ms)


class Reporter:
    """Reports the columns of a block."""

    def __init__(self, pasts: Pasts, swarm: Swarm, block: int) -> None:
        self._pasts = pasts
        self._swarm = swarm
        self._block = block

    def report(self, tick_ms: int, before_ms: int, first_ms: int) -> Report:
        """The report of a tick. Requires that all noops up to it are held, and none after; `first_ms` is the first."""
        epoch = self._swarm.epoch_at(tick_ms)
        assert epoch is not None
        subjects = list(self._subjects(epoch, first_ms))
        columns = [at for at, one in enumerate(subjects) if one.node.author in self._pasts.own]
        rows = np.array([self._row(one) for one in subjects]).reshape(len(subjects), self._pasts.width)
        told = [self._have(subjects[at].log, rows, tick_ms) for at in columns]
        return Report(
            self._swarm.key,
            self._block,
            self._swarm.blocks_count,
            tick_ms,
            before_ms,
            [one.node for one in subjects],
            columns,
            *pack_cells(_cells(np.array(told, np.int64).reshape(-1, 3, len(subjects)), tick_ms, epoch)),
            [self._interval_ms(subjects[at], tick_ms) for at in columns],
            list(self._withheld(subjects)),
        )

    def _subjects(self, epoch: Epoch, first_ms: int) -> Iterator[_Subject]:
        for author in epoch.members:
            tree = self._pasts.trees[self._pasts.rank[author]]
            leaves = tree.sound_leaves()
            if not leaves:
                began_ms = max(first_ms, epoch.start_ms)
                yield _Subject(Node(author, b"", 0, began_ms, began_ms), [], [])
            elif tree.forked:
                named = sorted(((leaf.branch(), leaf) for leaf in leaves), key=lambda one: one[0])
                for branch, leaf in named:
                    yield self._subject(tree, branch, [leaf], list(leaf.path()))
            else:
                yield self._subject(tree, b"", leaves, [column for leaf in leaves for column in leaf.path()])

    def _subject(self, tree: Tree, branch: bytes, leaves: list[Column], log: list[Column]) -> _Subject:
        author, newest_ms = self._pasts.authors[tree.author], max(column.newest_ms for column in log)
        node = Node(author, branch, max(leaf.end for leaf in leaves), newest_ms, tree.run_ms)
        return _Subject(node, log, [leaf.live[leaf.end] for leaf in leaves])

    def _row(self, subject: _Subject) -> NDArray[np.int32]:
        rows = self._pasts.rows[subject.tips, : self._pasts.width]
        return rows.max(axis=0, initial=0)  # type: ignore[no-any-return]

    def _interval_ms(self, subject: _Subject, tick_ms: int) -> int:
        """The median time between its last noops."""
        if not subject.tips:
            return 0
        last = range(subject.node.index, subject.node.index - INTERVALS - 1, -1)
        slots = [column.live[index] for column in subject.log for index in last if index in column.live]
        times = sorted(self._pasts.time[slots].tolist())
        recent = times[bisect_right(times, tick_ms - self._swarm.horizon_ms) :]
        intervals = sorted(later - earlier for earlier, later in pairwise(recent))
        return intervals[len(intervals) // 2] if intervals else 0

    def _have(self, log: list[Column], rows: NDArray[np.int32], tick_ms: int) -> NDArray[np.int64]:
        """What each row has of a log: how many noops it lacks, the oldest time of these, and the newest time it has."""
        lacks, oldest_ms, newest_ms = have = np.zeros((3, len(rows)), np.int64)
        oldest_ms[:] = NEVER
        highest = rows[:, [column.number for column in log]].max(axis=1, initial=0)
        for column in log:
            cell = np.minimum(np.maximum(highest, column.start - 1), column.end).astype(np.int64)
            lacks += column.end - cell
            base, times = self._times(column, int(cell.min(initial=column.end)), tick_ms)
            upwards = [*accumulate(reversed(times), min, initial=NEVER)][::-1]
            place = np.maximum(cell - base, -1)
            unknown = (cell + 1 < base) & (cell < column.end)
            np.minimum(oldest_ms, np.where(unknown, 0, np.array(upwards)[place + 1]), out=oldest_ms)
            np.maximum(newest_ms, np.array([*times, 0])[place], out=newest_ms)
        return have

    def _times(self, column: Column, lowest: int, tick_ms: int) -> tuple[int, list[int]]:
        """An index, and the times from there to the column's end; 0 for what is beyond the horizon.

        The index is the lowest live one, or `lowest` if that is higher. A trunk may have no live noop any more.
        """
        base = lowest if lowest in column.live else max(lowest, min(column.live, default=column.end + 1))
        slots = [column.live.get(index, -1) for index in range(base, column.end + 1)]
        # Noops stay for some time beyond the horizon; how long must not show.
        since_ms = tick_ms - self._pasts.horizon_ms
        times = zip(slots, self._pasts.time[slots].tolist(), strict=True) if slots else ()
        return base, [time_ms if slot >= 0 and time_ms >= since_ms else 0 for slot, time_ms in times]

    def _withheld(self, subjects: list[_Subject]) -> Iterator[tuple[bytes, list[int]]]:
        named: dict[bytes, set[int]] = {}
        for at, subject in enumerate(subjects):
            for gap in frozenset[int]().union(*(self._pasts.gaps.get(tip, ()) for tip in subject.tips)) - {LOST_GAP}:
                author = author_of(self._pasts.open_gaps[gap].name)
                if author in self._pasts.own:
                    named.setdefault(author, set()).add(at)
        for author in sorted(named):
            yield author, sorted(named[author])


def _cells(have: NDArray[np.int64], tick_ms: int, epoch: Epoch) -> Cells:
    """The cells of a report from what each node has of each column's log."""
    lacks, oldest_ms, newest_ms = have[:, 0], have[:, 1], have[:, 2]
    age_ms = np.where(lacks > 0, tick_ms - oldest_ms, 0)
    ages, contacts = -(-age_ms // epoch.tick_ms), (tick_ms - newest_ms) // epoch.tick_ms
    bytes_of = (np.clip(part, 0, AGE_MAX).astype(np.uint8) for part in (lacks, ages, contacts))
    return Cells(age_ms <= epoch.split_after_ms, *bytes_of)
