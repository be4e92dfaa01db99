"""Evidence files: what they prove, and that nothing but the real thing is accepted."""

import msgspec
import pytest

from state.config import Config, parse_config
from state.evidence import check_evidence, make_evidence
from state.head import NO_PREVIOUS
from state.segment import Segment, build
from state.signedfile import ProofError
from state.signing import SigningKey
from state.verdict import Signed

SWARM = bytes(range(32))
LIAR, OTHER, STRANGER = (SigningKey(bytes([n]) * 32) for n in (1, 2, 3))


def config(*roster: SigningKey, swarm: bytes = SWARM) -> Config:
    peers = "".join(f"          peer-{at}: '{key.public.hex()}'\n" for at, key in enumerate(roster, start=1))
    return parse_config(
        f"swarms:\n  - id: '{swarm.hex()}'\n    name: lab\n    epochs:\n"
        f"      - start: 2020-01-01T00:00:00Z\n        roster:\n{peers}"
    )


def segment(key: SigningKey, index: int, previous: bytes, text: bytes, swarm: bytes = SWARM) -> Segment:
    return build(key, swarm=swarm, index=index, previous=previous, time_ms=index, ops=[text], root=bytes(32))


def signed(part: Segment) -> Signed:
    return Signed(part.id.hex(), part.head_bytes.hex(), part.signature.hex(), 0)


FIRST = segment(LIAR, 1, NO_PREVIOUS, b"first")
ONE, TWO = (segment(LIAR, 2, FIRST.id, text) for text in (b"heads", b"tails"))
ROSTER = config(LIAR, OTHER)
EVIDENCE = make_evidence(signed(ONE), signed(TWO))


def refusal(encoded: bytes, roster: Config = ROSTER) -> str:
    with pytest.raises(ProofError) as caught:
        check_evidence(encoded, roster)
    return str(caught.value)


def test_two_heads_with_one_index_prove_a_broken_promise_in_words() -> None:
    proved = check_evidence(EVIDENCE, ROSTER)
    assert proved.peer == "peer-1"
    assert {*proved.ids} == {ONE.id, TWO.id}
    assert "two different segments with index 2" in proved.sentence()
    assert "restored backup" in proved.sentence()


def test_the_order_in_which_the_heads_are_given_does_not_matter() -> None:
    assert make_evidence(signed(TWO), signed(ONE)) == EVIDENCE


def test_two_heads_after_one_segment_with_different_indexes_prove_it_too() -> None:
    odd = segment(LIAR, 7, FIRST.id, b"leap")
    assert "after the same segment" in check_evidence(make_evidence(signed(ONE), signed(odd)), ROSTER).sentence()


def test_every_single_flipped_bit_is_refused_and_its_place_is_named() -> None:
    for at in range(len(EVIDENCE)):
        for bit in range(8):
            flipped = EVIDENCE[:at] + bytes([EVIDENCE[at] ^ 1 << bit]) + EVIDENCE[at + 1 :]
            assert refusal(flipped).partition(":")[0], (at, bit)


def test_a_flip_in_a_head_is_blamed_on_its_signature() -> None:
    head = ONE.head_bytes.hex()
    other = head[:-1] + ("0" if head[-1] != "0" else "1")
    assert "signature" in refusal(EVIDENCE.replace(head.encode(), other.encode()))


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        (ONE, ONE, "two different heads"),
        (FIRST, ONE, "both can stand in one log"),
        (ONE, segment(OTHER, 2, FIRST.id, b"x"), "one author"),
        (ONE, segment(LIAR, 2, FIRST.id, b"x", swarm=bytes(32)), "one author in one swarm"),
    ],
)
def test_pairs_that_prove_nothing_are_refused(one: Segment, two: Segment, words: str) -> None:
    assert words in refusal(make_evidence(signed(one), signed(two)))


def test_a_key_or_a_swarm_that_the_verifier_does_not_know_is_refused() -> None:
    assert "roster" in refusal(EVIDENCE, config(OTHER))
    assert "a swarm of the configuration" in refusal(EVIDENCE, config(LIAR, swarm=bytes([9]) * 32))


def test_a_signature_by_someone_else_is_refused() -> None:
    forged = signed(TWO)
    forged = msgspec.structs.replace(forged, signature=STRANGER.sign(b"anything").hex())
    assert "signature" in refusal(make_evidence(signed(ONE), forged))


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}", b"\xff" * 100, b"x" * 100_000, EVIDENCE[:-1], EVIDENCE * 2]
)
def test_what_is_no_evidence_file_is_refused_in_one_sentence(content: bytes) -> None:
    assert "\n" not in refusal(content)
