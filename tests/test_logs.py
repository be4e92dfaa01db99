"""The logs fold: what it finds is a function of the set of segments, and is what brute force finds."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state import limits
from state.fold import Arrival, Arrivals
from state.head import NO_PREVIOUS
from state.logs import LogsFold
from state.segment import Ref, Segment
from state.verdict import Equivocation, Fork, Limit, Missing, decode_verdict
from tests.loglab import (
    AUTHORS,
    GRACE_MS,
    START_MS,
    Copy,
    batches_of,
    histories,
    lab_config,
    noop,
    oracle,
    run_logs,
    since_config,
)

A, B, C = AUTHORS
CONFIG = lab_config()
slow_ok = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def chain(author: bytes, length: int, *, start: int = 1, previous: bytes = NO_PREVIOUS, salt: int = 0) -> list[Copy]:
    copies = []
    for index in range(start, start + length):
        segment = noop(author, index, previous, salt, time_ms=START_MS + index)
        copies.append(Copy(segment, START_MS + index))
        previous = segment.id
    return copies


def later(copies: list[Copy], by_ms: int = 10 * GRACE_MS) -> Copy:
    """A harmless segment of another author that moves the clock on."""
    end_ms = max(copy.time_ms for copy in copies) + by_ms
    return Copy(noop(C, 1, NO_PREVIOUS, time_ms=end_ms), end_ms)


def verdicts(*batches: list[Copy]) -> list:
    return [decode_verdict(value) for value in run_logs(CONFIG, list(batches)).values()]


@pytest.mark.slow
@slow_ok
@given(histories())
def test_the_fold_finds_what_brute_force_finds(copies: list[Copy]) -> None:
    assert run_logs(CONFIG, [copies]) == oracle(CONFIG, copies)


@pytest.mark.slow
@slow_ok
@given(st.data())
def test_any_order_duplication_and_split_into_batches_gives_the_same_bytes(data: st.DataObject) -> None:
    copies = data.draw(histories())
    clocks = data.draw(st.lists(st.integers(START_MS, START_MS + 6 * GRACE_MS), min_size=1, max_size=5))
    batches = data.draw(st.composite(batches_of)(copies))
    assert run_logs(CONFIG, batches, clocks=sorted(clocks)) == oracle(CONFIG, copies)


@pytest.mark.slow
@slow_ok
@given(st.data())
def test_where_the_beginning_is_gone_any_order_gives_what_brute_force_finds(data: st.DataObject) -> None:
    config = since_config(CONFIG, START_MS + data.draw(st.integers(-1, 5 * GRACE_MS)))
    copies = data.draw(histories())
    clocks = data.draw(st.lists(st.integers(START_MS, START_MS + 6 * GRACE_MS), min_size=1, max_size=5))
    batches = data.draw(st.composite(batches_of)(copies))
    assert run_logs(config, batches, clocks=sorted(clocks)) == oracle(config, copies)


def test_an_honest_log_gives_no_verdict() -> None:
    assert verdicts(chain(A, 200), [later(chain(A, 200))]) == []


def test_a_fork_names_both_branches_and_an_equivocation_both_heads() -> None:
    trunk = chain(A, 3)
    one = chain(A, 2, start=4, previous=trunk[-1].segment.id, salt=1)
    other = chain(A, 2, start=4, previous=trunk[-1].segment.id, salt=2)
    found = verdicts(trunk + one, other)
    assert sorted(type(v).__name__ for v in found) == ["Equivocation", "Fork"]
    ids = sorted([one[0].segment.id.hex(), other[0].segment.id.hex()])
    fork = next(v for v in found if isinstance(v, Fork))
    assert [branch.id for branch in fork.branches] == ids
    assert fork.previous == trunk[-1].segment.id.hex()
    equivocation = next(v for v in found if isinstance(v, Equivocation))
    assert equivocation.index == 4
    assert [head.id for head in equivocation.evidence] == ids


def test_a_fork_at_index_one_is_found_after_five_thousand_segments() -> None:
    log = chain(A, 5000)
    batches = [log[at : at + 700] for at in range(0, len(log), 700)]
    found = verdicts(*batches, chain(A, 1, salt=9))
    assert {type(v) for v in found} == {Fork, Equivocation}
    assert next(v.index for v in found if isinstance(v, Equivocation)) == 1


def test_a_gap_is_missing_after_its_grace_and_withdrawn_when_it_is_filled() -> None:
    log = chain(A, 5)
    gap = [*log[:2], *log[3:]]
    assert verdicts(gap) == []
    (missing,) = verdicts(gap, [later(log)])
    assert isinstance(missing, Missing)
    assert (missing.index, missing.id) == (3, log[2].segment.id.hex())
    assert [referrer.index for referrer in missing.referrers] == [4]
    assert verdicts(gap, [later(log)], [log[2]]) == []


def test_a_ref_to_nothing_is_missing_and_disputed_if_another_noop_stands_there() -> None:
    log = chain(A, 3)
    invented = [Ref(A, 2, b"\1" * 32), Ref(A, 9, b"\2" * 32)]
    liar = Copy(noop(B, 1, NO_PREVIOUS, refs=invented, time_ms=START_MS), START_MS)
    found = {v.index: v for v in verdicts([*log, liar, later(log)])}
    assert {index: v.disputed for index, v in found.items()} == {2: True, 9: False}
    assert all(v.referrers[0].author == B.hex() for v in found.values())


def test_more_referrers_than_a_verdict_names_are_counted_as_more() -> None:
    invented = Ref(A, 7, b"\1" * 32)
    copies, previous = [], NO_PREVIOUS
    for index in range(1, limits.REFERRERS_MAX + 6):
        segment = noop(B, index, previous, refs=[invented], time_ms=START_MS)
        copies.append(Copy(segment, START_MS))
        previous = segment.id
    (missing,) = verdicts([*copies, later(copies)])
    assert len(missing.referrers) == limits.REFERRERS_MAX
    assert missing.more


def floods() -> dict[str, list[Segment]]:
    """For each limit, the segments of a peer that goes over it."""
    first = noop(A, 1, NO_PREVIOUS)
    rows = [[noop(A, 2, first.id, salt) for salt in range(60)]]
    for index in range(3, 65):
        rows.append([noop(A, index, segment.id) for segment in rows[-1]])
    strangers = [noop(A, index, (1000 * index + n).to_bytes(32)) for index in range(20, 30) for n in range(1, 60)]
    return {
        "branches": [first, *(noop(A, 2, first.id, salt) for salt in range(2 * limits.BRANCHES_MAX))],
        "unresolved": [noop(A, 3, n.to_bytes(32)) for n in range(1, 2 * limits.UNRESOLVED_MAX)],
        "runs": [first, *(noop(A, 2 + 1000 * n, n.to_bytes(32)) for n in range(1, 2 * limits.SPAN_RUNS_MAX))],
        "claims": [
            noop(B, n + 1, n.to_bytes(32), refs=[Ref(A, 5 + i, (i * 99999 + n).to_bytes(32)) for i in range(64)])
            for n in range(1, 90)
        ],
        "span": [first, *(segment for row in rows for segment in row), *strangers],
    }


@pytest.mark.parametrize("limit", ["branches", "unresolved", "runs", "claims", "span"])
def test_going_over_a_limit_is_a_verdict_about_the_peer_that_did(limit: str) -> None:
    fold = LogsFold(CONFIG)
    shards = {key: fold.open(key, None, {}) for key in fold.all_keys()}
    found = set()
    for key, payload in fold.route(Arrivals([Arrival(segment, START_MS) for segment in floods()[limit]], [])):
        for message in shards[key].absorb([payload], START_MS).messages:
            verdict = decode_verdict(message.value) if message.value else None
            if isinstance(verdict, Limit):
                found.add((verdict.limit, verdict.author))
    assert found == {(limit, (B if limit == "claims" else A).hex())}
    assert all(list(shard.audit(())) == [] for shard in shards.values())


def test_a_large_blob_spills_its_open_spans_and_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [chain(A, 300)[:150], chain(A, 300)[150:], chain(A, 1, salt=5)]
    want = run_logs(CONFIG, batches)
    monkeypatch.setattr("state.logs.BLOB_BYTES_TARGET", 1000)
    assert run_logs(CONFIG, batches) == want


def test_a_log_whose_beginning_is_gone_begins_with_the_lowest_index_that_is_held() -> None:
    config = since_config(CONFIG, START_MS)
    log = chain(A, 300)
    late = later(log)

    def found(*batches: list[Copy]) -> list:
        return [decode_verdict(value) for value in run_logs(config, [*batches, [late]]).values()]

    def reader(ref: Ref) -> Copy:
        return Copy(noop(B, 9, bytes([9]) * 32, refs=[ref], time_ms=START_MS), START_MS)

    assert found(log[150:]) == []
    assert found([reader(log[3].segment.ref)], log[150:]) == []
    assert found([reader(log[3].segment.ref)]) == []
    (hole,) = found([reader(log[170].segment.ref)], log[150:160], log[170:])
    assert isinstance(hole, Missing)
    assert hole.index == 170
    # An index further down comes last, and with it the log begins there: what lies between is missing now.
    sunk = found([reader(log[120].segment.ref)], log[150:], log[100:120])
    assert sorted((verdict.index, type(verdict)) for verdict in sunk) == [(121, Missing), (150, Missing)]
