"""How a block of columns is kept: what is small in the blob, the vectors of live noops in chunks in the archive.

A batch writes the chunks that it changed: those of the noops that came, and of those whose vectors a late noop
raised; all of them only when a column of the block was cut or joined. Who observed what is not kept, it follows from
the vectors; but a noop that outlives its observers, the tip of a silent peer, has its observers kept beside it.
A cell is kept as a byte: how far it is behind the highest of its column in the chunk.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.branches import Column
from state.fold import Archive
from state.head import HASH_BYTES, NO_PREVIOUS
from state.pasts import NO_GAPS, Gap, Pasts

CHUNK_SLOTS = 64
"""Noops of a chunk: with 256 columns that is 20 KB, so that few bytes are written again for one noop."""
_NOTHING, _FAR = 254, 255
"""A cell that is 0, and one that is too far behind for a byte and stands among the exceptions."""


class ColumnState(msgspec.Struct, array_like=True):
    serial: int
    author: int
    start: int
    end: int
    first: bytes
    first_ms: int
    missing: bytes
    parent: int
    heir: int
    number: int
    newest_ms: int
    leaps: bool


class PastsState(msgspec.Struct, array_like=True):
    """What the blob keeps of the pasts; serials and gaps count from 1, 0 is none."""

    authors: list[bytes] = []
    columns: list[ColumnState] = []
    aliases: dict[int, int] = {}
    """Serials of orphans that were joined to another column."""
    next_serial: int = 1
    gaps: list[tuple[int, bytes, int]] = []
    next_gap: int = 1
    old: dict[int, int] = {}
    runs: list[tuple[int, int]] = []
    """Of each author, the newest time and when it began to publish without a pause."""
    chunks: list[int] = []
    next_chunk: int = 1
    begins: list[int] = []
    """The index that each author's log begins with, where what was published before is gone."""


class _Chunk(msgspec.Struct, array_like=True):
    ids: bytes
    authors: bytes
    indexes: bytes
    times: bytes
    serials: bytes
    blind: bytes
    gaps: dict[int, list[int]]
    width: int
    top: bytes
    behind: bytes
    far_at: bytes
    far: bytes


_chunks = msgspec.msgpack.Decoder(_Chunk)
_encoder = msgspec.msgpack.Encoder()


class ChunkStore:
    """Which live noop is in which chunk, and which chunks are to be written."""

    def __init__(self, pasts: Pasts, archive: Archive) -> None:
        self._pasts = pasts
        self._archive = archive
        self._members: dict[int, set[int]] = {}
        self._chunk_of: dict[int, int] = {}
        self._dirty: set[int] = set()
        self._next = 1

    def touch(self, slots: Iterable[int]) -> None:
        """Note slots that are new or changed."""
        for slot in slots:
            chunk = self._chunk_of.get(slot)
            if chunk is None:
                chunk = self._chunk_of[slot] = self._open_chunk()
                self._members[chunk].add(slot)
            self._dirty.add(chunk)

    def touch_all(self) -> None:
        self._dirty.update(self._members)

    def forget(self, slots: list[int]) -> None:
        for slot in slots:
            chunk = self._chunk_of.pop(slot)
            self._members[chunk].discard(slot)
            self._dirty.add(chunk)

    def flush(self) -> None:
        """Write the chunks that changed."""
        for chunk in sorted(self._dirty):
            members = self._members.get(chunk)
            if members:
                self._archive[_name(chunk)] = pack_chunk(self._pasts, sorted(members))
            elif members is not None:
                del self._members[chunk]
                self._archive.pop(_name(chunk), None)
        self._dirty.clear()

    def state(self) -> tuple[list[int], int]:
        return sorted(self._members), self._next

    def load(self, chunks: list[int], following: int) -> None:
        """Read the chunks back. Requires the columns of the pasts, and no slots."""
        self._next = following
        for chunk in chunks:
            slots = list(unpack_chunk(self._pasts, self._archive[_name(chunk)]))
            self._members[chunk] = set(slots)
            self._chunk_of |= dict.fromkeys(slots, chunk)

    def _open_chunk(self) -> int:
        newest = self._next - 1
        if newest not in self._members or len(self._members[newest]) >= CHUNK_SLOTS:
            newest = self._next
            self._members[newest] = set()
            self._next += 1
        return newest


def pack_chunk(pasts: Pasts, slots: list[int]) -> bytes:
    width = pasts.width
    rows = pasts.rows[slots, :width]
    top = rows.max(axis=0, initial=0)
    lag = top - rows
    behind = np.where(rows == 0, _NOTHING, np.minimum(lag, _FAR)).astype(np.uint8)
    behind[(lag >= _NOTHING) & (rows > 0)] = _FAR
    far_at = np.flatnonzero(behind == _FAR)
    blind = pasts.blind[slots]
    chunk = _Chunk(
        ids=b"".join(pasts.names[slot][-HASH_BYTES:] for slot in slots),
        authors=pasts.author[slots].astype("<u2").tobytes(),
        indexes=pasts.index[slots].astype("<u4").tobytes(),
        times=pasts.time[slots].tobytes(),
        serials=np.array([pasts.column[slot].serial for slot in slots], "<u4").tobytes(),
        blind=blind.tobytes() if blind.any() else b"",
        gaps={at: sorted(pasts.gaps[slot]) for at, slot in enumerate(slots) if slot in pasts.gaps},
        width=width,
        top=top.astype("<i4").tobytes(),
        behind=behind.tobytes(),
        far_at=far_at.astype("<u4").tobytes(),
        far=rows.ravel()[far_at].astype("<i4").tobytes(),
    )
    return _encoder.encode(chunk)


def unpack_chunk(pasts: Pasts, packed: bytes) -> Iterator[int]:
    """Put the noops of a chunk back into the matrix; gives their slots."""
    chunk = _chunks.decode(packed)
    count = len(chunk.ids) // HASH_BYTES
    rows = _unpack_rows(chunk, count)
    authors, indexes, serials = (
        np.frombuffer(part, kind).tolist()
        for part, kind in ((chunk.authors, "<u2"), (chunk.indexes, "<u4"), (chunk.serials, "<u4"))
    )
    times = np.frombuffer(chunk.times, np.int64).tolist()
    blind = np.frombuffer(chunk.blind, np.int64) if chunk.blind else np.zeros(count, np.int64)
    for at in range(count):
        noop_id = chunk.ids[at * HASH_BYTES : (at + 1) * HASH_BYTES]
        name = pasts.authors[authors[at]] + indexes[at].to_bytes(8) + noop_id
        slot = pasts.restore(name, times[at], pasts.by_serial[serials[at]], frozenset(chunk.gaps.get(at, NO_GAPS)))
        # Places at the end that were free when the chunk was written may not be there any more.
        pasts.rows[slot, : min(chunk.width, pasts.width)] = rows[at, : pasts.width]
        pasts.blind[slot] = blind[at]
        yield slot


def _unpack_rows(chunk: _Chunk, count: int) -> NDArray[np.int32]:
    behind = np.frombuffer(chunk.behind, np.uint8).reshape(count, chunk.width)
    rows = np.frombuffer(chunk.top, "<i4") - behind.astype(np.int32)
    rows[behind == _NOTHING] = 0
    rows.ravel()[np.frombuffer(chunk.far_at, "<u4")] = np.frombuffer(chunk.far, "<i4")
    return rows


def pack_pasts(pasts: Pasts, chunks: ChunkStore) -> PastsState:
    columns = [column for tree in pasts.trees for column in tree.columns]
    listed, following = chunks.state()
    return PastsState(
        authors=pasts.authors,
        columns=[
            ColumnState(
                column.serial,
                column.author,
                column.start,
                column.end,
                column.first,
                column.first_ms,
                column.missing if column.missing != NO_PREVIOUS else b"",
                column.parent.serial if column.parent else 0,
                column.heir.serial if column.heir else 0,
                column.number,
                column.newest_ms,
                column.leaps,
            )
            for column in columns
        ],
        aliases={serial: column.serial for serial, column in pasts.by_serial.items() if serial != column.serial},
        next_serial=pasts.next_serial,
        gaps=[(number, gap.name, gap.payer) for number, gap in pasts.open_gaps.items()],
        next_gap=pasts.next_gap,
        old=pasts.old.newest,
        runs=[(tree.newest_ms, tree.run_ms) for tree in pasts.trees],
        chunks=listed,
        next_chunk=following,
        begins=[tree.begins for tree in pasts.trees] if any(tree.begins for tree in pasts.trees) else [],
    )


def load_pasts(pasts: Pasts, state: PastsState, chunks: ChunkStore) -> None:
    """Restore pasts that were packed. Requires new ones, for at least the same authors in the same order."""
    parents: dict[int, tuple[int, int]] = {}
    for kept in state.columns:
        column = Column(kept.serial, kept.author, kept.start, kept.first, kept.first_ms)
        column.end, column.missing = kept.end, kept.missing or NO_PREVIOUS
        column.newest_ms, column.leaps = kept.newest_ms, kept.leaps
        parents[kept.serial] = (kept.parent, kept.heir)
        pasts.add_column(column, kept.number)
    for serial, (parent, heir) in parents.items():
        column = pasts.by_serial[serial]
        column.heir = pasts.by_serial.get(heir)
        if parent:
            column.parent = pasts.by_serial[parent]
            column.parent.children.append(column)
    pasts.by_serial |= {serial: pasts.by_serial[other] for serial, other in state.aliases.items()}
    for tree in pasts.trees:
        tree.note_change()
    for tree, (newest_ms, run_ms) in zip(pasts.trees, state.runs, strict=False):
        tree.newest_ms, tree.run_ms = newest_ms, run_ms
    pasts.next_serial, pasts.next_gap = state.next_serial, state.next_gap
    for tree, begins in zip(pasts.trees, state.begins, strict=False):
        tree.begins = begins
    for number, name, payer in state.gaps:
        pasts.open_gap(number, Gap(name, payer))
    chunks.load(state.chunks, state.next_chunk)
    pasts.restore_lives()
    pasts.restore_blindness()


def _name(chunk: int) -> bytes:
    return b"L" + chunk.to_bytes(8)
