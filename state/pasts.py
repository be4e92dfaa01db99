"""The past of every live noop, as a vector: for each column of the block, the newest index that the noop covers.

Rules (SPEC: DESIGN, columns; docs/adr/0006):
- A noop names its `previous` and its refs. Of each that is held, as the author and index that it is named by, the
  vector counts *in full* if the naming noop is not later than its *life*; else for the log below it alone.
- A noop lives for a horizon after its record time, or after that of the first noop that continues it, and as long as
  nothing does: the tip of a silent peer goes on to count.
- What is named and not held is a *gap*. It is in the past of all that follow, so when it comes, it and its past are
  added to each of them that is alive. A past is *complete* when it has no gaps.
- Where the configuration says `since`, a log begins after its noops of before that time, or else with the first that
  comes. What is below is left out. Its name, and any name of a log that has not begun, counts as held and is no gap
  unless it is held, and nothing is known to be below it (docs/adr/0014).
- What counts for its log alone may hide a fork that was known when it died: a past is *blind* up to that time.
- A noop endorses what its complete past covers and does not contradict: not the branches of an author of which it
  covers, or may be blind to, another.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.branches import Column
from state.limits import BRANCHES_MAX, GAPS_MAX, INDEX_MAX, LIVE_MAX, OLD_REFS_MAX
from state.matrix import Matrix
from state.noops import Noop, author_of, index_of
from state.oldnoops import OldNoops

NO_GAPS: frozenset[int] = frozenset()
LOST_GAP = 0
"""The gap of pasts that can never be known to be complete."""
LIMITS = {"branches": BRANCHES_MAX, "gaps": GAPS_MAX, "index": INDEX_MAX, "live": LIVE_MAX, "old_refs": OLD_REFS_MAX}


class Gap(NamedTuple):
    """A noop that is named and not held; `payer` is the author whose noop named it first."""

    name: bytes
    payer: int


_NO_SLOTS = np.zeros(0, np.intp)


class _Hops:
    """What the noops that one noop names bring to its past."""

    __slots__ = ("alone", "blind_ms", "full", "gaps", "lost")

    def __init__(self) -> None:
        self.full: NDArray[np.intp] = _NO_SLOTS
        self.alone: list[tuple[Column, int]] = []
        self.gaps: list[bytes] = []
        self.blind_ms = 0
        self.lost = False


class Pasts(Matrix):
    """The live noops of a swarm and their vectors over the columns of one block."""

    def __init__(
        self,
        authors: list[bytes],
        own: frozenset[bytes],
        horizon_ms: int,
        old: OldNoops,
        since_ms: int | None = None,
    ) -> None:
        super().__init__(authors, own, horizon_ms, old)
        self._since_ms = since_ms
        self.gaps: dict[int, frozenset[int]] = {}
        """By slot, for those that have any."""
        self.open_gaps: dict[int, Gap] = {}
        self.gap_of: dict[bytes, int] = {}
        self.holders: dict[int, set[int]] = {LOST_GAP: set()}
        self.gaps_of: dict[int, int] = {}
        self.next_gap = 1
        # What changed, for those who look at it after a batch.
        self.changed: dict[int, int] = {}
        """Slots that are new, or whose vectors or completeness changed, and the time of the noop that did it."""
        self.over: set[tuple[bytes, str]] = set()
        """Authors that went over a limit, and which."""

    # What comes

    def precedes(self, noop: Noop) -> bool:
        """Whether a noop was published before what is judged, and is left out. To be asked in the order of time."""
        if self._since_ms is None:
            return False
        tree = self.trees[self.rank[author_of(noop.name)]]
        if noop.time_ms < self._since_ms:
            tree.begins = max(noop.index + 1, tree.begins)
        tree.begins = tree.begins or noop.index
        return noop.index < tree.begins

    def changes_again(self, noop: Noop) -> bool:
        """Whether this noop would change a slot whose last change has not been looked at yet."""
        gap = self.gap_of.get(noop.name)
        return gap is not None and not self.changed.keys().isdisjoint(self.holders[gap])

    def add(self, noop: Noop, pause_ms: int) -> int | None:
        """Take in a noop; gives its slot, or None if it is over a limit. Requires that it is not held.

        An author that publishes again after more than `pause_ms` is noted to have paused.
        """
        author = self.rank[author_of(noop.name)]
        before = self.slot_of.get(noop.previous)
        trunk = self.column[before] if before is not None else self.old_place(noop.previous)
        if not self._fits(noop, author, trunk):
            return None
        hops = self._hops(noop)
        column = self.place(noop, author, trunk)
        slot = self.new_slot(noop.name, noop.index, noop.time_ms, column)
        self.note_time(column, noop.time_ms, before, pause_ms)
        self._set_row(slot, column, hops)
        self._set_gaps(slot, author, hops)
        if len(self.trees[author].columns) > 1:
            self.adopt(column, noop)
        if self.gap_of:
            self._fill(slot, noop)
        self.changed[slot] = noop.time_ms
        return slot

    def forget(self, slots: list[int]) -> None:
        """Move noops from the matrix to the old ones. Requires that none of them is a tip."""
        moved = []
        for slot in slots:
            for gap in self.gaps.pop(slot, ()):
                self.holders[gap].discard(slot)
            moved.append((int(self.author[slot]), self.free_slot(slot)))
        self.old.add(moved)

    # What follows from it

    def endorsed(self, slots: NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """For each slot and column, whether the noop endorses what it covers there; None: it does wherever complete."""
        forked = [tree for tree in self.trees if tree.forked and self.is_own(tree.author)]
        if not forked:
            return None
        endorsed = np.ones((len(slots), self.width), np.bool_)
        for tree in forked:
            numbers = np.array([column.number for column in tree.columns])
            born = np.array([column.first_ms for column in tree.columns])
            covered = (self.rows[np.ix_(slots, numbers)] > 0) | (born[None, :] <= self.blind[slots][:, None])
            endorsed[:, numbers] = ~(covered.astype(np.int32) @ tree.rivals().astype(np.int32)).astype(np.bool_)
        return endorsed

    def problems(self) -> Iterator[str]:
        """What is wrong, in words."""
        for tree in self.trees:
            yield from (f"author {tree.author}: {problem}" for problem in tree.problems())
        for name, slot in self.slot_of.items():
            column, index = self.column[slot], int(self.index[slot])
            if self.names[slot] != name or column.live.get(index) != slot:
                yield f"slot {slot} is not where it should be"
            if column.number >= 0 and self.rows[slot, column.number] != index:
                yield f"slot {slot} does not cover itself"
            if bool(self.complete[slot]) == (slot in self.gaps):
                yield f"slot {slot} is noted as complete and has gaps, or the reverse"
            if any(slot not in self.holders[gap] for gap in self.gaps.get(slot, ())):
                yield f"a gap does not know slot {slot}"

    # Hops to what a noop names

    def _hops(self, noop: Noop) -> _Hops:
        """Nearly always all that is named is held and alive: that is looked up at once, the rest one by one."""
        hops = _Hops()
        names = noop.names()
        if noop.previous:
            names.append(noop.previous)
        slots = list(map(self.slot_of.get, names))
        if None not in slots:
            hops.full = np.array(slots, np.intp)
            if (self.life.take(hops.full) >= noop.time_ms).all():
                return hops
        full: list[int] = []
        for name, slot in zip(names, slots, strict=True):
            self._hop(hops, full, noop.time_ms, name, slot)
        hops.full = np.array(full, np.intp)
        if len(hops.alone) > OLD_REFS_MAX:
            self.over.add((author_of(noop.name), "old_refs"))
            hops.lost = True
        return hops

    def _hop(self, hops: _Hops, full: list[int], time_ms: int, name: bytes, slot: int | None) -> None:
        if slot is not None:
            if time_ms <= self.life[slot]:
                full.append(slot)
            else:
                index, life_ms = int(self.index[slot]), int(self.life[slot])
                self._hop_alone(hops, self.column[slot], index, life_ms, bool(self.complete[slot]))
            return
        old = self.find_old(name) if len(hops.alone) <= OLD_REFS_MAX else None
        if old is not None:
            self._hop_alone(hops, self.column_at(old), old.index, old.life_ms, old.complete)
        elif not self._is_before(name):
            hops.gaps.append(name)

    def _is_before(self, name: bytes) -> bool:
        """Whether a name is of a noop that was published before what is judged. Requires that it is not held."""
        author = self.rank.get(author_of(name))
        if self._since_ms is None or author is None:
            return False
        begins = self.trees[author].begins
        return not begins or index_of(name) < begins

    @staticmethod
    def _hop_alone(hops: _Hops, column: Column, index: int, life_ms: int, complete: bool) -> None:
        hops.alone.append((column, index))
        hops.blind_ms = max(hops.blind_ms, life_ms)
        hops.lost |= not complete

    def _set_row(self, slot: int, column: Column, hops: _Hops) -> None:
        row = self.rows[slot]
        full = hops.full
        if len(full):
            np.maximum.reduce(self.rows.take(full, axis=0), axis=0, out=row)
        else:
            row[:] = 0
        blind_ms = hops.blind_ms
        for trunk, index in hops.alone:
            for part in trunk.path():
                if part.number >= 0:
                    row[part.number] = max(row[part.number], min(index, part.end))
        if self._blind_slots:
            blind_ms = max(blind_ms, int(self.blind[full].max(initial=0)))
        if blind_ms:
            self._blind_slots = True
        self.blind[slot] = blind_ms
        if column.number >= 0:
            row[column.number] = self.index[slot]

    _blind_slots = False
    """Whether any past has ever been blind: most never are, and need not be asked."""

    # Gaps

    def _set_gaps(self, slot: int, author: int, hops: _Hops) -> None:
        gaps = NO_GAPS
        if self.gaps and not self.complete.take(hops.full).all():
            gaps = gaps.union(*(self.gaps.get(parent, NO_GAPS) for parent in hops.full.tolist()))
        if hops.gaps or hops.lost:
            gaps |= {self._gap(name, author) for name in hops.gaps}
            gaps |= {LOST_GAP} if hops.lost else NO_GAPS
        self._note_gaps(slot, gaps)

    def _note_gaps(self, slot: int, gaps: frozenset[int]) -> None:
        self.complete[slot] = not gaps
        if gaps:
            self.gaps[slot] = gaps
            for gap in gaps:
                self.holders[gap].add(slot)

    def _gap(self, name: bytes, payer: int) -> int:
        known = self.gap_of.get(name)
        if known is not None:
            return known
        if self.gaps_of.get(payer, 0) >= GAPS_MAX:
            self.over.add((self.authors[payer], "gaps"))
            return LOST_GAP
        gap = self.next_gap
        self.next_gap += 1
        self.open_gap(gap, Gap(name, payer))
        return gap

    def open_gap(self, number: int, gap: Gap) -> None:
        self.open_gaps[number] = gap
        self.gap_of[gap.name] = number
        self.holders[number] = set()
        self.gaps_of[gap.payer] = self.gaps_of.get(gap.payer, 0) + 1

    def _fill(self, slot: int, noop: Noop) -> None:
        """A noop that was missing has come: it, and what it brings, is in the past of all that miss it and live."""
        number = self.gap_of.pop(noop.name, None)
        if number is None:
            return
        gap = self.open_gaps.pop(number)
        self.gaps_of[gap.payer] -= 1
        brought = self.gaps.get(slot, NO_GAPS)
        alive = []
        for holder in self.holders.pop(number):
            lives = bool(self.life[holder] >= noop.time_ms)
            left = (self.gaps.pop(holder) - {number}) | (brought if lives else {LOST_GAP})
            self._note_gaps(holder, left)
            if lives:
                alive.append(holder)
        if alive:
            self.rows[alive] = np.maximum(self.rows[alive], self.rows[slot])
            self.blind[alive] = np.maximum(self.blind[alive], self.blind[slot])
            self.changed |= dict.fromkeys(alive, noop.time_ms)

    # Slots

    def restore(self, name: bytes, time_ms: int, column: Column, gaps: frozenset[int]) -> int:
        """Put a noop back that was held before; its vector is for the caller to set."""
        slot = self.new_slot(name, index_of(name), time_ms, column)
        self._note_gaps(slot, gaps)
        return slot

    def restore_blindness(self) -> None:
        """Note, after noops were put back, whether any past is blind."""
        self._blind_slots = bool(self.blind.any())

    def _fits(self, noop: Noop, author: int, trunk: Column | None) -> bool:
        tree, limit = self.trees[author], ""
        if noop.index > INDEX_MAX:
            limit = "index"
        elif self.live_of[author] >= LIVE_MAX:
            limit = "live"
        elif len(tree.columns) >= BRANCHES_MAX and (trunk is None or trunk.end >= noop.index or trunk.children):
            limit = "branches" if len(tree.leaves) >= BRANCHES_MAX else ""
        if limit:
            self.over.add((self.authors[author], limit))
        return not limit
