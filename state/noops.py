"""Noops as events: what the columns need of a segment, which is all but its ops, its hashes and its signature.

A noop has a name: (author, index, id), encoded as in a ref.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from state.fold import Arrival
from state.head import NO_PREVIOUS
from state.segment import REF_BYTES

_FIXED = struct.Struct(f">Q{REF_BYTES}s32sI")
_PARTS = struct.Struct(">Q32sQ32s32sI")
_NAME_AT = 8
_INDEX_AT, _ID_AT = 32, 40


class Noop(NamedTuple):
    """A noop with a record time; sorts by time, then name. `previous` is a name too, empty where a log begins."""

    time_ms: int
    name: bytes
    index: int  # type: ignore[assignment]  # tuple.index is not needed
    previous: bytes
    refs: bytes

    def names(self) -> list[bytes]:
        """The names of the noops that it entangles."""
        refs = self.refs
        return [refs[at : at + REF_BYTES] for at in range(0, len(refs), REF_BYTES)]


def author_of(name: bytes) -> bytes:
    return name[:_INDEX_AT]


def index_of(name: bytes) -> int:
    return int.from_bytes(name[_INDEX_AT:_ID_AT])


def id_of(name: bytes) -> bytes:
    return name[_ID_AT:]


def encode_noops(noops: Iterable[Noop]) -> bytes:
    parts: list[bytes] = []
    for time_ms, name, _, previous, refs in noops:
        parts += (_FIXED.pack(time_ms, name, id_of(previous) or NO_PREVIOUS, len(refs) // REF_BYTES), refs)
    return b"".join(parts)


def decode_noops(encoded: bytes) -> Iterator[Noop]:
    at = 0
    while at < len(encoded):
        time_ms, author, index, _, previous, refs = _PARTS.unpack_from(encoded, at)
        start = at + _FIXED.size
        name = encoded[at + _NAME_AT : at + _NAME_AT + REF_BYTES]
        at = start + refs * REF_BYTES
        before = b"" if previous == NO_PREVIOUS else author + (index - 1).to_bytes(8) + previous
        yield Noop(time_ms, name, index, before, encoded[start:at])


def encode_arrivals(arrivals: Iterable[Arrival]) -> bytes:
    """The noops of segments, encoded."""
    parts: list[bytes] = []
    for segment, time_ms in arrivals:
        refs = segment.refs
        parts += (_FIXED.pack(time_ms, segment.ref.encode(), segment.head.previous, len(refs) // REF_BYTES), refs)
    return b"".join(parts)
