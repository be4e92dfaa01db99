"""The end of a demo: held against the truth, and proofs that others can check."""

from pathlib import Path

import msgspec

from state.evidence import check_evidence
from state.proof import check_proof
from state.verdict import AnyVerdict, Equivocation, Split, Suspect
from streaming.acceptance import Acceptance
from streaming.ending import (
    Findings,
    TrueSplit,
    Truth,
    choose_op,
    evidence,
    has_found_all,
    latency_lines,
    proof,
    verdict_lines,
)
from tests.storylab import watched


def truth() -> Truth:
    told = watched("whole-story").simulation.truth
    splits = [TrueSplit(frozenset(map(frozenset, one.sides)), frozenset(one.suspects)) for one in told.splits]
    return Truth(frozenset(fork.author for fork in told.forks), tuple(splits))


def findings(verdicts: list[AnyVerdict] | None = None) -> Findings:
    story = watched("whole-story")
    return Findings(story.simulation.config, story.verdicts if verdicts is None else verdicts)


def with_split(**changes: object) -> list[AnyVerdict]:
    return [
        msgspec.structs.replace(verdict, **changes) if isinstance(verdict, Split) else verdict
        for verdict in findings().verdicts
    ]


def test_what_the_folds_find_in_the_whole_story_is_its_truth() -> None:
    assert has_found_all(truth(), findings().verdicts)


def test_a_liar_that_was_not_found_or_one_too_many_is_not_the_truth() -> None:
    verdicts = findings().verdicts
    liar = next(verdict for verdict in verdicts if isinstance(verdict, Equivocation))
    assert not has_found_all(truth(), [verdict for verdict in verdicts if verdict is not liar])
    innocent = next(author for side in truth().splits[0].sides for author in side)
    assert not has_found_all(truth(), [*verdicts, msgspec.structs.replace(liar, author=innocent)])


def test_a_split_must_be_found_with_its_sides_and_its_suspect_once_and_must_be_over() -> None:
    (split,) = findings().splits
    near, far = split.sides
    assert not has_found_all(truth(), [verdict for verdict in findings().verdicts if verdict is not split])
    assert not has_found_all(truth(), [*findings().verdicts, split])
    assert not has_found_all(truth(), with_split(ended_ms=None))
    assert not has_found_all(truth(), with_split(sides=((*near, far[0]), far[1:])))
    assert not has_found_all(truth(), with_split(suspects=(Suspect(near[0], "silent"),)))
    assert has_found_all(truth(), with_split(sides=(far, near)))


def test_the_op_of_the_proof_is_a_clients_from_the_midst_of_the_split() -> None:
    (split,) = findings().splits
    choice = choose_op(findings(), watched("whole-story").history)
    assert choice is not None
    assert split.ended_ms is not None
    assert split.opened_ms <= choice.verdict.published_ms < split.ended_ms
    assert choice.verdict.author not in truth().liars
    assert choice.verdict.accepted_ms - choice.verdict.published_ms > 5000


def test_evidence_and_proof_are_files_that_check_out_and_say_how(tmp_path: Path) -> None:
    found = findings()
    parts = [evidence(verdict, found, tmp_path) for verdict in found.equivocations]
    parts.append(proof(found, watched("whole-story").history, tmp_path))
    assert all(part.good for part in parts)
    forkers = [check_evidence(path.read_bytes(), found.config).author for path in tmp_path.glob("evidence-*.json")]
    assert {author.hex() for author in forkers} == truth().liars
    path, words = tmp_path / "proof.json", tmp_path / "explanation.txt"
    proved = check_proof(path.read_bytes(), found.config, forkers)
    assert proved.accepted
    assert proved.op is not None
    text = "\n".join(line for part in parts for line in part.lines)
    assert proved.sentence() in text
    assert f"verify {path} --swarms {tmp_path / 'swarms.yaml'} --evidence" in text
    assert "by majority (5 of 8): known since" in words.read_text(encoding="utf-8")


def test_without_an_accepted_op_of_a_client_there_is_no_proof_and_that_is_said(tmp_path: Path) -> None:
    part = proof(findings([]), watched("whole-story").history, tmp_path)
    assert not part.good
    assert part.lines == ["proof: no op of a client is accepted by majority"]
    assert list(tmp_path.iterdir()) == []


def test_the_summary_counts_what_is_many_and_tells_the_rest() -> None:
    counts, *words = verdict_lines(findings())
    assert counts.startswith("verdicts: 471 known (majority), ")
    assert counts.endswith("1 split")
    assert len(words) == 7
    assert any(line.startswith("  the swarm was split for ") for line in words)


def test_latencies_are_told_by_kind_and_rule() -> None:
    scene = watched("whole-story").scene_at(60)
    *lines, seen = latency_lines(scene.acceptance)
    assert lines[0].startswith("471 noops known by majority: half of them within 0.8 s")
    assert len(lines) == 4
    assert seen.endswith("s later (median)")
    assert list(latency_lines(Acceptance())) == []


def test_only_what_is_accepted_by_the_rule_of_the_proof_is_proved(tmp_path: Path) -> None:
    others = [verdict for verdict in findings().verdicts if getattr(verdict, "rule", "") != "majority"]
    assert not proof(findings(others), watched("whole-story").history, tmp_path).good
