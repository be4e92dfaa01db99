"""The end of a demo: what was found, held against the truth of the story, and proofs that check out offline.

Each part gives lines to print and says whether it went well.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from state import wire_pb2
from state.config import Config, Swarm
from state.evidence import check_evidence, make_evidence
from state.explain import explain
from state.history import History
from state.proof import check_proof
from state.prove import make_accepted
from state.segment import Segment
from state.signedfile import ProofError
from state.verdict import Accepted, AnyVerdict, Belief, Equivocation, Split, Spread, kind_of
from state.words import describe
from streaming.acceptance import Acceptance

RULE = "majority"
"""The rule that the proof is made for."""


class Truth(NamedTuple):
    """What is true about the story: the keys of its liars, and its splits."""

    liars: frozenset[str]
    splits: tuple["TrueSplit", ...]


class TrueSplit(NamedTuple):
    """The peers on each side, and who stands between them, as keys."""

    sides: frozenset[frozenset[str]]
    suspects: frozenset[str]

    def is_found(self, verdict: Split) -> bool:
        """Whether a verdict says the same, and that it is over."""
        sides = frozenset(frozenset(side) for side in verdict.sides)
        accused = {suspect.author for suspect in verdict.suspects}
        return sides == self.sides and self.suspects <= accused and verdict.ended_ms is not None


class Part(NamedTuple):
    """Some lines, and whether what they tell is as it should be."""

    good: bool
    lines: list[str]


class Findings(NamedTuple):
    """All that a demo has to sum up."""

    config: Config
    verdicts: list[AnyVerdict]

    @property
    def swarm(self) -> Swarm:
        return self.config.swarms[0]

    @property
    def splits(self) -> list[Split]:
        return [verdict for verdict in self.verdicts if isinstance(verdict, Split)]

    @property
    def equivocations(self) -> list[Equivocation]:
        return [verdict for verdict in self.verdicts if isinstance(verdict, Equivocation)]


def has_found_all(truth: Truth, verdicts: Iterable[AnyVerdict]) -> bool:
    """Whether the verdicts accuse exactly the liars of the truth, and tell exactly its splits, all of them over."""
    found = list(verdicts)
    liars = {verdict.author for verdict in found if isinstance(verdict, Equivocation)}
    splits = [verdict for verdict in found if isinstance(verdict, Split)]
    pairs = zip(truth.splits, sorted(splits, key=lambda split: split.opened_ms), strict=False)
    return (
        liars == truth.liars
        and len(splits) == len(truth.splits)
        and all(true.is_found(verdict) for true, verdict in pairs)
    )


def verdict_lines(findings: Findings) -> Iterator[str]:
    """How many verdicts there are of each kind, and in words those that are not thousands."""
    counts = Counter(
        f"{kind_of(verdict)} ({verdict.rule})" if isinstance(verdict, Spread) else kind_of(verdict)
        for verdict in findings.verdicts
    )
    yield "verdicts: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    for verdict in findings.verdicts:
        if not isinstance(verdict, Spread | Belief):
            yield f"  {describe(verdict, findings.config)}"


def latency_lines(acceptance: Acceptance) -> Iterator[str]:
    for one in acceptance.latencies():
        p50, p99 = one.p50_ms / 1000, one.p99_ms / 1000
        yield f"{one.noops} noops {one.done} by {one.rule}: half of them within {p50:.1f} s, 99 % within {p99:.1f} s"
    seen_after_ms = acceptance.seen_after_ms()
    if seen_after_ms is not None:
        yield f"the verdict about a noop was on the topic {seen_after_ms / 1000:.1f} s later (median)"


def evidence(verdict: Equivocation, findings: Findings, out: Path) -> Part:
    """Write the evidence against a liar and check it as anyone would: from the file alone."""
    path = evidence_path(verdict, findings.swarm, out)
    path.write_bytes(make_evidence(*verdict.evidence))
    try:
        proved = check_evidence(path.read_bytes(), findings.config)
    except ProofError as error:
        return Part(False, [f"evidence: {path}: refused: {error}"])
    return Part(True, [f"evidence: {path}", f"  checked offline: {proved.sentence()}", _check(path, out)])


def evidence_path(verdict: Equivocation, swarm: Swarm, out: Path) -> Path:
    return out / f"evidence-{swarm.authors[bytes.fromhex(verdict.author)]}.json"


class Choice(NamedTuple):
    """A client's op in a segment that a majority has accepted."""

    verdict: Accepted
    segment: Segment
    number: int
    """Of the op, counted from 1."""


def choose_op(findings: Findings, history: History) -> Choice | None:
    """The client's op that waited longest to be accepted; one from the midst of a split, if there is any."""
    liars = {verdict.author for verdict in findings.equivocations}
    accepted = [
        verdict
        for verdict in findings.verdicts
        if isinstance(verdict, Accepted) and verdict.rule == RULE and verdict.author not in liars
    ]
    amid = [verdict for verdict in accepted if _is_amid_split(verdict, findings)]
    for verdict in sorted(amid or accepted, key=lambda one: (one.published_ms - one.accepted_ms, one.id)):
        segment = history.segments[bytes.fromhex(verdict.id)]
        number = next((at for at, op in enumerate(segment.ops, start=1) if _read(op).origin), None)
        if number is not None:
            return Choice(verdict, segment, number)
    return None


def proof(findings: Findings, history: History, out: Path) -> Part:
    """Prove that a client's op is accepted, write the proof, and check it as anyone would: from the file alone.

    Nobody counts whom there is evidence against.
    """
    choice = choose_op(findings, history)
    if choice is None:
        return Part(False, [f"proof: no op of a client is accepted by {RULE}"])
    forkers = frozenset(bytes.fromhex(verdict.author) for verdict in findings.equivocations)
    verdict, segment, number = choice
    path, words_path = out / "proof.json", out / "explanation.txt"
    try:
        encoded = make_accepted(history, findings.swarm, RULE, segment.id, number, forkers=forkers)
        path.write_bytes(encoded)
        proved = check_proof(path.read_bytes(), findings.config, forkers)
    except ProofError as error:
        return Part(False, [f"proof: refused: {error}"])
    words_path.write_text("\n".join(explain(history, findings.swarm, segment.id)) + "\n", encoding="utf-8")
    op = _read(segment.ops[number - 1])
    waited_s = (verdict.done_ms - verdict.published_ms) / 1000
    text = op.data.decode(errors="replace")
    amid = ", written while the swarm was split," if _is_amid_split(verdict, findings) else ""
    return Part(
        True,
        [
            f"proof: {path}",
            f"  “{text}” by client {op.origin.hex()[:16]}{amid} was accepted {waited_s:.1f} s after it was published",
            f"  checked offline: {proved.sentence()}",
            _check(path, out, [evidence_path(one, findings.swarm, out) for one in findings.equivocations]),
            f"  how it spread from peer to peer, in words: {words_path}",
        ],
    )


def _is_amid_split(verdict: Accepted, findings: Findings) -> bool:
    """Whether a noop was published while the swarm was split."""
    published_ms = verdict.published_ms
    return any(
        split.opened_ms <= published_ms and (split.ended_ms is None or published_ms < split.ended_ms)
        for split in findings.splits
    )


def _read(op: bytes) -> wire_pb2.Op:
    return wire_pb2.Op.FromString(op)


def _check(path: Path, out: Path, against: Iterable[Path] = ()) -> str:
    options = "".join(f" --evidence {one}" for one in against)
    return f"  check it yourself: {_program()} verify {path} --swarms {out / 'swarms.yaml'}{options}"


def _program() -> str:
    """How this program was called, so that a line can be pasted as it stands."""
    return sys.argv[0] if sys.argv[0].endswith("quorumscope") else "quorumscope"
