"""A span: the part of one author's log that stands on 64 consecutive indexes, with the claims about it.

It holds every head of the author with an index in the span, whatever branch it is on: all that is needed to prove a
lie at any depth later. It also holds claims: noops that others name and that are not held (yet).

Packed, a head costs 182 bytes: swarm and author are those of the log, `previous` and index follow from the head it
builds on when that stands in the same span, and the id is computed. A head that builds on one outside of the span
costs 40 bytes more.
"""

import struct
from bisect import insort
from collections.abc import Iterator
from typing import NamedTuple

from state.head import HEAD_BYTES, VERSION, head_id
from state.limits import REFERRERS_MAX
from state.segment import REF_BYTES

SPAN_INDEXES = 64
"""Sixty-four heads are about 12 KB: small to rewrite in each batch, large enough that one write serves many heads."""

_PREVIOUS_AT = 80
_REST_AT = 112
_COUNTS = struct.Struct(">II")
_PARENT = struct.Struct(">H")
_NO_PARENT = 0xFFFF
_HEAD = struct.Struct(f">{HEAD_BYTES - _REST_AT}s64sQ")
_CLAIM = struct.Struct(">Q32s32sQ?H")


def span_of(index: int) -> int:
    """The number of the span that holds `index`; indexes count from 1."""
    return (index - 1) // SPAN_INDEXES


class Kept:
    """A head that is kept, with the least signature and the earliest record time of its copies."""

    __slots__ = ("head", "id", "index", "seen_ms", "signature")

    def __init__(self, head: bytes, head_id: bytes, index: int, signature: bytes, seen_ms: int) -> None:
        self.head = head
        self.id = head_id
        self.index = index
        self.signature = signature
        self.seen_ms = seen_ms

    @property
    def previous(self) -> bytes:
        return self.head[_PREVIOUS_AT:_REST_AT]

    @property
    def time_ms(self) -> int:
        return int.from_bytes(self.head[_REST_AT : _REST_AT + 8])


class ClaimKey(NamedTuple):
    index: int  # type: ignore[assignment]  # tuple.index is not needed
    id: bytes


class Claim:
    """A noop that refs name and that is not held: since when, by whom, and whether a verdict has said so.

    `payer` is the peer whose ref made the claim; it counts against that peer's limit.
    """

    __slots__ = ("payer", "referrers", "reported", "since_ms")

    def __init__(self, payer: bytes, since_ms: int, *, reported: bool = False) -> None:
        self.payer = payer
        self.since_ms = since_ms
        self.reported = reported
        self.referrers: list[bytes] = []

    def add(self, referrer: bytes, seen_ms: int) -> bool:
        """Take in one referrer (an encoded Ref); whether that changed anything.

        One more than a verdict shows is kept, to know that there are more.
        """
        changed = seen_ms < self.since_ms
        self.since_ms = min(self.since_ms, seen_ms)
        if referrer not in self.referrers:
            insort(self.referrers, referrer)
            dropped = self.referrers.pop() if len(self.referrers) > REFERRERS_MAX + 1 else None
            changed |= dropped != referrer
        return changed


class Span:
    """The heads and claims of one span, unpacked."""

    __slots__ = ("by_index", "claims", "heads")

    def __init__(self) -> None:
        self.heads: dict[bytes, Kept] = {}
        self.by_index: dict[int, list[Kept]] = {}
        self.claims: dict[ClaimKey, Claim] = {}

    def add(self, kept: Kept) -> None:
        self.heads[kept.id] = kept
        self.by_index.setdefault(kept.index, []).append(kept)

    def holds(self, index: int, head_id: bytes) -> bool:
        kept = self.heads.get(head_id)
        return kept is not None and kept.index == index

    def at(self, index: int, previous: bytes) -> list[Kept]:
        """The heads at `index` that claim `previous`."""
        return [kept for kept in self.by_index.get(index, ()) if kept.previous == previous]

    def pack(self) -> bytes:
        heads = sorted(self.heads.values(), key=lambda kept: (kept.index, kept.id))
        position = {kept.id: at for at, kept in enumerate(heads)}
        parts = [_COUNTS.pack(len(heads), len(self.claims))]
        for kept in heads:
            parent = position.get(kept.previous, _NO_PARENT)
            if parent != _NO_PARENT and heads[parent].index == kept.index - 1:
                parts.append(_PARENT.pack(parent))
            else:
                parts += (_PARENT.pack(_NO_PARENT), kept.head[_PREVIOUS_AT - 8 : _REST_AT])
            parts.append(_HEAD.pack(kept.head[_REST_AT:], kept.signature, kept.seen_ms))
        for key, claim in sorted(self.claims.items()):
            count = len(claim.referrers)
            parts.append(_CLAIM.pack(key.index, key.id, claim.payer, claim.since_ms, claim.reported, count))
            parts += claim.referrers
        return b"".join(parts)


def unpack_span(packed: bytes, swarm: bytes, author: bytes) -> Span:
    """The span that `pack` gave. Requires the swarm and author of its log; ids are computed again."""
    span = Span()
    heads_count, claims_count = _COUNTS.unpack_from(packed)
    at = _COUNTS.size
    before = struct.pack(">II", VERSION, 0) + swarm + author
    heads: list[Kept] = []
    for _ in range(heads_count):
        (parent,) = _PARENT.unpack_from(packed, at)
        at += _PARENT.size
        if parent == _NO_PARENT:
            index, link = int.from_bytes(packed[at : at + 8]), packed[at : at + 40]
            at += 40
        else:
            index = heads[parent].index + 1
            link = index.to_bytes(8) + heads[parent].id
        rest, signature, seen_ms = _HEAD.unpack_from(packed, at)
        at += _HEAD.size
        head = before + link + rest
        heads.append(Kept(head, head_id(head), index, signature, seen_ms))
        span.add(heads[-1])
    for key, claim in _unpack_claims(packed, at, claims_count):
        span.claims[key] = claim
    return span


def _unpack_claims(packed: bytes, at: int, count: int) -> Iterator[tuple[ClaimKey, Claim]]:
    for _ in range(count):
        index, noop_id, payer, since_ms, reported, referrers = _CLAIM.unpack_from(packed, at)
        at += _CLAIM.size
        claim = Claim(payer, since_ms, reported=reported)
        claim.referrers = [packed[at + i * REF_BYTES : at + (i + 1) * REF_BYTES] for i in range(referrers)]
        at += referrers * REF_BYTES
        yield ClaimKey(index, noop_id), claim
