"""Evidence of a broken promise: two heads that one key signed and that cannot both stand in one log.

An evidence file is JSON with one spelling: what `make_evidence` gives, byte for byte. It holds nothing that is not
checked, so that one flipped bit anywhere is refused. Who checks it trusts only the keys in a roster of their own.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from state.config import Config, Swarm
from state.head import Head
from state.signedfile import ProofError, SignedHead, decode_file, encode_file, read_signed_head
from state.verdict import AnyVerdict, Equivocation, Fork, Signed, versions_of

FORMAT = "quorumscope.evidence.v1"
EVIDENCE_BYTES_MAX = 64 << 10
"""Fifty times the size of an evidence file: what is larger is something else."""


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="format", tag=FORMAT):
    """Two signed heads, the one with the lesser id first."""

    heads: tuple[SignedHead, SignedHead]


_decoder = msgspec.json.Decoder(Evidence)


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
    return encode_file(Evidence(heads))


def find_evidence(verdicts: Iterable[AnyVerdict], author: str) -> bytes | None:
    """The evidence file against an author: from its equivocation, or from a fork whose branches have other indexes."""
    of_author = [
        verdict for verdict in verdicts if isinstance(verdict, Equivocation | Fork) and verdict.author == author
    ]
    first = min(of_author, key=lambda verdict: isinstance(verdict, Fork), default=None)
    return None if first is None else make_evidence(*versions_of(first)[:2])


def check_evidence(encoded: bytes, config: Config) -> Proved:
    """What the file proves to someone whose swarms and rosters are in `config`; ProofError if nothing.

    SPEC: DESIGN, wire format: two heads of one author with the same index or the same previous and different ids.
    """
    evidence = decode_file(encoded, _decoder, EVIDENCE_BYTES_MAX, "an evidence file")
    (one, first), (other, second) = (read_signed_head(head, f"heads[{at}]") for at, head in enumerate(evidence.heads))
    if (one.swarm, one.author) != (other.swarm, other.author):
        raise ProofError("heads: expected two of one author in one swarm, got two authors or two swarms")
    ids = (first, second)
    if ids[0] >= ids[1]:
        raise ProofError("heads: expected two different heads, the lesser id first, got the same or another order")
    if one.index != other.index and one.previous != other.previous:
        raise ProofError(
            f"heads: expected the same index or the same previous, got indexes {one.index} and {other.index}: "
            "both can stand in one log"
        )
    swarm = next((swarm for swarm in config.swarms if swarm.key == one.swarm), None)
    if swarm is None:
        raise ProofError(f"heads[0].swarm: expected a swarm of the configuration, got {one.swarm.hex()}")
    peer = swarm.authors.get(one.author)
    if peer is None:
        raise ProofError(f"heads[0].author: expected a key of swarm {swarm.name}'s roster, got {one.author.hex()}")
    return Proved(swarm, peer, one.author, (one, other), ids)
