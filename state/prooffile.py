"""The proof file: JSON with one spelling, and how to read its parts. What they prove is judged in `state.proof`.

Two forms, told apart by `format`: that a segment is *accepted*, and that it is *known*. Bytes are lower-case hex
digits. A file holds nothing that is not checked: what can be computed from the rest is left out (ids, lines, numbers
of ops), so that one flipped bit anywhere is refused. Record times are not in it: nobody signs them.

    format      quorumscope.accepted.v1 or quorumscope.known.v1
    config      the digest of what the proof takes from the configuration; see `config_digest`
    epoch_ms    the start of the epoch by whose roster and rules the segment is judged
    rule        the name of the rule
    segment     the head and the signature of the segment that this is about
    op          if it is about one op: the op, all ops after it, and all before it or (the light form) their hash
    observers   the other peers that count, sorted by key, each with a signed head and how it leads to the segment
"""

from hashlib import sha256
from typing import Literal

import msgspec

from state.config import Epoch, Rule, Swarm
from state.signedfile import SignedHead, decode_file, encode_file

PROOF_BYTES_MAX = 32 << 20
"""The ops of the largest record as hex digits, and 4,096 observers with seven kilobytes each."""

_CONFIG_DOMAIN = b"quorumscope.proof.config.v1\0"


class Sibling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step from a line up to the root: the hash beside the one reached, and on which side of it."""

    side: Literal["left", "right"]
    digest: str


class Endorser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An observer, its noop, the heads of the author that follow the segment up to the one in its line, and the path
    from that line to its root. Without such heads the line is that of the segment itself.
    """

    noop: SignedHead
    chain: tuple[str, ...]
    path: tuple[Sibling, ...]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A noop on a way down: its head, and its refs if the next one is among them; else it follows the next one."""

    head: str
    refs: str


class Coverer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An observer, its noop, that noop's refs if the next one is among them, and the way from there down."""

    noop: SignedHead
    refs: str
    way: tuple[Step, ...]


class OpPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One op among those of its segment. `before`: the ops before it, or in the light form the hash they lead to."""

    before: tuple[str, ...] | str
    op: str
    after: tuple[str, ...]


class _Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format", kw_only=True):
    config: str
    epoch_ms: int
    rule: str
    segment: SignedHead
    op: OpPart | None


class AcceptedProof(_Proof, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="quorumscope.accepted.v1"):
    observers: tuple[Endorser, ...]


class KnownProof(_Proof, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="quorumscope.known.v1"):
    observers: tuple[Coverer, ...]


Proof = AcceptedProof | KnownProof
_decoder: msgspec.json.Decoder[Proof] = msgspec.json.Decoder(Proof)


def config_digest(swarm: Swarm, epoch: Epoch, rule: Rule) -> str:
    """The digest of what a proof takes from the configuration: swarm, start and roster of the epoch, and the rule.

    Names and what else stands in the file are left out, other swarms and epochs too: a proof stays good when an epoch
    is added. But who has another roster or another rule in mind for that epoch has another digest.
    """
    fixed = swarm.key + epoch.start_ms.to_bytes(8, signed=True) + rule.k.to_bytes(8) + rule.n.to_bytes(8)
    return sha256(_CONFIG_DOMAIN + fixed + b"".join(epoch.members) + rule.name.encode()).hexdigest()


def encode_proof(proof: Proof) -> bytes:
    return encode_file(proof)


def decode_proof(encoded: bytes) -> Proof:
    """Read a proof file; ProofError if it is none, or spelled in another way than `encode_proof` does."""
    return decode_file(encoded, _decoder, PROOF_BYTES_MAX, "a proof file")
