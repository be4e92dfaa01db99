"""The matrix of one block: a row for each noop that is looked at, a place in the rows for each of the block's columns.

Here is where rows and columns stand, and how they are cut and joined when logs turn out to fork, or when a missing noop
comes. What the cells mean is for `state.pasts` to say.
"""

from collections.abc import Iterable

import numpy as np

from state.branches import Column, Tree
from state.head import NO_PREVIOUS
from state.noops import Noop, author_of, id_of, index_of
from state.oldnoops import Old, OldNoops

NEVER = (1 << 62) - 1
_FIRST_ROWS = 256


class Matrix:
    """Noops by slot, columns by author, and the cells."""

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
        self.rows = np.zeros((_FIRST_ROWS, 8), np.int32)
        self.time = np.zeros(_FIRST_ROWS, np.int64)
        self.life = np.zeros(_FIRST_ROWS, np.int64)
        """The time up to which a noop counts in full."""
        self.blind = np.zeros(_FIRST_ROWS, np.int64)
        self.author = np.zeros(_FIRST_ROWS, np.int32)
        self.index = np.zeros(_FIRST_ROWS, np.int64)
        self.complete = np.zeros(_FIRST_ROWS, np.bool_)
        self.free: list[int] = []
        self.live_of = [0] * len(authors)
        """How many noops of each author have a slot."""
        self.reshaped = False
        """Whether columns of this block were added, cut or joined: every row may have changed."""

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
        return noop.index <= self.old.newest.get(author, 0) and self.find_old(noop.name) is not None

    def find_old(self, name: bytes) -> Old | None:
        """The noop of this name, if it has left the matrix."""
        author = self.rank.get(author_of(name))
        return None if author is None else self.old.find(author, index_of(name), id_of(name))

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

    # Slots

    def new_slot(self, name: bytes, index: int, time_ms: int, column: Column) -> int:
        """A slot for a noop, whose row is for the caller to set."""
        if self.free:
            slot = self.free.pop()
            self.names[slot], self.column[slot] = name, column
        else:
            slot = len(self.names)
            self.names.append(name)
            self.column.append(column)
            if slot == len(self.time):
                self._grow()
        self.slot_of[name] = slot
        column.live[index] = slot
        self.time[slot], self.life[slot], self.author[slot] = time_ms, NEVER, column.author
        self.index[slot] = index
        self.live_of[column.author] += 1
        return slot

    def free_slot(self, slot: int) -> Old:
        """Take a noop out of the matrix; gives what is to be kept of it. Requires that it is not a tip."""
        column, index, name = self.column[slot], int(self.index[slot]), self.names[slot]
        del column.live[index], self.slot_of[name]
        self.live_of[column.author] -= 1
        self.free.append(slot)
        time_ms, life_ms = int(self.time[slot]), int(self.life[slot])
        return Old(index, id_of(name), time_ms, life_ms, column.serial, bool(self.complete[slot]))

    def note_time(self, column: Column, time_ms: int, before: int | None, pause_ms: int) -> None:
        """A noop of this time continues a column, after the one in slot `before`."""
        if before is not None and self.life[before] == NEVER:
            self.life[before] = max(int(self.time[before]), time_ms) + self.horizon_ms
        column.newest_ms = max(column.newest_ms, time_ms)
        self.trees[column.author].note_time(time_ms, pause_ms)

    def restore_lives(self) -> None:
        """Tell the lives of noops that were put back. What continued one and is gone was not later than it."""
        for slot in self.live_slots():
            column, index = self.column[slot], int(self.index[slot])
            nexts = [column] if index < column.end else column.children
            if nexts:
                live = [other.live[index + 1] for other in nexts if index + 1 in other.live]
                first_ms = min((int(self.time[other]) for other in live), default=0)
                self.life[slot] = max(int(self.time[slot]), first_ms) + self.horizon_ms

    def _grow(self) -> None:
        more = len(self.time)
        self.rows = np.pad(self.rows, ((0, more), (0, 0)))
        for name in ("time", "life", "blind", "author", "index", "complete"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))

    # Columns

    def old_place(self, name: bytes) -> Column | None:
        """The column that an old noop is in."""
        old = self.find_old(name) if name else None
        return self.column_at(old) if old else None

    def place(self, noop: Noop, author: int, trunk: Column | None) -> Column:
        """The column that a noop belongs to, made if needed, where `trunk` is the one that its `previous` is in."""
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
            column.leaps = bool(noop.previous) and self._is_elsewhere(author, column.missing, noop.time_ms)
        self.trees[author].note_change()
        return column

    def adopt(self, column: Column, noop: Noop) -> None:
        """The orphans that waited for this noop have their place now: above it."""
        tree = self.trees[column.author]
        orphans = tree.orphans_of(noop.index, id_of(noop.name))
        for column_above in tree.columns:
            column_above.leaps |= column_above.missing == id_of(noop.name) and column_above not in orphans
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

    def _is_elsewhere(self, author: int, noop_id: bytes, time_ms: int) -> bool:
        """Whether an author's noop, alive at a time, has this id. Requires that it is not where it was looked for."""
        live = (slot for column in self.trees[author].columns for slot in column.live.values())
        return any(id_of(self.names[slot]) == noop_id and self.life[slot] >= time_ms for slot in live)

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

    def _shows_seam(self, column: Column, above: Column) -> bool:
        slots = list(self.live_slots())
        has, lacks = self.rows[slots, above.number] > 0, self.rows[slots, column.number] < column.end
        return bool((has & lacks).any())

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
