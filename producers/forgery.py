"""Records that must be rejected, in many ways for each reason, and records that look odd and must not be.

What an attacker can do who has the key of one peer of the roster (the rogue), a key of nobody (the stranger), and all
that stands on the topic. Each forgery has exactly one reason, by the order in which a record is judged.
"""

from collections.abc import Iterator
from hashlib import sha256, sha512
from random import Random
from typing import Any, NamedTuple

import nacl.bindings

from state import wire_pb2
from state.head import NO_PREVIOUS, Head
from state.limits import OP_BYTES_MAX, OPS_MAX, RECORD_BYTES_MAX
from state.segment import REF_BYTES, Reason, Ref, Segment, encode_op, encode_refs, rolling_hash, seal
from state.signing import SIGNATURE_BYTES, SigningKey

_GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of Ed25519's base point: S and S + this order satisfy the same equation."""


class Forgery(NamedTuple):
    """A bad record: why it must be rejected, how it was made, and what goes to the topic."""

    reason: Reason
    how: str
    key: bytes
    value: bytes | None


class RandomizedKey(SigningKey):
    """Signs with a nonce of its own choice: a second valid signature of one message, which Ed25519 cannot exclude."""

    __slots__ = ("_nonce", "_scalar")

    def __init__(self, seed: bytes, nonce: bytes) -> None:
        super().__init__(seed)
        scalar = bytearray(sha512(seed).digest()[:32])
        scalar[0] &= 248
        scalar[31] = (scalar[31] & 127) | 64
        self._scalar = int.from_bytes(scalar, "little")
        self._nonce = int.from_bytes(sha512(nonce).digest(), "little") % _GROUP_ORDER

    def sign(self, message: bytes) -> bytes:
        point = nacl.bindings.crypto_scalarmult_ed25519_base_noclamp(self._nonce.to_bytes(32, "little"))
        challenge = int.from_bytes(sha512(point + self.public + message).digest(), "little")
        return bytes(point + ((self._nonce + challenge * self._scalar) % _GROUP_ORDER).to_bytes(32, "little"))


class Forger(NamedTuple):
    """What the attacker has. `mine` is a segment of the rogue's, `theirs` one of an honest peer with ops and refs."""

    chance: Random
    rogue: SigningKey
    stranger: SigningKey
    mine: Segment
    theirs: Segment
    authors: list[bytes]

    def forgeries(self) -> Iterator[Forgery]:
        """All bad records, reason by reason."""
        rogue, theirs = self.rogue.public, self.theirs.head.author
        for reason, key, ways in (
            (Reason.MALFORMED, rogue, self._garbage()),
            (Reason.MALFORMED, theirs, self._wrong_sizes()),
            (Reason.MALFORMED, rogue, self._broken_heads()),
            (Reason.TOO_LARGE, rogue, self._too_large()),
            (Reason.UNKNOWN_SWARM, rogue, self._other_swarms()),
            (Reason.UNKNOWN_AUTHOR, self.stranger.public, self._other_authors()),
            (Reason.BAD_SIGNATURE, theirs, self._in_anothers_name()),
            (Reason.BAD_OPS_HASH, theirs, self._other_ops_than_signed()),
            (Reason.BAD_OPS_HASH, rogue, self._wrong_ops_signed()),
            (Reason.BAD_REFS, theirs, self._other_refs_than_signed()),
            (Reason.BAD_REFS, rogue, self._wrong_refs_signed()),
        ):
            for how, value in ways:
                yield Forgery(reason, how, key, value)

    def odd_copies(self) -> Iterator[tuple[str, bytes]]:
        """Other encodings of `theirs`, all of them valid: protobuf allows more than one."""
        value = self.theirs.encode()
        yield "a field that nobody knows", value + b"\x7a\x03new"
        yield (
            "a head given twice, of which the last counts",
            wire_pb2.Segment(head=b"first").SerializeToString() + value,
        )
        parts = [wire_pb2.Segment(refs=self.theirs.refs), wire_pb2.Segment(ops=self.theirs.ops)]
        parts += [wire_pb2.Segment(signature=self.theirs.signature), wire_pb2.Segment(head=self.theirs.head_bytes)]
        yield "fields in another order", b"".join(part.SerializeToString() for part in parts)

    def _garbage(self) -> Iterator[tuple[str, bytes | None]]:
        value = self.theirs.encode()
        yield "a null value", None
        yield "an empty value", b""
        yield "text", b'{"not": "a segment"}'
        for size in (1, 7, 220, 5_000):
            yield f"{size} random bytes", self.chance.randbytes(size)
        for size in (1, 2, 100, len(value) - 1):
            yield f"the first {size} bytes of a segment", value[:size]
        yield "a segment after a byte too many", b"\x00" + value

    def _wrong_sizes(self) -> Iterator[tuple[str, bytes]]:
        head, signature, refs = self.theirs.head_bytes, self.theirs.signature, self.theirs.refs
        yield "a short head", self._message(head=head[:-1])
        yield "a long head", self._message(head=head + b"\0")
        yield "no head", self._message(head=b"")
        yield "a short signature", self._message(signature=signature[:-1])
        yield "no signature", self._message(signature=b"")
        yield "refs that end within a ref", self._message(refs=refs[:-1])

    def _broken_heads(self) -> Iterator[tuple[str, bytes]]:
        yield "a version to come", self._signed(version=2)
        yield "a version of 0", self._signed(version=0)
        yield "a flag", self._signed(flags=1)
        yield "index 0", self._signed(index=0)
        yield "index 0 without a previous", self._signed(index=0, previous=NO_PREVIOUS)
        yield "index 1 with a previous", self._signed(index=1)
        yield "a later index without a previous", self._signed(previous=NO_PREVIOUS)

    def _too_large(self) -> Iterator[tuple[str, bytes]]:
        big = [encode_op(self.chance.randbytes(60_000)) for _ in range(20)]
        yield "a rightly signed record of 1.2 MB", self._signed_ops(big)
        padding = RECORD_BYTES_MAX + 1 - len(self.mine.encode())
        yield "a record one byte over the limit", self.mine.encode() + _unknown_field(padding)
        yield "1.5 MB of random bytes", self.chance.randbytes(1_500_000)
        yield "an op one byte over the limit", self._signed_ops([bytes(OP_BYTES_MAX + 1)])
        yield "an op too many", self._signed_ops([b"\x12\x00"] * (OPS_MAX + 1))

    def _other_swarms(self) -> Iterator[tuple[str, bytes]]:
        other = sha256(b"another swarm").digest()
        yield "a swarm that is not watched", self._signed(swarm=other)
        yield "a stranger of a swarm that is not watched", self._signed_by(self.stranger, swarm=other)
        yield "no swarm", self._signed(swarm=bytes(32))

    def _other_authors(self) -> Iterator[tuple[str, bytes]]:
        yield "a stranger, rightly signed", self._signed_by(self.stranger)
        yield "a stranger's signature of nothing", self._signed_by(self.stranger, signature=bytes(SIGNATURE_BYTES))
        # The neutral point: under it, as a key, a signature of zeros would be easy to make.
        yield "a key of small order", self._message(head=self.mine.head._replace(author=b"\x01" + bytes(31)).encode())

    def _in_anothers_name(self) -> Iterator[tuple[str, bytes]]:
        signature = self.theirs.signature
        scalar = int.from_bytes(signature[32:], "little") + _GROUP_ORDER
        named = seal(self.rogue, self.theirs.head._replace(time_ms=1), self.theirs.ops, self.theirs.refs)
        yield "signed by the rogue in another's name", named.encode()
        yield "signed by a stranger in another's name", self._message(signature=self.stranger.sign(named.head_bytes))
        yield "a bit of the signature flipped", self._message(signature=bytes([signature[0] ^ 1]) + signature[1:])
        yield (
            "a bit of the head flipped",
            self._message(head=self.theirs.head._replace(root=sha256(b"").digest()).encode()),
        )
        yield "a head at another index", self._message(head=self.theirs.head._replace(index=2**63).encode())
        yield "the signature of another segment", self._message(signature=self.mine.signature)
        yield "a signature of zeros", self._message(signature=bytes(SIGNATURE_BYTES))
        yield "the signature's other form", self._message(signature=signature[:32] + scalar.to_bytes(32, "little"))
        both_wrong = {"signature": bytes(SIGNATURE_BYTES), "ops": [], "refs": b""}
        yield "nothing right but the head", self._message(**both_wrong)

    def _other_ops_than_signed(self) -> Iterator[tuple[str, bytes]]:
        ops = list(self.theirs.ops)
        yield "an op changed on its way", self._message(ops=[ops[0] + b"!", *ops[1:]])
        yield "an op left out", self._message(ops=ops[:-1])
        yield "all ops left out", self._message(ops=[])
        yield "an op put in", self._message(ops=[*ops, encode_op(b"put in")])
        yield "ops in another order", self._message(ops=[*ops[1:], ops[0]])
        yield "ops and refs changed", self._message(ops=ops[:-1], refs=b"")

    def _wrong_ops_signed(self) -> Iterator[tuple[str, bytes]]:
        count = self.mine.head.ops_count
        yield "a wrong hash of ops, rightly signed", self._signed(ops_hash=sha256(b"wrong").digest())
        yield "a count of ops too high, rightly signed", self._signed(ops_count=count + 1)
        yield "a count of ops of 0, rightly signed", self._signed(ops_count=0)
        yield "ops linked from nowhere", self._signed(ops_hash=rolling_hash(NO_PREVIOUS, self.mine.ops))

    def _other_refs_than_signed(self) -> Iterator[tuple[str, bytes]]:
        refs = self.theirs.refs
        yield "a ref left out on its way", self._message(refs=refs[:-REF_BYTES])
        yield "a ref put in on its way", self._message(refs=refs + Ref(b"\xff" * 32, 1, b"\xff" * 32).encode())
        yield "a ref changed on its way", self._message(refs=refs[:-1] + bytes([refs[-1] ^ 1]))

    def _wrong_refs_signed(self) -> Iterator[tuple[str, bytes]]:
        others = [author for author in self.authors if author != self.rogue.public]
        some = [Ref(author, 1, sha256(author).digest()) for author in sorted(others)[:2]]
        many = [
            Ref(others[at % len(others)], at + 1, sha256(bytes([0])).digest()) for at in range(len(self.authors) + 1)
        ]
        yield "refs out of order", self._signed_refs(some[1].encode() + some[0].encode())
        yield "a ref repeated", self._signed_refs(some[0].encode() * 2)
        yield "a ref to its own author", self._signed_refs(self.mine.ref.encode())
        yield "more refs than peers", self._signed_refs(encode_refs(many))
        yield "a ref to index 0", self._signed_refs(some[0]._replace(index=0).encode())
        yield "a hash of refs where none are", self._signed(refs=b"", refs_hash=sha256(b"wrong").digest())

    def _signed(self, **changes: Any) -> bytes:
        return self._signed_by(self.rogue, **changes)

    def _signed_by(self, key: SigningKey, **changes: Any) -> bytes:
        """A segment like `mine` with changes to its head and parts, whose head is signed as it stands."""
        parts = {name: changes.pop(name) for name in ("signature", "ops", "refs") if name in changes}
        head: Head = self.mine.head._replace(**{"author": key.public, **changes})
        sealed = seal(key, head, self.mine.ops, self.mine.refs)
        return sealed._replace(**parts).encode()

    def _signed_ops(self, ops: list[bytes]) -> bytes:
        ops_hash = rolling_hash(self.mine.head.previous, ops)
        return self._signed(ops=ops, ops_count=len(ops), ops_hash=ops_hash)

    def _signed_refs(self, refs: bytes) -> bytes:
        return self._signed(refs=refs, refs_hash=sha256(refs).digest())

    def _message(self, **changes: Any) -> bytes:
        """The record of `theirs` with parts of it changed and nothing signed anew."""
        theirs = self.theirs
        parts = {"head": theirs.head_bytes, "signature": theirs.signature, "ops": theirs.ops, "refs": theirs.refs}
        return wire_pb2.Segment(**{**parts, **changes}).SerializeToString()


def _unknown_field(size: int) -> bytes:
    """A protobuf field that nobody knows, of so many bytes in all. Requires 16,388 ≤ size < 2,097,157."""
    length = size - 4
    return b"\x7a" + bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + bytes(length)
