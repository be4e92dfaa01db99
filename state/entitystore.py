"""How an entity is kept: one entry for what its replicas said last, and its events in chunks, in the order they came.

A batch writes the entry of each entity that it touched, and those chunks of it that changed: the last one, and older
ones only where an earlier copy of an event came.
"""

import struct
from collections.abc import Iterator, Sequence

import msgspec

from state.fold import Archive
from state.head import HASH_BYTES
from state.told import Told

CHUNK_EVENTS = 64
"""Events of a chunk, at some 46 bytes each: few bytes are written again for one event, and a long history is read in
hundreds of calls, not in ten thousands."""

_ENTRY = b"E"
_FIXED = struct.Struct(f">{HASH_BYTES}sQH")
_TIME_AT, _TIME_END = HASH_BYTES, HASH_BYTES + 8


def pack_event(event_id: bytes, time_ms: int, parents: Sequence[int]) -> bytes:
    """An event as it is kept, with its parents by their numbers."""
    return _FIXED.pack(event_id, time_ms, len(parents)) + struct.pack(f">{len(parents)}I", *parents)


def time_of(packed: bytes) -> int:
    return int.from_bytes(packed[_TIME_AT:_TIME_END])


def retimed(packed: bytes, time_ms: int) -> bytes:
    """The event with another time."""
    return packed[:_TIME_AT] + time_ms.to_bytes(8) + packed[_TIME_END:]


def id_of(packed: bytes) -> bytes:
    return packed[:HASH_BYTES]


def parents_of(packed: bytes) -> tuple[int, ...]:
    return struct.unpack_from(f">{(len(packed) - _FIXED.size) // 4}I", packed, _FIXED.size)


class ReplicaState(msgspec.Struct, array_like=True):
    """What an author said last of its replica. `size` is -1 until all that it named is held.

    Then `has_digest` tells whether the digest that it gave is that of its version, and `since_ms` is the record time of
    the earliest published event that the version lacks, or of what was said.
    """

    told: Told
    size: int = -1
    has_digest: bool = True
    since_ms: int = 0


class BadState(msgspec.Struct, array_like=True, order=True):
    """The earliest update of an author that is bad for a reason; sorts by time."""

    seen_ms: int
    index: int
    position: int
    segment: bytes
    claimed: str
    expected: str


class EntityState(msgspec.Struct, array_like=True):
    """What is kept of an entity besides its events."""

    events: int = 0
    replicas: dict[bytes, ReplicaState] = {}
    waiting: list[Told] = []
    """Updates that build on events which are not held."""
    bad: dict[bytes, dict[str, BadState]] = {}
    """By author and reason."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(EntityState)


class EntityStore:
    """Where the entities of one shard are kept."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def load(self, entity: bytes) -> tuple[EntityState, list[bytes]] | None:
        """An entity as it was saved, with its packed events; None if it never was."""
        packed = self._archive.get(_entry(entity))
        if packed is None:
            return None
        state = _decoder.decode(packed)
        chunks = range(-(-state.events // CHUNK_EVENTS))
        return state, [event for number in chunks for event in _cut(self._archive[_chunk(entity, number)])]

    def save(self, entity: bytes, state: EntityState) -> None:
        self._archive[_entry(entity)] = _encoder.encode(state)

    def save_events(self, entity: bytes, number: int, events: Sequence[bytes]) -> None:
        """Save one chunk of an entity: its packed events from `number` times CHUNK_EVENTS on."""
        self._archive[_chunk(entity, number)] = b"".join(events)


def _cut(chunk: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(chunk):
        end = at + _FIXED.size + 4 * int.from_bytes(chunk[at + _TIME_END : at + _FIXED.size])
        yield chunk[at:end]
        at = end


def entity_of(name: bytes) -> bytes | None:
    """The entity whose entry has this name; None if it is the name of something else."""
    return name[1:] if name[:1] == _ENTRY else None


def _entry(entity: bytes) -> bytes:
    return _ENTRY + entity


def _chunk(entity: bytes, number: int) -> bytes:
    return b"C" + number.to_bytes(4) + entity
