"""Making proofs: who is called as an observer, and how each of them leads to the segment.

- The author counts by the segment itself. The others are taken by (time of their first noop that does it, key), as
  verdicts do, until the rule has its k; peers that the caller has evidence against are not called.
- For *accepted*, a noop of an observer is of use only if the root that it signed fits what its past bears. If its first
  one does not fit, a later one of its log is taken, and if none fits, another observer.
- For *known*, the first noop that covers the segment is taken, with a shortest way down.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from state import merkle
from state.config import Epoch, Rule, Swarm
from state.history import First, History, Standing, in_order
from state.lines import Lines, fits_root
from state.prooffile import (
    PROOF_BYTES_MAX,
    AcceptedProof,
    Coverer,
    Endorser,
    KnownProof,
    OpPart,
    Proof,
    Sibling,
    Step,
    config_digest,
    encode_proof,
)
from state.segment import Ref, Segment, rolling_hash
from state.signedfile import ProofError, SignedHead


class _Case(NamedTuple):
    """What is to be proved, and who may be called for it."""

    swarm: Swarm
    epoch: Epoch
    rule: Rule
    standing: Standing
    may_count: frozenset[bytes]
    """The peers of the roster, less those with evidence against them."""

    @property
    def author(self) -> bytes:
        return self.standing.noop.head.author

    @property
    def wanted(self) -> int:
        """How many observers are needed besides the author, who counts too unless there is evidence against it."""
        return self.rule.k - (self.author in self.may_count)


class _Line(NamedTuple):
    """A noop whose signed root fits, and all its lines."""

    noop: Segment
    lines: list[Ref]


def make_accepted(
    history: History,
    swarm: Swarm,
    rule: str,
    noop: bytes,
    op: int | None = None,
    *,
    light: bool = False,
    forkers: Collection[bytes] = frozenset(),
) -> bytes:
    """The file that proves a noop of `history`, or its op number `op`, accepted by a rule; ProofError if it is not."""
    case = _case(history, swarm, rule, noop, forkers)
    if case.author not in case.standing.endorsed_by:
        raise _unendorsed(case)
    fitting = _fitting(case)
    endorsers = _others(case, case.standing.endorsed_by)
    called = [key for key in endorsers if key in fitting][: case.wanted]
    if len(called) < case.wanted:
        unfit = [key for key in endorsers if key not in fitting]
        raise _too_few(case, "endorse", len(called), _why_unfit(case, unfit))
    observers = tuple(_endorser(case, fitting[key]) for key in sorted(called))
    return _encoded(AcceptedProof(**_fields(case, op, light), observers=observers))


def make_known(
    history: History,
    swarm: Swarm,
    rule: str,
    noop: bytes,
    op: int | None = None,
    *,
    light: bool = False,
    forkers: Collection[bytes] = frozenset(),
) -> bytes:
    """The file that proves a noop of `history`, or its op number `op`, known by a rule; ProofError if it is not."""
    case = _case(history, swarm, rule, noop, forkers)
    covered_by = case.standing.covered_by
    called = _others(case, covered_by)[: case.wanted]
    if len(called) < case.wanted:
        raise _too_few(case, "cover", len(called), "")
    observers = tuple(_coverer(case.standing.way_from(covered_by[key].id)) for key in sorted(called))
    return _encoded(KnownProof(**_fields(case, op, light), observers=observers))


def _case(history: History, swarm: Swarm, rule_name: str, noop: bytes, forkers: Collection[bytes]) -> _Case:
    author, time_ms = history.segments[noop].head.author, history.times_ms[noop]
    epoch = swarm.epoch_at(time_ms)
    if epoch is None:
        raise ProofError(f"the segment was published before the first epoch of swarm {swarm.name}: no rule judges it")
    if author not in epoch.members:
        name, start = swarm.authors[author], epoch.start.isoformat()
        raise ProofError(f"{name} is not in the roster of the epoch that starts at {start}: no rule judges its segment")
    rule = epoch.rule(rule_name)
    if rule is None:
        rules = ", ".join(rule.name for rule in epoch.thresholds)
        raise ProofError(f"the epoch of the segment has no rule {rule_name!r}: it has {rules}")
    return _Case(swarm, epoch, rule, Standing(history, noop), frozenset(epoch.members).difference(forkers))


def _others(case: _Case, firsts: Mapping[bytes, First]) -> list[bytes]:
    """The peers besides the author that did it and may count, in the order in which verdicts count them."""
    return [key for key in in_order(firsts, case.author, case.may_count) if key != case.author]


def _fitting(case: _Case) -> dict[bytes, _Line]:
    """By peer, the first noop of its log that endorses the segment and signed the root that fits its past."""
    standing, found = case.standing, {}
    waiting = set(_others(case, standing.endorsed_by))
    lines = Lines(standing.history)
    for noop, past in lines.pasts() if waiting else ():
        observer = noop.head.author
        if observer in waiting and noop.id in standing.endorsing:
            endorsed = lines.lines(noop, past)
            if fits_root(noop, endorsed):
                found[observer] = _Line(noop, endorsed)
                waiting.remove(observer)
                if not waiting:
                    break
    return found


def _endorser(case: _Case, line: _Line) -> Endorser:
    """The observer's line of the author, at the segment or above it, and the author's heads between the two."""
    at = next(at for at, ref in enumerate(line.lines) if ref.author == case.author)
    chain = []
    for segment in case.standing.history.chain_below(line.lines[at].id):
        if segment.id == case.standing.noop.id:
            break
        chain.append(segment.head_bytes.hex())
    leaves = [ref.encode() for ref in line.lines]
    return Endorser(_signed(line.noop), tuple(reversed(chain)), _path(leaves, at))


def _path(leaves: list[bytes], at: int) -> tuple[Sibling, ...]:
    """The audit path with the side of each hash. The side says all that a tree's size would, and is itself proved."""
    hashes, steps, last = iter(merkle.path(leaves, at)), [], len(leaves) - 1
    while last > 0:
        if at % 2 or at < last:
            steps.append(Sibling("left" if at % 2 else "right", next(hashes).hex()))
        at, last = at >> 1, last >> 1
    return tuple(steps)


def _coverer(way: list[Segment]) -> Coverer:
    """The observer's noop and the noops below it, each with its refs where the way goes on by one of them."""
    steps = [
        Step(upper.head_bytes.hex(), "" if upper.head.author == lower.head.author else upper.refs.hex())
        for upper, lower in pairwise(way)
    ]
    return Coverer(_signed(way[0]), steps[0].refs, tuple(steps[1:]))


def _fields(case: _Case, op: int | None, light: bool) -> dict[str, Any]:
    """What both kinds of proof begin with."""
    return {
        "config": config_digest(case.swarm, case.epoch, case.rule),
        "epoch_ms": case.epoch.start_ms,
        "rule": case.rule.name,
        "segment": _signed(case.standing.noop),
        "op": None if op is None else _op_part(case.standing.noop, op, light),
    }


def _encoded(proof: Proof) -> bytes:
    encoded = encode_proof(proof)
    if len(encoded) > PROOF_BYTES_MAX:
        raise ProofError(f"the proof would have {len(encoded)} bytes, more than the {PROOF_BYTES_MAX} of a proof file")
    return encoded


def _op_part(segment: Segment, number: int, light: bool) -> OpPart:
    ops = segment.ops
    if not 1 <= number <= len(ops):
        raise ProofError(f"op: expected 1 to {len(ops)}, the ops of the segment, got {number}")
    before, op, after = ops[: number - 1], ops[number - 1], ops[number:]
    hidden = rolling_hash(segment.head.previous, before).hex() if light else tuple(each.hex() for each in before)
    return OpPart(hidden, op.hex(), tuple(each.hex() for each in after))


def _signed(segment: Segment) -> SignedHead:
    return SignedHead(segment.head_bytes.hex(), segment.signature.hex())


def _too_few(case: _Case, did: str, called: int, why: str) -> ProofError:
    counted = called + (case.author in case.may_count)
    author = "included" if case.author in case.may_count else "left out"
    segment = f"segment {case.standing.noop.head.index} of {case.swarm.authors[case.author]}"
    asked = f"the rule {case.rule.name} asks for {case.rule.k} of {case.rule.n} peers that {did} it"
    return ProofError(f"{segment} cannot be proved: {asked}, and {counted} can be called, the author {author}{why}")


def _why_unfit(case: _Case, unfit: list[bytes]) -> str:
    if not unfit:
        return ""
    return (
        f"; {len(unfit)} more signed roots that do not fit what their pasts bear, {case.swarm.authors[unfit[0]]} first"
    )


def _unendorsed(case: _Case) -> ProofError:
    """Nobody endorses a segment whose own past is not complete, or holds what conflicts with it."""
    gap = case.standing.history.gap(case.standing.noop.id)
    segment = f"segment {case.standing.noop.head.index} of {case.swarm.authors[case.author]}"
    if gap is None:
        return ProofError(f"{segment} cannot be proved: its own past holds another version of its author's log")
    name = case.swarm.authors.get(gap.missing.author, gap.missing.author.hex()[:16])
    return ProofError(f"{segment} cannot be proved: index {gap.missing.index} of {name} is missing from its own past")
