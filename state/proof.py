"""What a proof file proves, to someone who trusts only the keys in a configuration of their own.

SPEC: DESIGN, proofs. In this order, and each refusal names its place in the file:
1. The segment is signed by its author, in a swarm of the verifier's file. Its epoch, rule and roster come from that
   file too, and the digest must say that the prover meant the same. The author is a peer of that roster.
2. The op, if one is named, leads with its fellows by the rolling hash to the `ops_hash` that the author signed.
3. Each observer is another peer of the roster, counts once, and signed a head of the same swarm.
4. *Accepted*: a path leads from a line to the `root` of that head. The line is the segment's own, or that of a later
   noop of its author, whose heads are given. These need no signatures: the line holds the id of the last of them, and
   each `previous` the id of the one before, so what the observer signed fixes them all, down to the segment. A line for
   a later noop will do, because what conflicts with the segment conflicts with all that follows it.
   *Known*: each noop on the way names the next by author, index and id, as its `previous` or among its refs, and the
   observer's signature fixes them all in the same way.
5. The author and the observers, less those that are proven forkers, are at least the k that the rule asks for.

A path fixes its line, not how many other lines the tree has, nor that no other line is of the same author. Who signs a
root that its past does not bear is a liar as much as who forks, and counts among those that the sentence tolerates.
"""

from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import NamedTuple

from state import merkle
from state.config import Config, Epoch, Rule, Swarm
from state.head import HASH_BYTES, Head
from state.prooffile import AcceptedProof, Coverer, Endorser, OpPart, Proof, config_digest, decode_proof
from state.segment import REF_BYTES, Ref, decode_refs, rolling_hash
from state.signedfile import ProofError, ReadHead, read_head, read_hex, read_hexes, read_signed_head


class _Basis(NamedTuple):
    """What the verifier's own file says about the swarm and the epoch of a proof."""

    swarm: Swarm
    epoch: Epoch
    rule: Rule


class ProvedOp(NamedTuple):
    """An op whose place in its segment is proved: it is the `number`-th of `ops_count`, counted from 1."""

    number: int
    ops_count: int
    op: bytes


class ProvedSpread(NamedTuple):
    """What a proof file proves: how far a segment, or one of its ops, has come."""

    accepted: bool
    swarm: Swarm
    epoch: Epoch
    rule: Rule
    segment: Ref
    op: ProvedOp | None
    observers: tuple[bytes, ...]
    """The peers that count, sorted by key."""
    forkers: tuple[bytes, ...]
    """The peers of the proof that do not count, because evidence was given against them."""

    def sentence(self) -> str:
        author, rule = self._name(self.segment.author), self.rule
        done = "accepted" if self.accepted else "known"
        did = "signed that they endorse it" if self.accepted else "signed noops whose pasts hold it"
        who = ", ".join(sorted(map(self._name, self.observers)))
        left_out = f" Proven forkers do not count: {', '.join(map(self._name, self.forkers))}." if self.forkers else ""
        return (
            f"{self._what()}segment {self.segment.index} of {author} (id {self.segment.id.hex()}) in swarm "
            f"{self.swarm.name} is {done} by the rule {rule.name}: {len(self.observers)} of {rule.n} peers {did}, "
            f"{rule.k} are asked for ({who}).{left_out} {self._tolerance(author)} The roster is that of the epoch that "
            f"starts at {self.epoch.start.isoformat()}; that the segment was published in it is not signed by anybody, "
            "it stands here as the file says."
        )

    def _what(self) -> str:
        if self.op is None:
            return ""
        number, ops_count, op = self.op
        return f"op {number} of {ops_count} ({len(op)} bytes, SHA-256 {sha256(op).hexdigest()}) in "

    def _tolerance(self, author: str) -> str:
        liars = self.rule.tolerates
        if self.accepted:
            return (
                f"Nothing that conflicts with it can be accepted too unless at least {liars + 1} of the {self.rule.n} "
                f"lie, {author} included: the rule tolerates {liars}."
            )
        count = len(self.observers)
        return (
            f"An honest peer signs for what it holds: unless all {count} lie, an honest peer has it, so this tolerates "
            f"{count - 1} liars. It does not say that nobody has another version."
        )

    def _name(self, key: bytes) -> str:
        return self.swarm.authors[key]


def check_proof(encoded: bytes, config: Config, forkers: Collection[bytes] = frozenset()) -> ProvedSpread:
    """What the file proves to someone whose swarms and rosters are in `config`; ProofError if nothing.

    `forkers` are the keys that evidence was given against: they do not count.
    """
    proof = decode_proof(encoded)
    segment = read_signed_head(proof.segment, "segment")
    basis = _check_basis(proof, segment.head, config)
    op = None if proof.op is None else _check_op(proof.op, segment.head)
    observers = {segment.head.author, *_check_observers(proof, segment, basis)}
    counted = observers.difference(forkers)
    if len(counted) < basis.rule.k:
        out = ", ".join(sorted(basis.swarm.authors[key] for key in observers - counted))
        why = f": {out} signed two versions of a log and cannot be counted" if out else ""
        raise ProofError(
            f"observers: expected {basis.rule.k} peers with the author, as the rule {basis.rule.name} asks, "
            f"got {len(counted)}{why}"
        )
    left_out = tuple(sorted(observers - counted))
    accepted = isinstance(proof, AcceptedProof)
    return ProvedSpread(accepted, *basis, segment.ref, op, tuple(sorted(counted)), left_out)


def _check_basis(proof: Proof, head: Head, config: Config) -> _Basis:
    """SPEC: DESIGN, proofs: the rule, roster and epoch come from the verifier's file."""
    swarm = next((swarm for swarm in config.swarms if swarm.key == head.swarm), None)
    if swarm is None:
        raise ProofError(f"segment.head: expected a swarm of your file, got {head.swarm.hex()}")
    epoch = next((epoch for epoch in swarm.epochs if epoch.start_ms == proof.epoch_ms), None)
    if epoch is None:
        raise ProofError(f"epoch_ms: expected the start of an epoch of swarm {swarm.name}, got {proof.epoch_ms}")
    rule = epoch.rule(proof.rule)
    if rule is None:
        rules = ", ".join(rule.name for rule in epoch.thresholds)
        raise ProofError(f"rule: expected a rule of that epoch ({rules}), got {proof.rule!r}")
    digest = config_digest(swarm, epoch, rule)
    if proof.config != digest:
        raise ProofError(
            f"config: expected {digest}, got {proof.config!r}: it was made for another roster, or another rule, "
            "than your file has for that epoch"
        )
    if head.author not in epoch.members:
        raise ProofError(f"segment.head: expected an author of that epoch's roster, got {head.author.hex()}")
    return _Basis(swarm, epoch, rule)


def _check_op(part: OpPart, head: Head) -> ProvedOp:
    """That the op stands in the segment: the hash runs forward, so what comes after it is needed in any form."""
    op, after = read_hex(part.op, "op.op"), read_hexes(part.after, "op.after")
    number = head.ops_count - len(after)
    if isinstance(part.before, str):
        before = read_hex(part.before, "op.before", HASH_BYTES)
        fits = number > 1 or (number == 1 and before == head.previous)
    else:
        ops_before = read_hexes(part.before, "op.before")
        before = rolling_hash(head.previous, ops_before)
        fits = number == len(ops_before) + 1
    if not fits:
        raise ProofError(f"op: expected as many ops as the head counts, {head.ops_count}, got more or fewer")
    if rolling_hash(before, [op, *after]) != head.ops_hash:
        raise ProofError("op: expected ops that lead to the hash in the head, got others")
    return ProvedOp(number, head.ops_count, op)


def _check_observers(proof: Proof, segment: ReadHead, basis: _Basis) -> Iterator[bytes]:
    before = b""
    observers: tuple[Endorser | Coverer, ...] = proof.observers
    for at, observer in enumerate(observers):
        where = f"observers[{at}]"
        noop = read_signed_head(observer.noop, f"{where}.noop")
        author = noop.head.author
        _check_swarm(noop, segment, f"{where}.noop")
        if author not in basis.epoch.members:
            raise ProofError(f"{where}.noop: expected a peer of that epoch's roster, got {author.hex()}")
        if author == segment.head.author:
            raise ProofError(f"{where}.noop: expected another peer than the author, who counts already, got the author")
        if author == before:
            raise ProofError(f"{where}.noop: expected each peer once, got {author.hex()} a second time")
        if author < before:
            raise ProofError(f"{where}.noop: expected the peers sorted by key, got {author.hex()} after a greater one")
        before = author
        if isinstance(observer, Endorser):
            _check_endorser(observer, noop, segment, where)
        else:
            _check_coverer(observer, noop, segment, where)
        yield author


def _check_endorser(observer: Endorser, noop: ReadHead, segment: ReadHead, where: str) -> None:
    line = segment
    for at, text in enumerate(observer.chain):
        upper = read_head(text, f"{where}.chain[{at}]")
        _check_swarm(upper, segment, f"{where}.chain[{at}]")
        _check_previous(upper, line, f"{where}.chain[{at}]")
        line = upper
    node = merkle.leaf_hash(line.ref.encode())
    for at, sibling in enumerate(observer.path):
        other = read_hex(sibling.digest, f"{where}.path[{at}].digest", HASH_BYTES)
        node = merkle.node_hash(other, node) if sibling.side == "left" else merkle.node_hash(node, other)
    if node != noop.head.root:
        raise ProofError(
            f"{where}.path: expected a path from the line of noop {line.head.index} to the root that the "
            "observer signed, got a path to another root"
        )


def _check_coverer(observer: Coverer, noop: ReadHead, segment: ReadHead, where: str) -> None:
    upper, refs, place = noop, observer.refs, where
    for at, step in enumerate(observer.way):
        lower = read_head(step.head, f"{where}.way[{at}].head")
        _check_swarm(lower, segment, f"{where}.way[{at}].head")
        _check_hop(upper, refs, lower, place)
        upper, refs, place = lower, step.refs, f"{where}.way[{at}]"
    _check_hop(upper, refs, segment, place)


def _check_hop(upper: ReadHead, refs: str, lower: ReadHead, where: str) -> None:
    """SPEC: DESIGN, proofs: every hop by id, author and index."""
    if upper.head.author == lower.head.author:
        _check_previous(upper, lower, where)
        if refs:
            raise ProofError(f"{where}.refs: expected none, because the next noop is the previous one, got some")
        return
    encoded = read_hex(refs, f"{where}.refs")
    if len(encoded) % REF_BYTES or sha256(encoded).digest() != upper.head.refs_hash:
        raise ProofError(f"{where}.refs: expected the refs whose hash is in the head, got others")
    if lower.ref not in decode_refs(encoded):
        raise ProofError(f"{where}.refs: expected the next noop among them, by author, index and id, got it not")


def _check_previous(upper: ReadHead, lower: ReadHead, where: str) -> None:
    head = upper.head
    if (head.author, head.index, head.previous) != (lower.head.author, lower.head.index + 1, lower.id):
        raise ProofError(f"{where}: expected the head that follows noop {lower.head.index} of its author, got another")


def _check_swarm(read: ReadHead, segment: ReadHead, where: str) -> None:
    """SPEC: DESIGN, proofs: the swarm in every head."""
    if read.head.swarm != segment.head.swarm:
        raise ProofError(f"{where}: expected a head of the same swarm, got one of swarm {read.head.swarm.hex()}")
