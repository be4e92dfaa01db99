"""The head of a segment: the fixed 220 bytes that its author signs. Its id names the segment and its noop.

One layout, big-endian, no optional parts: so there is one encoding of a head, and one id.
"""

import struct
from hashlib import sha256
from typing import NamedTuple

from state.signing import SigningKey, is_signed

VERSION = 1
HASH_BYTES = 32
NO_PREVIOUS = bytes(HASH_BYTES)
"""`previous` of an author's first segment."""

_LAYOUT = struct.Struct(">II32s32sQ32sQI32s32s32s")
HEAD_BYTES = _LAYOUT.size
_ID_DOMAIN = b"quorumscope.head.v1\0"
_SIGN_DOMAIN = b"quorumscope.sign.v1\0"


class Head(NamedTuple):
    """What a noop says. `time_ms` is the author's own clock: shown, never judged."""

    version: int
    flags: int
    swarm: bytes
    author: bytes
    index: int  # type: ignore[assignment]  # tuple.index is not needed
    previous: bytes
    time_ms: int
    ops_count: int
    ops_hash: bytes
    refs_hash: bytes
    root: bytes

    def encode(self) -> bytes:
        return _LAYOUT.pack(*self)


def decode_head(encoded: bytes) -> Head:
    """The fields of a head. Requires exactly HEAD_BYTES bytes; what they say is not judged here."""
    return Head._make(_LAYOUT.unpack(encoded))


def head_id(encoded: bytes) -> bytes:
    return sha256(_ID_DOMAIN + encoded).digest()


def sign_head(encoded: bytes, key: SigningKey) -> bytes:
    return key.sign(_SIGN_DOMAIN + encoded)


def is_head_signed(encoded: bytes, signature: bytes, author: bytes) -> bool:
    return is_signed(_SIGN_DOMAIN + encoded, signature, author)


def is_sound(head: Head) -> bool:
    """Whether the head can be a link of a chain at all, whoever signed it.

    SPEC: DESIGN, wire format: index counts 1, 2, 3…; `previous` is zeros at index 1 and only there.
    """
    starts = head.previous == NO_PREVIOUS
    return head.version == VERSION and head.flags == 0 and head.index >= 1 and starts == (head.index == 1)
