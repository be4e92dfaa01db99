"""Evidence of a broken promise: two heads that one key signed and that cannot both stand in one log.

An evidence file is JSON with one spelling: what `encode_evidence` gives, byte for byte. It holds nothing that is not
checked, so that one flipped bit anywhere is refused. Who checks it trusts only the keys in a roster of their own.
"""

from typing import NamedTuple

import msgspec

from state.config import Config, Swarm
from state.head import HEAD_BYTES, Head, decode_head, head_id, is_head_signed, is_sound
from state.signing import SIGNATURE_BYTES
from state.verdict import Signed

FORMAT = "quorumscope.evidence.v1"
EVIDENCE_BYTES_MAX = 64 << 10
"""Fifty times the size of an evidence file: what is larger is something else."""


class EvidenceError(ValueError):
    """The evidence proves nothing; the message says where and why, in one sentence."""


class SignedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    head: str
    signature: str


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two signed heads, the one with the lesser id first."""

    format: str
    heads: tuple[SignedHead, SignedHead]


class Proved(NamedTuple):
    """What an evidence file proves."""

    swarm: Swarm
    peer: str
    author: bytes
    heads: tuple[Head, Head]
    ids: tuple[bytes, bytes]

    def sentence(self) -> str:
        one, other = self.heads
        what = f"with index {one.index}" if one.index == other.index else f"after the same segment {one.previous.hex()}"
        return (
            f"{self.peer} (key {self.author.hex()}) of swarm {self.swarm.name} signed two different segments {what}: "
            f"{self.ids[0].hex()} and {self.ids[1].hex()}. An honest peer signs one. It is a lie, a restored backup, "
            "or one key used in two places; the signatures do not tell which."
        )


def make_evidence(one: Signed, other: Signed) -> bytes:
    """The evidence file for two signed heads."""
    first, second = sorted((one, other), key=lambda signed: signed.id)
    heads = (SignedHead(first.head, first.signature), SignedHead(second.head, second.signature))
    return encode_evidence(Evidence(FORMAT, heads))


def encode_evidence(evidence: Evidence) -> bytes:
    return msgspec.json.format(msgspec.json.encode(evidence), indent=2) + b"\n"


def check_evidence(encoded: bytes, config: Config) -> Proved:
    """What the file proves to someone whose swarms and rosters are in `config`; EvidenceError if nothing.

    SPEC: DESIGN, wire format: two heads of one author with the same index or the same previous and different ids.
    """
    evidence = _decode(encoded)
    one, other = (_check_head(signed, at) for at, signed in enumerate(evidence.heads))
    if (one.swarm, one.author) != (other.swarm, other.author):
        raise EvidenceError("heads: expected two of one author in one swarm, got two authors or two swarms")
    ids = (head_id(one.encode()), head_id(other.encode()))
    if ids[0] >= ids[1]:
        raise EvidenceError("heads: expected two different heads, the lesser id first, got the same or another order")
    if one.index != other.index and one.previous != other.previous:
        raise EvidenceError(
            f"heads: expected the same index or the same previous, got indexes {one.index} and {other.index}: "
            "both can stand in one log"
        )
    swarm = next((swarm for swarm in config.swarms if swarm.key == one.swarm), None)
    if swarm is None:
        raise EvidenceError(f"heads[0].swarm: expected a swarm of the configuration, got {one.swarm.hex()}")
    peer = swarm.authors.get(one.author)
    if peer is None:
        raise EvidenceError(f"heads[0].author: expected a key of swarm {swarm.name}'s roster, got {one.author.hex()}")
    return Proved(swarm, peer, one.author, (one, other), ids)


def _decode(encoded: bytes) -> Evidence:
    if len(encoded) > EVIDENCE_BYTES_MAX:
        raise EvidenceError(f"the file: expected at most {EVIDENCE_BYTES_MAX} bytes, got {len(encoded)}")
    try:
        evidence = msgspec.json.decode(encoded, type=Evidence)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceError(f"the file: expected an evidence file, got something else ({error})") from None
    if evidence.format != FORMAT:
        raise EvidenceError(f"format: expected {FORMAT!r}, got {evidence.format!r}")
    canonical = encode_evidence(evidence)
    if canonical != encoded:
        at = next((i for i, (a, b) in enumerate(zip(canonical, encoded, strict=False)) if a != b), len(canonical))
        raise EvidenceError(f"byte {at} of the file: expected the one spelling of this evidence, got another")
    return evidence


def _check_head(signed: SignedHead, at: int) -> Head:
    encoded = _hex(signed.head, HEAD_BYTES, f"heads[{at}].head")
    signature = _hex(signed.signature, SIGNATURE_BYTES, f"heads[{at}].signature")
    head = decode_head(encoded)
    if not is_sound(head):
        raise EvidenceError(f"heads[{at}].head: expected a head of version 1 with a sound index, got another")
    if not is_head_signed(encoded, signature, head.author):
        raise EvidenceError(
            f"heads[{at}].signature: expected a signature by {head.author.hex()} over the head, got none"
        )
    return head


def _hex(text: str, size: int, where: str) -> bytes:
    """Lower-case hex digits only: an upper-case one is another bit in the file."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != size or value.hex() != text:
        raise EvidenceError(f"{where}: expected {2 * size} lower-case hex digits, got {len(text)} characters")
    return value
