"""The past of every live noop, as a vector: for each column of the block, the newest index that the noop covers.

Rules (SPEC: DESIGN, columns; docs/adr/0006):
- A noop names its `previous` and its refs. Of each that is held, as the author and index that it is named by, the
  vector counts *in full* if the naming noop is not later than its *life*; else for the log below it alone.
- A noop lives for a horizon after its record time, or after that of the first noop that continues it, and as long as
  nothing does: the tip of a silent peer goes on to count.
- What is named and not held is a *gap*. It is in the past of all that follow, so when it comes, it and its past are
  added to each of them that is alive. A past is *complete* when it has no gaps.
- What counts for its log alone may hide a fork that was known when it died: a past is *blind* up to that time.
- A noop endorses what its complete past covers and does not contradict: not the branches of an author of which it
  covers, or may be blind to, another.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.branches import Column, Tree
from state.head import NO_PREVIOUS
from state.limits import BRANCHES_MAX, GAPS_MAX, INDEX_MAX, LIVE_MAX, OLD_REFS_MAX
from state.noops import Noop, author_of, id_of, index_of
from state.oldnoops import Old, OldNoops

NEVER = (1 << 62) - 1
NO_GAPS: frozenset[int] = frozenset()
LOST_GAP = 0
"""The gap of pasts that can never be known to be complete."""
_FIRST_ROWS = 256
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


class Pasts:
    """The live noops of a swarm and their vectors over the columns of one block."""

    def __init__(self, authors: list[bytes], own: frozenset[bytes], horizon_ms: int, old: OldNoops) -> None:
        self.authors = authors
        self.rank = {author: rank for rank, author in enumerate(authors)}
        self.own = own
        self.horizon_ms = horizon_ms
        self.old = old
        self.trees = [Tree(rank) for rank in range(len(authors))]
        self.by_serial: dict[int, Column] = {}
        self.next_serial = 1
        self.numbers: list[Column | None] = []
        """The column at each place of a row."""
        self.slot_of: dict[bytes, int] = {}
        """By name."""
        self.names: list[bytes] = []
        self.column: list[Column] = []
        self.gaps: list[frozenset[int]] = []
        self.rows = np.zeros((_FIRST_ROWS, 8), np.int32)
        self.time = np.zeros(_FIRST_ROWS, np.int64)
        self.life = np.zeros(_FIRST_ROWS, np.int64)
        self.blind = np.zeros(_FIRST_ROWS, np.int64)
        self.author = np.zeros(_FIRST_ROWS, np.int32)
        self.index = np.zeros(_FIRST_ROWS, np.int64)
        self.complete = np.zeros(_FIRST_ROWS, np.bool_)
        self.free: list[int] = []
        self.open_gaps: dict[int, Gap] = {}
        self.gap_of: dict[bytes, int] = {}
        self.holders: dict[int, set[int]] = {LOST_GAP: set()}
        self.gaps_of: dict[int, int] = {}
        self.next_gap = 1
        self.live_of = [0] * len(authors)
        # What changed, for those who look at it after a batch.
        self.changed: dict[int, int] = {}
        """Slots that are new, or whose vectors or completeness changed, and the time of the noop that did it."""
        self.reshaped = False
        """Whether columns of this block were added, cut or joined: every vector may have changed."""
        self.over: set[tuple[bytes, str]] = set()
        """Authors that went over a limit, and which."""

    # What is held

    @property
    def width(self) -> int:
        return len(self.numbers)

    def is_own(self, author: int) -> bool:
        return self.authors[author] in self.own

    def holds(self, noop: Noop) -> bool:
        if noop.name in self.slot_of:
            return True
        author = self.rank[author_of(noop.name)]
        return noop.index <= self.old.newest.get(author, 0) and self._find_old(noop.name) is not None

    def previous_of(self, slot: int) -> int | None:
        """The slot of the noop before this one in its log, if it is live."""
        column, index = self.column[slot], int(self.index[slot])
        if index > column.start:
            return column.live.get(index - 1)
        return column.parent.live.get(index - 1) if column.parent else None

    def live_slots(self) -> Iterable[int]:
        return self.slot_of.values()

    def column_at(self, old: Old) -> Column:
        """The column that an old noop is in now."""
        column = self.by_serial[old.serial]
        while old.index > column.end and column.heir is not None:
            column = column.heir
        return column

    # What comes

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
        trunk = self.column[before] if before is not None else self._old_place(noop.previous)
        if not self._fits(noop, author, trunk):
            return None
        hops = self._hops(noop)
        column = self._place(noop, author, trunk)
        slot = self._new_slot(noop.name, noop.index, noop.time_ms, column)
        self._note_time(column, noop.time_ms, before, pause_ms)
        self._set_row(slot, column, hops)
        self._set_gaps(slot, author, hops)
        if len(self.trees[author].columns) > 1:
            self._adopt(column, noop)
        if self.gap_of:
            self._fill(slot, noop)
        self.changed[slot] = noop.time_ms
        return slot

    def forget(self, slots: list[int]) -> None:
        """Move noops from the matrix to the old ones. Requires that none of them is a tip."""
        moved = []
        for slot in slots:
            column, index, author = self.column[slot], int(self.index[slot]), int(self.author[slot])
            old = Old(
                index,
                id_of(self.names[slot]),
                int(self.time[slot]),
                int(self.life[slot]),
                column.serial,
                bool(self.complete[slot]),
            )
            moved.append((author, old))
            del column.live[index], self.slot_of[self.names[slot]]
            for gap in self.gaps[slot]:
                self.holders[gap].discard(slot)
            self.gaps[slot] = NO_GAPS
            self.live_of[author] -= 1
            self.free.append(slot)
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
            rivals = np.array([[one.is_rival(other) for other in tree.columns] for one in tree.columns])
            born = np.array([column.first_ms for column in tree.columns])
            covered = (self.rows[np.ix_(slots, numbers)] > 0) | (born[None, :] <= self.blind[slots][:, None])
            endorsed[:, numbers] = ~(covered.astype(np.int32) @ rivals.astype(np.int32)).astype(np.bool_)
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
            if bool(self.complete[slot]) == bool(self.gaps[slot]):
                yield f"slot {slot} is noted as complete and has gaps, or the reverse"
            if any(slot not in self.holders[gap] for gap in self.gaps[slot]):
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
        old = self._find_old(name) if len(hops.alone) <= OLD_REFS_MAX else None
        if old is not None:
            self._hop_alone(hops, self.column_at(old), old.index, old.life_ms, old.complete)
        else:
            hops.gaps.append(name)

    def _find_old(self, name: bytes) -> Old | None:
        author = self.rank.get(author_of(name))
        return None if author is None else self.old.find(author, index_of(name), id_of(name))

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
        if not self.complete.take(hops.full).all():
            gaps = gaps.union(*(self.gaps[parent] for parent in hops.full.tolist()))
        if hops.gaps or hops.lost:
            gaps |= {self._gap(name, author) for name in hops.gaps}
            gaps |= {LOST_GAP} if hops.lost else NO_GAPS
        self.gaps[slot] = gaps
        self.complete[slot] = not gaps
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
        brought = self.gaps[slot]
        alive = []
        for holder in self.holders.pop(number):
            lives = bool(self.life[holder] >= noop.time_ms)
            left = (self.gaps[holder] - {number}) | (brought if lives else {LOST_GAP})
            for other in left - self.gaps[holder]:
                self.holders[other].add(holder)
            self.gaps[holder] = left
            self.complete[holder] = not left
            if lives:
                alive.append(holder)
        if alive:
            self.rows[alive] = np.maximum(self.rows[alive], self.rows[slot])
            self.blind[alive] = np.maximum(self.blind[alive], self.blind[slot])
            self.changed |= dict.fromkeys(alive, noop.time_ms)

    # Columns

    def _old_place(self, name: bytes) -> Column | None:
        """The column that an old noop is in."""
        old = self._find_old(name) if name else None
        return self.column_at(old) if old else None

    def _place(self, noop: Noop, author: int, trunk: Column | None) -> Column:
        if trunk is not None and trunk.end == noop.index - 1 and not trunk.children:
            trunk.end = noop.index
            if len(self.trees[author].columns) > 1:
                self.trees[author].note_change()
            return trunk
        if trunk is not None and trunk.end > noop.index - 1:
            self._cut(trunk, noop.index - 1)
        column = self._new_column(author, noop.index, id_of(noop.name), noop.time_ms)
        if trunk is not None:
            column.parent = trunk
            trunk.children.append(column)
        else:
            column.missing = id_of(noop.previous) or NO_PREVIOUS
        self.trees[author].note_change()
        return column

    def _cut(self, trunk: Column, at: int) -> None:
        """End a column at an index; what stands above goes on as its heir."""
        index = at + 1
        first = trunk.live.get(index)
        if first is not None:
            first_id, first_ms = id_of(self.names[first]), int(self.time[first])
        else:
            old = next(old for old in self.old.at(trunk.author, index) if self.column_at(old) is trunk)
            first_id, first_ms = old.id, old.time_ms
        heir = self._new_column(trunk.author, index, first_id, first_ms)
        heir.end, heir.children, heir.heir = trunk.end, trunk.children, trunk.heir
        heir.parent = trunk
        trunk.end, trunk.children, trunk.heir = at, [heir], heir
        for child in heir.children:
            child.parent = heir
        for above in [other for other in trunk.live if other > at]:
            slot = trunk.live.pop(above)
            heir.live[above] = slot
            self.column[slot] = heir
        for part in (trunk, heir):
            part.newest_ms = max((int(self.time[slot]) for slot in part.live.values()), default=part.first_ms)
        if heir.number >= 0:
            cells = self.rows[:, trunk.number]
            self.rows[:, heir.number] = np.where(cells > at, cells, 0)
            np.minimum(cells, at, out=cells)

    def _adopt(self, column: Column, noop: Noop) -> None:
        """The orphans that waited for this noop have their place now: above it."""
        tree = self.trees[column.author]
        orphans = tree.orphans_of(noop.index, id_of(noop.name))
        if not orphans:
            return
        first_ms = min(orphan.first_ms for orphan in orphans)
        slot = column.live[noop.index]
        self.life[slot] = max(int(self.time[slot]), first_ms) + self.horizon_ms
        column.children = orphans
        for orphan in orphans:
            orphan.parent, orphan.missing = column, NO_PREVIOUS
        self.reshaped |= column.number >= 0
        tree.note_change()

    def mend(self) -> None:
        """Join columns that a missing noop had parted, where no vector shows any more that it was missing."""
        for tree in self.trees:
            for column in list(tree.columns):
                while column in tree.columns and len(column.children) == 1:
                    if column.number >= 0 and self._shows_seam(column, column.children[0]):
                        break
                    self._join(column, column.children[0])
                    tree.note_change()

    def _shows_seam(self, column: Column, above: Column) -> bool:
        rows = self.rows[list(self.slot_of.values())]
        return bool(((rows[:, above.number] > 0) & (rows[:, column.number] < column.end)).any())

    def _join(self, column: Column, above: Column) -> None:
        """Make a column the upper part of the one that it follows."""
        column.end, column.children, column.heir = above.end, above.children, above.heir
        column.newest_ms = max(column.newest_ms, above.newest_ms)
        for child in column.children:
            child.parent = column
        for index, slot in above.live.items():
            column.live[index] = slot
            self.column[slot] = column
        if column.number >= 0:
            np.maximum(self.rows[:, column.number], self.rows[:, above.number], out=self.rows[:, column.number])
            self.rows[:, above.number] = 0
            self.numbers[above.number] = None
            self.reshaped = True
        # Old noops, and columns that were joined before, still name it by its serial.
        for serial in [serial for serial, other in self.by_serial.items() if other is above]:
            self.by_serial[serial] = column
        self.trees[column.author].columns.remove(above)

    def _new_column(self, author: int, start: int, first: bytes, first_ms: int) -> Column:
        column = Column(self.next_serial, author, start, first, first_ms)
        self.next_serial += 1
        self.add_column(column)
        return column

    def add_column(self, column: Column, number: int | None = None) -> None:
        """Add a column; one of this block gets a place in the rows, a given one if it had it before."""
        self.by_serial[column.serial] = column
        self.trees[column.author].columns.append(column)
        if self.is_own(column.author):
            if number is None:
                number = self.numbers.index(None) if None in self.numbers else self.width
            self.numbers += [None] * (number + 1 - self.width)
            self.numbers[number] = column
            column.number = number
            if self.width > self.rows.shape[1]:
                self.rows = np.pad(self.rows, ((0, 0), (0, self.width)))
            self.reshaped = True

    # Slots

    def restore(self, name: bytes, time_ms: int, column: Column, gaps: frozenset[int]) -> int:
        """Put a noop back that was held before; its vector is for the caller to set."""
        slot = self._new_slot(name, index_of(name), time_ms, column)
        self.gaps[slot] = gaps or NO_GAPS
        self.complete[slot] = not gaps
        for gap in gaps:
            self.holders[gap].add(slot)
        return slot

    def restore_lives(self) -> None:
        """Tell the lives of noops that were put back. What continued one and is gone was not later than it."""
        for slot in self.live_slots():
            column, index = self.column[slot], int(self.index[slot])
            nexts = [column] if index < column.end else column.children
            if nexts:
                live = [other.live[index + 1] for other in nexts if index + 1 in other.live]
                first_ms = min((int(self.time[other]) for other in live), default=0)
                self.life[slot] = max(int(self.time[slot]), first_ms) + self.horizon_ms
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

    def _new_slot(self, name: bytes, index: int, time_ms: int, column: Column) -> int:
        if self.free:
            slot = self.free.pop()
            self.names[slot], self.column[slot], self.gaps[slot] = name, column, NO_GAPS
        else:
            slot = len(self.names)
            self.names.append(name)
            self.column.append(column)
            self.gaps.append(NO_GAPS)
            if slot == len(self.time):
                self._grow()
        self.slot_of[name] = slot
        column.live[index] = slot
        self.time[slot], self.life[slot], self.author[slot] = time_ms, NEVER, column.author
        self.index[slot] = index
        self.live_of[column.author] += 1
        return slot

    def _grow(self) -> None:
        more = len(self.time)
        self.rows = np.pad(self.rows, ((0, more), (0, 0)))
        for name in ("time", "life", "blind", "author", "index", "complete"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))

    def _note_time(self, column: Column, time_ms: int, before: int | None, pause_ms: int) -> None:
        if before is not None and self.life[before] == NEVER:
            self.life[before] = max(int(self.time[before]), time_ms) + self.horizon_ms
        column.newest_ms = max(column.newest_ms, time_ms)
        self.trees[column.author].note_time(time_ms, pause_ms)
