"""Updates: ops that change an entity which peers share, or that say which version of it their author holds.

An update that carries a change makes an *event*. Its id covers the swarm, the author, the entity, the parents and the
change, and nothing else: not the claims, which are made from the id, nor the place in the log. So an event that is told
twice, or on two branches of a forked log, is one event; and the ids of some events determine the whole graph of them.

The *version* that an update speaks of is the past of its parents, with its own event if it makes one. An update without
parents and without a change speaks of the version that its stamp tells; if it has no stamp either, of the empty one.
"""

from hashlib import sha256
from itertools import pairwise, starmap
from operator import ge
from typing import NamedTuple

from google.protobuf.message import DecodeError

from state import wire_pb2
from state.head import HASH_BYTES
from state.limits import ENTITY_BYTES_MAX, PARENTS_MAX

_EVENT_TAG = b"quorumscope.event.v1\0"
_DATA_TAG, _ORIGIN_TAG = 0x12, 0x0A
_SHORT = 0x80
"""Lengths below this take one byte."""


class Update(NamedTuple):
    """A well-formed update. `change` is None if it makes no event; claims that are not made are empty."""

    entity: bytes
    parents: tuple[bytes, ...] = ()
    change: bytes | None = None
    stamp: bytes = b""
    digest: bytes = b""

    @property
    def names_version(self) -> bool:
        """Whether its version is that of named events, not just of a stamp."""
        return self.change is not None or bool(self.parents) or not self.stamp


class Malformed(NamedTuple):
    """An update that is none: which entity it names, if that can be told, and what is wrong with it."""

    entity: bytes
    problem: str


def event_id(swarm: bytes, author: bytes, update: Update) -> bytes:
    """The id of the event that an update makes. Requires a change."""
    assert update.change is not None
    parts = (swarm, author, len(update.entity).to_bytes(1), update.entity, len(update.parents).to_bytes(2))
    return sha256(b"".join((_EVENT_TAG, *parts, *update.parents, update.change))).digest()


def encode_update(update: Update, origin: bytes = b"") -> bytes:
    """The op that carries an update; one that `decode_update` would find malformed is refused (ValueError)."""
    problem = _problem(update)
    if problem:
        raise ValueError(problem)
    message = wire_pb2.Update(
        entity=update.entity, parents=update.parents, change=update.change, stamp=update.stamp, digest=update.digest
    )
    return wire_pb2.Op(origin=origin, update=message).SerializeToString()


def decode_update(op: bytes) -> Update | Malformed | None:
    """The update that an op carries; None if it carries none. Never raises, whatever the bytes are."""
    if _is_plain(op):
        return None
    try:
        decoded = wire_pb2.Op.FromString(op)
    except DecodeError:
        return None
    if decoded.WhichOneof("body") != "update":
        return None
    message = decoded.update
    change = message.change if message.HasField("change") else None
    update = Update(message.entity, tuple(message.parents), change, message.stamp, message.digest)
    problem = _problem(update)
    return Malformed(update.entity[:ENTITY_BYTES_MAX], problem) if problem else update


def _is_plain(op: bytes) -> bool:
    """Whether an op carries nothing but data, as most do: told by its first bytes, at a tenth of the cost of decoding.

    False says nothing.
    """
    size = len(op)
    if size < 2:
        return size == 0
    at = 0
    if op[0] == _ORIGIN_TAG and op[1] < _SHORT:
        at = 2 + op[1]
        if at + 2 > size:
            return at == size
    if op[at] != _DATA_TAG:
        return False
    length, at = op[at + 1], at + 2
    if length >= _SHORT:
        if at >= size or op[at] >= _SHORT:
            return False
        length, at = (length & 0x7F) | op[at] << 7, at + 1
    return at + length == size


def _problem(update: Update) -> str:
    """What is wrong with an update, in words; nothing if it is well-formed."""
    if not 1 <= len(update.entity) <= ENTITY_BYTES_MAX:
        return f"entity: want 1 to {ENTITY_BYTES_MAX} bytes, got {len(update.entity)}"
    if len(update.parents) > PARENTS_MAX:
        return f"parents: want at most {PARENTS_MAX}, got {len(update.parents)}"
    if any(map(HASH_BYTES.__ne__, map(len, update.parents))):
        return f"parents: want ids of {HASH_BYTES} bytes"
    if any(starmap(ge, pairwise(update.parents))):
        return "parents: want them sorted, each once"
    if update.digest and len(update.digest) != HASH_BYTES:
        return f"digest: want {HASH_BYTES} bytes, got {len(update.digest)}"
    return ""
