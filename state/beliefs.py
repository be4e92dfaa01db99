"""Beliefs: after a fork, who covers the first noop of each branch, and since when.

If the first noop of a branch still lives when the fork shows, «since» is the time of a peer's first noop that covers
it. Else what was before is not known any more, and «since» is never before the moment at which the fork showed.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from state.branches import Column
from state.matrix import NEVER
from state.observers import UNSEEN, Observers, Step
from state.pasts import Pasts
from state.verdict import Belief, Believer, key_of


class Beliefs:
    """Who believes which branch, of the block's columns. `since_ms` has a time for each author, by column serial."""

    def __init__(self, pasts: Pasts, observers: Observers, swarm: str, config: str) -> None:
        self._pasts = pasts
        self._observers = observers
        self._swarm = swarm
        self._config = config
        self.since_ms: dict[int, NDArray[np.int64]] = {}
        self.floor_ms: dict[int, int] = {}
        """Before this time nothing is known of a branch."""
        self.changed: set[int] = set()
        """The serials of branches whose believers changed."""

    def open_branches(self, author: int, time_ms: int) -> None:
        """A noop of this time may have made branches. Requires that it has been observed."""
        for column in self._pasts.trees[author].branches():
            if column.number >= 0 and column.serial not in self.since_ms:
                slot = column.live.get(column.start)
                if slot is not None and time_ms <= self._pasts.life[slot]:
                    self.floor_ms[column.serial] = 0
                    self.since_ms[column.serial] = self._observers_of(slot)
                else:
                    self.floor_ms[column.serial] = time_ms
                    self.since_ms[column.serial] = self._believers_now(column, time_ms)
                self.changed.add(column.serial)

    def note(self, step: Step) -> None:
        """Take in who covers a branch now and did not before."""
        for serial, since_ms in self.since_ms.items():
            column = self._pasts.by_serial[serial]
            upper, lower = step.upper[:, column.number], step.lower[:, column.number]
            slots = step.slots[(upper >= column.start) & (lower < column.start)]
            if len(slots):
                before = since_ms.copy()
                times = np.maximum(self._pasts.time[slots], self.floor_ms[serial])
                np.minimum.at(since_ms, self._pasts.author[slots], times)
                if not np.array_equal(before, since_ms):
                    self.changed.add(serial)

    def verdicts(self) -> Iterator[Belief]:
        for serial in sorted(self.changed):
            column, since_ms = self._pasts.by_serial[serial], self.since_ms[serial]
            believers = [
                Believer(self._pasts.authors[author].hex(), int(since_ms[author]))
                for author in np.flatnonzero(since_ms < NEVER)
            ]
            yield Belief(
                key=key_of(Belief, column.first.hex()),
                swarm=self._swarm,
                config=self._config,
                author=self._pasts.authors[column.author].hex(),
                branch=column.first.hex(),
                index=column.start,
                believers=tuple(sorted(believers)),
            )

    def _observers_of(self, slot: int) -> NDArray[np.int64]:
        after = self._observers.covered[self._observers.watch_of[slot]]
        return np.where(after == UNSEEN, NEVER, self._pasts.time[slot] + after)

    def _believers_now(self, column: Column, time_ms: int) -> NDArray[np.int64]:
        """Whoever covers the branch, told from each peer's newest noops."""
        tips = [leaf.live[leaf.end] for tree in self._pasts.trees for leaf in tree.leaves]
        since_ms = np.full(len(self._pasts.authors), NEVER, np.int64)
        since_ms[[self._pasts.author[tip] for tip in tips if self._pasts.rows[tip, column.number] >= column.start]] = (
            time_ms
        )
        return since_ms
