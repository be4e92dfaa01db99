"""Segments: some ops and the noop that signs them. Built here, and judged here when they come from peers.

A record is judged alone, in this order, so that each has one reason however many things are wrong with it:
1. `too_large`      the record is over 1 MiB: nothing of it is decoded
2. `malformed`      not a Segment, a field of the wrong size, a head that cannot be a link of a chain
3. `too_large`      an op over 64 KiB, or more than 4,096 ops
4. `unknown_swarm`, `unknown_author`   not in the configuration; no signature is worth checking
5. `bad_signature`  whoever wrote this, it was not the author: what else is wrong says nothing about the author
6. `bad_ops_hash`   the ops are not the ones that were signed
7. `bad_refs`       the refs are not the ones that were signed, or not sorted, repeated, too many, or to its own author
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from google.protobuf.message import DecodeError

from state import wire_pb2
from state.head import HASH_BYTES, HEAD_BYTES, VERSION, Head, decode_head, head_id, is_head_signed, is_sound, sign_head
from state.limits import OP_BYTES_MAX, OPS_MAX, RECORD_BYTES_MAX, ROSTER_MAX
from state.signing import SIGNATURE_BYTES, SigningKey

REF_BYTES = 72
NO_REFS_HASH = sha256(b"").digest()


class Reason(StrEnum):
    """Why a record is rejected; judged on the record and the configuration alone."""

    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    UNKNOWN_SWARM = "unknown_swarm"
    UNKNOWN_AUTHOR = "unknown_author"
    BAD_SIGNATURE = "bad_signature"
    BAD_OPS_HASH = "bad_ops_hash"
    BAD_REFS = "bad_refs"


class Ref(NamedTuple):
    """A noop of some peer, named so that it can be looked up in that peer's log."""

    author: bytes
    index: int  # type: ignore[assignment]  # tuple.index is not needed
    id: bytes

    def encode(self) -> bytes:
        return self.author + self.index.to_bytes(8) + self.id


class Segment(NamedTuple):
    """A segment whose parts fit together. From `judge` it is also signed by its author."""

    id: bytes
    head: Head
    head_bytes: bytes
    signature: bytes
    ops: Sequence[bytes]
    refs: bytes

    @property
    def ref(self) -> Ref:
        """The name that other peers entangle this segment's noop by."""
        return Ref(self.head.author, self.head.index, self.id)

    def encode(self) -> bytes:
        message = wire_pb2.Segment(head=self.head_bytes, signature=self.signature, ops=self.ops, refs=self.refs)
        return message.SerializeToString()


Authors = Mapping[bytes, frozenset[bytes]]
"""The known authors of each swarm, over all its epochs: a link that was rejected would end an honest log."""


def rolling_hash(previous: bytes, ops: Iterable[bytes]) -> bytes:
    """h₀ = previous, hᵢ = SHA-256(hᵢ₋₁ ‖ opᵢ): links each op to everything before it."""
    link = previous
    for op in ops:
        link = sha256(link + op).digest()
    return link


def encode_refs(refs: Iterable[Ref]) -> bytes:
    return b"".join(sorted(ref.encode() for ref in refs))


def decode_refs(encoded: bytes) -> list[Ref]:
    """The refs of a judged segment. Requires a multiple of REF_BYTES bytes."""
    return [
        Ref(encoded[at : at + 32], int.from_bytes(encoded[at + 32 : at + 40]), encoded[at + 40 : at + REF_BYTES])
        for at in range(0, len(encoded), REF_BYTES)
    ]


def encode_op(data: bytes, origin: bytes = b"") -> bytes:
    """An op that carries opaque data; `origin` names the client it was written for."""
    return wire_pb2.Op(origin=origin, data=data).SerializeToString()


def build(
    key: SigningKey,
    *,
    swarm: bytes,
    index: int,
    previous: bytes,
    time_ms: int,
    ops: Sequence[bytes],
    refs: Iterable[Ref] = (),
    root: bytes,
) -> Segment:
    """Close a segment: hash its ops and refs, and sign its head. What ingest would reject is refused (ValueError)."""
    for name, value in (("swarm", swarm), ("previous", previous), ("root", root)):
        if len(value) != HASH_BYTES:
            raise ValueError(f"{name}: want {HASH_BYTES} bytes, got {len(value)}")
    for name, number in (("index", index), ("time_ms", time_ms)):
        if not 0 <= number < 1 << 64:
            raise ValueError(f"{name}: want 0 ≤ {name} < 2⁶⁴, got {number}")
    encoded_refs = encode_refs(refs)
    head = Head(
        version=VERSION,
        flags=0,
        swarm=swarm,
        author=key.public,
        index=index,
        previous=previous,
        time_ms=time_ms,
        ops_count=len(ops),
        ops_hash=rolling_hash(previous, ops),
        refs_hash=sha256(encoded_refs).digest(),
        root=root,
    )
    segment = seal(key, head, ops, encoded_refs)
    verdict = judge(segment.encode(), {swarm: frozenset([key.public])}, refs_max=ROSTER_MAX)
    if isinstance(verdict, Reason):
        raise ValueError(  # noqa: TRY004  the value is at fault, not its type
            f"the segment would be rejected as {verdict}: see the limits in docs/wire-format.md"
        )
    return verdict


def seal(key: SigningKey, head: Head, ops: Sequence[bytes], refs: bytes) -> Segment:
    """Sign any head as it stands, right or wrong: what an attacker can do. Honest peers use `build`."""
    encoded = head.encode()
    return Segment(head_id(encoded), head, encoded, sign_head(encoded, key), ops, refs)


def judge(record: bytes | None, authors: Authors, refs_max: int | None = None) -> Segment | Reason:
    """Decode and verify one record of unknown origin. Never raises, whatever the bytes are.

    A record has at most `refs_max` refs: as many as its swarm has authors, unless the caller says otherwise.
    """
    if record is None:
        return Reason.MALFORMED
    if len(record) > RECORD_BYTES_MAX:
        return Reason.TOO_LARGE
    try:
        message = wire_pb2.Segment.FromString(record)
    except DecodeError:
        return Reason.MALFORMED
    head_bytes, signature, refs = message.head, message.signature, message.refs
    if len(head_bytes) != HEAD_BYTES or len(signature) != SIGNATURE_BYTES or len(refs) % REF_BYTES:
        return Reason.MALFORMED
    head = decode_head(head_bytes)
    if not is_sound(head):
        return Reason.MALFORMED
    ops = list(message.ops)
    if len(ops) > OPS_MAX or (ops and max(map(len, ops)) > OP_BYTES_MAX):
        return Reason.TOO_LARGE
    known = authors.get(head.swarm)
    if known is None:
        return Reason.UNKNOWN_SWARM
    if head.author not in known:
        return Reason.UNKNOWN_AUTHOR
    if not is_head_signed(head_bytes, signature, head.author):
        return Reason.BAD_SIGNATURE
    if len(ops) != head.ops_count or rolling_hash(head.previous, ops) != head.ops_hash:
        return Reason.BAD_OPS_HASH
    if not _refs_hold(refs, head, len(known) if refs_max is None else refs_max):
        return Reason.BAD_REFS
    return Segment(head_id(head_bytes), head, head_bytes, signature, ops, refs)


def _refs_hold(refs: bytes, head: Head, refs_max: int) -> bool:
    """SPEC: DESIGN, wire format: refs are sorted, without repeats, to noops of other peers, at most the roster."""
    if not refs:
        return head.refs_hash == NO_REFS_HASH
    if len(refs) > refs_max * REF_BYTES or sha256(refs).digest() != head.refs_hash:
        return False
    rows = [refs[at : at + REF_BYTES] for at in range(0, len(refs), REF_BYTES)]
    ordered = all(earlier < later for earlier, later in pairwise(rows))
    return ordered and not any(row.startswith(head.author) or not any(row[HASH_BYTES : HASH_BYTES + 8]) for row in rows)
