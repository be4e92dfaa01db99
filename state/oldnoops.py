"""Noops beyond their horizon: what is kept of them in the archive, to tell a late ref from a false one.

By author and stretch of 64 indexes, written when noops leave the matrix, many at a time, and read only when a noop
names one of them or comes again.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from state.fold import Archive

SPAN_INDEXES = 64
_PREFIX = b"O"
_ENTRY = struct.Struct(">Q32sQQI?")
ENTRY_BYTES = _ENTRY.size


class Old(NamedTuple):
    """A noop that has left the matrix. `serial` names the column that it was in then."""

    index: int  # type: ignore[assignment]  # tuple.index is not needed
    id: bytes
    time_ms: int
    life_ms: int
    serial: int
    complete: bool


class OldNoops:
    """The old noops of a block. `newest` has, for each author with any, the highest index that is kept."""

    def __init__(self, archive: Archive, newest: dict[int, int]) -> None:
        self._archive = archive
        self.newest = newest
        self._read: dict[bytes, list[Old]] = {}

    def at(self, author: int, index: int) -> list[Old]:
        """The old noops of an author at an index."""
        if index > self.newest.get(author, 0):
            return []
        return [old for old in self._span(_name(author, index)) if old.index == index]

    def find(self, author: int, index: int, noop_id: bytes) -> Old | None:
        return next((old for old in self.at(author, index) if old.id == noop_id), None)

    def add(self, noops: Iterable[tuple[int, Old]]) -> None:
        """Keep noops, given with their authors."""
        spans = defaultdict(list)
        for author, old in noops:
            spans[_name(author, old.index)].append(old)
            self.newest[author] = max(self.newest.get(author, 0), old.index)
        for name, added in spans.items():
            span = self._read[name] = sorted({*self._span(name), *added})
            self._archive[name] = b"".join(_ENTRY.pack(*old) for old in span)

    def forget_read(self) -> None:
        """The batch is over: what was read for it need not stay in memory."""
        self._read.clear()

    def problems(self, names: Iterable[bytes]) -> Iterator[str]:
        """What is wrong with what is kept, where `names` are those of all entries of the archive."""
        newest: dict[int, int] = {}
        for name in names:
            if name[:1] != _PREFIX:
                continue
            author = int.from_bytes(name[1:5])
            packed = self._archive[name]
            if len(packed) % ENTRY_BYTES:
                yield f"old noops {name.hex()}: {len(packed)} bytes are no entries"
                continue
            span = [Old._make(fields) for fields in _ENTRY.iter_unpack(packed)]
            if span != sorted(set(span)) or any(_name(author, old.index) != name for old in span):
                yield f"old noops {name.hex()}: not in order, or not where they belong"
            newest[author] = max([newest.get(author, 0), *(old.index for old in span)])
        if newest != self.newest:
            yield f"the newest of the old noops: want {newest}, got {self.newest}"

    def _span(self, name: bytes) -> list[Old]:
        if name not in self._read:
            self._read[name] = [Old._make(fields) for fields in _ENTRY.iter_unpack(self._archive.get(name) or b"")]
        return self._read[name]


def _name(author: int, index: int) -> bytes:
    return _PREFIX + author.to_bytes(4) + ((index - 1) // SPAN_INDEXES).to_bytes(8)
