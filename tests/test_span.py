"""Spans: what is packed comes back, in as few bytes as the module says."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from state.head import NO_PREVIOUS
from state.limits import REFERRERS_MAX
from state.segment import Ref
from state.span import SPAN_INDEXES, Claim, ClaimKey, Kept, Span, span_of, unpack_span
from tests.loglab import AUTHORS, SWARM, noop

A, B, _ = AUTHORS
COUNTS_BYTES = 8
HEAD_BYTES_PACKED = 182
LINK_BYTES = 40
CLAIM_BYTES = 83
REFERRER_BYTES = 72


def kept(index: int, previous: bytes, salt: int = 0, seen_ms: int = 7) -> Kept:
    segment = noop(A, index, previous, salt)
    return Kept(segment.head_bytes, segment.id, index, segment.signature, seen_ms)


def contents(span: Span) -> tuple[object, ...]:
    heads = {k.id: (k.head, k.index, k.signature, k.seen_ms, k.previous, k.time_ms) for k in span.heads.values()}
    by_index = {index: sorted(k.id for k in row) for index, row in span.by_index.items()}
    claims = {key: (c.payer, c.since_ms, c.reported, c.referrers) for key, c in span.claims.items()}
    return heads, by_index, claims


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Heads of one span with forks, gaps, parents elsewhere and at the wrong index, and claims about it."""
    span, first = Span(), SPAN_INDEXES * draw(st.sampled_from([0, 1, 5, 2**50])) + 1
    indexes = st.integers(first, first + SPAN_INDEXES - 1)
    for salt in range(draw(st.integers(0, 20))):
        elsewhere = sha256(b"elsewhere%d" % draw(st.integers(0, 2))).digest()
        parent = draw(st.sampled_from([None, *span.heads.values()]))
        index, previous = (draw(indexes), elsewhere) if parent is None else (parent.index + 1, parent.id)
        if parent is not None and draw(st.integers(0, 4)) == 0:
            index = draw(indexes)
        if index == 1:
            previous = NO_PREVIOUS
        if span_of(index) == span_of(first):
            span.add(kept(index, previous, salt, draw(st.integers(0, 2**64 - 1))))
    for number in range(draw(st.integers(0, 4))):
        claim = Claim(B, draw(st.integers(0, 2**63)), reported=draw(st.booleans()))
        for referrer in range(draw(st.integers(0, REFERRERS_MAX + 3))):
            claim.add(Ref(B, referrer + 1, sha256(bytes([referrer])).digest()).encode(), claim.since_ms)
        span.claims[ClaimKey(draw(indexes), sha256(b"claimed%d" % number).digest())] = claim
    return span


@given(spans())
def test_what_is_packed_comes_back(span: Span) -> None:
    packed = span.pack()
    again = unpack_span(packed, SWARM, A)
    assert contents(again) == contents(span)
    assert again.pack() == packed


@given(spans(), st.randoms(use_true_random=False))
def test_the_bytes_do_not_depend_on_the_order_in_which_heads_and_claims_came(span: Span, chance: object) -> None:
    shuffled = Span()
    heads, claims = list(span.heads.values()), list(span.claims.items())
    chance.shuffle(heads)  # type: ignore[attr-defined]
    chance.shuffle(claims)  # type: ignore[attr-defined]
    for head in heads:
        shuffled.add(head)
    shuffled.claims.update(claims)
    assert shuffled.pack() == span.pack()


@given(spans())
def test_a_head_costs_182_bytes_and_40_more_if_its_parent_is_not_right_before_it_in_the_span(span: Span) -> None:
    linked = sum(not span.holds(head.index - 1, head.previous) for head in span.heads.values())
    referrers = sum(len(claim.referrers) for claim in span.claims.values())
    want = COUNTS_BYTES + HEAD_BYTES_PACKED * len(span.heads) + LINK_BYTES * linked
    assert len(span.pack()) == want + CLAIM_BYTES * len(span.claims) + REFERRER_BYTES * referrers


def test_a_full_span_of_an_honest_log_is_about_12_kilobytes() -> None:
    span, previous = Span(), NO_PREVIOUS
    for index in range(1, SPAN_INDEXES + 1):
        span.add(kept(index, previous))
        previous = next(reversed(span.heads))
    assert len(span.pack()) == COUNTS_BYTES + HEAD_BYTES_PACKED * SPAN_INDEXES + LINK_BYTES == 11_696


def test_indexes_count_from_one() -> None:
    assert [span_of(index) for index in (1, SPAN_INDEXES, SPAN_INDEXES + 1)] == [0, 0, 1]


@given(st.lists(st.integers(0, 40), max_size=60), st.randoms(use_true_random=False))
def test_a_claim_keeps_the_least_referrers_in_any_order(numbers: list[int], chance: object) -> None:
    names = [Ref(B, number + 1, bytes(32)).encode() for number in numbers]
    one, other = Claim(B, 9), Claim(B, 9)
    for name in names:
        one.add(name, 9)
    chance.shuffle(names)  # type: ignore[attr-defined]
    for name in names:
        other.add(name, 9)
    assert one.referrers == other.referrers == sorted(set(names))[: REFERRERS_MAX + 1]


def test_a_claim_says_whether_a_referrer_changed_it() -> None:
    claim = Claim(B, 9)
    names = [Ref(B, number, bytes(32)).encode() for number in range(1, REFERRERS_MAX + 3)]
    assert all(claim.add(name, 9) for name in names[: REFERRERS_MAX + 1])
    assert not claim.add(names[0], 9)
    assert not claim.add(names[-1], 9)
    assert claim.add(names[0], 8)
    assert claim.since_ms == 8
