"""Who has a noop: for each noop of the block's columns and each peer, when the peer first covered and endorsed it.

Rules (SPEC: DESIGN, columns):
- Noop r of a peer observes x if it covers, or endorses, x before the life of x is over.
- Known and accepted count the k least observers by (time of their first noop that covers / endorses it, key), among
  the peers of the roster of the epoch of x, the author being one.
- Times are kept relative to x. They only fall, so of two findings the one with lesser times knows more.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.config import Epoch, Rule, Swarm
from state.pasts import Pasts
from state.rings import NOTHING, Rings
from state.verdict import Accepted, Known, key_of

UNSEEN = (1 << 31) - 1
_FIRST_ROWS = 256
_SLOTS_AT_ONCE = 2048
"""Slots that are compared in one step: with 256 columns that is 2 MB, which stays in a core's cache."""
_POSITION_BITS = 12
"""A position in a roster of up to 4,096."""
_UNSEEN_ORDER = UNSEEN << _POSITION_BITS


class _Judge(NamedTuple):
    """What is needed to judge noops by one epoch."""

    epoch: Epoch
    ranks: NDArray[np.int64]
    position: dict[int, int]


class _Spread(NamedTuple):
    """The k observers of a noop: the latest of their times and the sum of them, after the noop's, and who they are."""

    latest_ms: int
    sum_ms: int
    observers: str


class Step(NamedTuple):
    """Slots that are looked at in one step, when each came to cover what it covers, and what was covered already."""

    slots: NDArray[np.intp]
    at_ms: NDArray[np.int64]
    upper: NDArray[np.int32]
    lower: NDArray[np.int32]


class Observers:
    """The observers of every watched noop. A *watch* is the place of a noop of the block's own columns."""

    def __init__(self, pasts: Pasts, swarm: Swarm, config: str) -> None:
        self._pasts = pasts
        self._swarm = swarm
        self._config = config
        self._judges = [self._judge(epoch) for epoch in swarm.epochs]
        self._kinds = 2 * max(len(epoch.rules) for epoch in swarm.epochs)
        self.watch_of: dict[int, int] = {}
        self._free: list[int] = []
        self._slot = np.zeros(_FIRST_ROWS, np.int64)
        self.covered = np.full((_FIRST_ROWS, len(pasts.authors)), UNSEEN, np.int32)
        self.endorsed = np.full((_FIRST_ROWS, len(pasts.authors)), UNSEEN, np.int32)
        self._said = np.zeros((_FIRST_ROWS, self._kinds, 2), np.int64)
        self._count = np.zeros(_FIRST_ROWS, np.int32)
        """How many peers cover it."""
        self._final = np.full(_FIRST_ROWS, UNSEEN, np.int32)
        """Observers later than this change nothing any more, but for the author; all may, as long as something is still
        to be said."""
        self._least = min(rule.k for epoch in swarm.epochs for rule in epoch.thresholds) if self._kinds else 0
        self._rings: Rings | None = None
        self._touched = np.zeros(_FIRST_ROWS, np.bool_)
        self.seen = np.zeros(_FIRST_ROWS, np.bool_)
        """Watches of which a noop came to cover or endorse the noop since this was last cleared."""

    # What is watched

    def watch(self, slot: int) -> int:
        """Begin to count who has this noop. Requires that it stands in a column of the block."""
        watch = self._free.pop() if self._free else len(self.watch_of)
        if watch >= len(self._slot):
            self._grow()
        self.watch_of[slot] = watch
        self._slot[watch] = slot
        if self._rings is not None:
            number, index = self._pasts.column[slot].number, int(self._pasts.index[slot])
            if number >= len(self._rings) or not self._rings.put(number, index, watch):
                self._rings = None
        return watch

    def forget(self, slots: Iterable[int]) -> None:
        """Stop counting for these noops. Requires that they are still in the matrix."""
        freed = []
        for slot in slots:
            watch = self.watch_of.pop(slot, None)
            if watch is not None:
                freed.append(watch)
                if self._rings is not None:
                    self._rings.drop(self._pasts.column[slot].number, int(self._pasts.index[slot]))
        self.covered[freed] = self.endorsed[freed] = self._final[freed] = UNSEEN
        self._count[freed] = 0
        self._said[freed] = 0
        self._free += freed

    def reshaped(self) -> None:
        """Columns were cut or joined: places have to be found anew."""
        self._rings = None

    # What is seen

    def steps(self, changed: Mapping[int, int]) -> Iterator[Step]:
        """Slots and the times of their changes, in steps, each with what to compare."""
        pasts, width = self._pasts, self._pasts.width
        slots, times = list(changed), list(changed.values())
        for first in range(0, len(slots), _SLOTS_AT_ONCE):
            now, at_ms = slots[first : first + _SLOTS_AT_ONCE], times[first : first + _SLOTS_AT_ONCE]
            before = np.array([-1 if p is None else p for p in map(pasts.previous_of, now)])
            these = np.array(now)
            follows = (before >= 0) & (pasts.time[before] <= pasts.time[these])
            follows &= pasts.time[these] <= pasts.life[before]
            # A noop that died with a gap stays incomplete, while what follows it may become complete.
            follows &= pasts.complete[before] | ~pasts.complete[these]
            lower = np.where(follows[:, None], pasts.rows[before, :width], 0)
            yield Step(these, np.array(at_ms), pasts.rows[these, :width], lower)

    def observe(self, step: Step) -> None:
        """Count what these noops cover and endorse beyond what the ones before them in their logs did."""
        pasts = self._pasts
        watches, at, columns = self._newly_covered(step)
        slots = step.slots[at]
        watched = self._slot[watches]
        times = pasts.time[slots]
        alive = (step.at_ms[at] <= pasts.life[watched]) & (pasts.time[watched] <= pasts.life[slots])
        after = (times - pasts.time[watched]).astype(np.int32)
        if not alive.all():
            watches, after, at, columns, slots = watches[alive], after[alive], at[alive], columns[alive], slots[alive]
        observers = pasts.author[slots]
        before = self.covered[watches, observers]
        np.minimum.at(self.covered, (watches, observers), after)
        good = pasts.complete[slots]
        endorsed = pasts.endorsed(step.slots)
        if endorsed is not None:
            good &= endorsed[at, columns]
        if good.all():
            np.minimum.at(self.endorsed, (watches, observers), after)
        else:
            np.minimum.at(self.endorsed, (watches[good], observers[good]), after[good])
        self.seen[watches] = True
        self._count += np.bincount(watches[before == UNSEEN], minlength=len(self._count)).astype(np.int32)
        # The author is one of the k whatever its time is, so that a lesser one always counts.
        counts = (after <= self._final[watches]) | (observers == pasts.author[self._slot[watches]])
        self._touched[watches[counts & (self._count[watches] >= self._least)]] = True

    def _newly_covered(self, step: Step) -> tuple[NDArray[np.int32], NDArray[np.intp], NDArray[np.intp]]:
        """The watches of all noops between the lower and the upper vectors, with the step's row and the column."""
        if self._rings is None:
            self._rings = Rings(self._windows())
        rings = self._rings
        at, columns = np.nonzero(step.upper > step.lower)
        high = step.upper[at, columns].astype(np.int64)
        low = np.maximum(step.lower[at, columns], rings.base[columns] - 1)
        counts = np.maximum(high - low, 0)
        if not (counts == 1).all():
            at, columns = np.repeat(at, counts), np.repeat(columns, counts)
            ends = np.cumsum(counts)
            high = (
                np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts) + np.repeat(low, counts) + 1
            )
        watches = rings.find(columns, high)
        there = watches != NOTHING
        if there.all():
            return watches, at, columns
        return watches[there], at[there], columns[there]

    def _windows(self) -> Iterator[dict[int, int]]:
        watch_of = self.watch_of
        for column in self._pasts.numbers:
            live = column.live if column else {}
            yield {index: watch_of[slot] for index, slot in live.items() if slot in watch_of}

    # What follows

    def verdicts(self) -> Iterator[Known | Accepted]:
        """What is known and accepted now and was not said before, of what was observed since the last call."""
        watches = np.flatnonzero(self._touched)
        self._touched[watches] = False
        times = self._pasts.time[self._slot[watches]]
        starts = np.array([epoch.start_ms for epoch in self._swarm.epochs])
        epochs = np.searchsorted(starts, times, side="right") - 1
        for number, judge in enumerate(self._judges):
            chosen = watches[epochs == number]
            for first in range(0, len(chosen), _SLOTS_AT_ONCE):
                yield from self._judged(judge, chosen[first : first + _SLOTS_AT_ONCE])

    def note_said(self) -> None:
        """Take what follows now for said: the state was read back, and whoever stored it had said it."""
        for _ in self.verdicts():
            pass

    def touch_all(self) -> None:
        self._touched[list(self.watch_of.values())] = True

    def _judged(self, judge: _Judge, watches: NDArray[np.intp]) -> Iterator[Known | Accepted]:
        authors = self._pasts.author[self._slot[watches]]
        positions = np.array([judge.position.get(int(author), -1) for author in authors])
        watches, positions = watches[positions >= 0], positions[positions >= 0]
        final = np.full(len(watches), -UNSEEN, np.int64)
        for kind, seen in enumerate((self.covered, self.endorsed)):
            after = seen[np.ix_(watches, judge.ranks)]
            order = (after.astype(np.int64) << _POSITION_BITS) + np.arange(len(judge.ranks))
            rows = np.arange(len(watches))
            begun = after[rows, positions] != UNSEEN
            # The author is one of the k, however late the first of its noops that counts.
            order[rows, positions] = np.where(begun, -(1 << 62), _UNSEEN_ORDER)
            for number, rule in enumerate(judge.epoch.thresholds):
                last = np.partition(order, rule.k - 1, axis=1)[:, rule.k - 1]
                decided = np.flatnonzero(begun & (last < _UNSEEN_ORDER))
                undecided = ~begun | (last >= _UNSEEN_ORDER)
                final = np.maximum(final, np.where(undecided, UNSEEN, last >> _POSITION_BITS))
                chosen = order[decided] <= last[decided, None]
                sums = np.where(chosen, after[decided], 0).sum(axis=1, dtype=np.int64)
                said = self._said[watches[decided], 2 * number + kind]
                news = np.flatnonzero((said[:, 0] != last[decided]) | (said[:, 1] != sums + 1))
                self._said[watches[decided], 2 * number + kind, 0] = last[decided]
                self._said[watches[decided], 2 * number + kind, 1] = sums + 1
                latest = np.where(chosen, after[decided], -UNSEEN).max(axis=1, initial=-UNSEEN)
                bits = _hex_bits(chosen[news])
                for at, one in enumerate(news):
                    spread = _Spread(int(latest[one]), int(sums[one]), bits[at])
                    yield self._verdict(int(self._slot[watches[decided[one]]]), judge.epoch, rule, spread, kind)
        self._final[watches] = final

    def _verdict(self, slot: int, epoch: Epoch, rule: Rule, spread: _Spread, kind: int) -> Known | Accepted:
        pasts = self._pasts
        name, time_ms = pasts.names[slot].hex(), int(pasts.time[slot])
        kind_of = Accepted if kind else Known
        key = key_of(kind_of, name[80:], rule.name, epoch.start_ms)
        at_ms = time_ms + spread.latest_ms
        more = {"accepted_ms": at_ms, "tolerates": rule.tolerates} if kind else {"known_ms": at_ms}
        return kind_of(
            key=key,
            swarm=self._swarm.id,
            config=self._config,
            author=name[:64],
            index=int(pasts.index[slot]),
            id=name[80:],
            published_ms=time_ms,
            epoch_ms=epoch.start_ms,
            rule=rule.name,
            k=rule.k,
            n=rule.n,
            observers=spread.observers,
            times_ms=spread.sum_ms + rule.k * time_ms,
            **more,
        )

    def _judge(self, epoch: Epoch) -> _Judge:
        ranks = [self._pasts.rank[key] for key in epoch.members]
        return _Judge(epoch, np.array(ranks, np.int64), {rank: at for at, rank in enumerate(ranks)})

    def _grow(self) -> None:
        more = len(self._slot)
        self._slot = np.pad(self._slot, (0, more))
        self._touched = np.pad(self._touched, (0, more))
        self.seen = np.pad(self.seen, (0, more))
        self._count = np.pad(self._count, (0, more))
        self._final = np.pad(self._final, (0, more), constant_values=UNSEEN)
        self._said = np.pad(self._said, ((0, more), (0, 0), (0, 0)))
        self.covered = np.pad(self.covered, ((0, more), (0, 0)), constant_values=UNSEEN)
        self.endorsed = np.pad(self.endorsed, ((0, more), (0, 0)), constant_values=UNSEEN)


def _hex_bits(rows: NDArray[np.bool_]) -> list[str]:
    """Each row as a number in hex digits, its first element the highest bit."""
    digits = -(-rows.shape[1] // 4)
    padded = np.pad(rows, ((0, 0), (8 * (-(-digits // 2)) - rows.shape[1], 0)))
    return [row.tobytes().hex()[-digits:] for row in np.packbits(padded, axis=1)]
