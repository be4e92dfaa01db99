"""When what a verdict says became so: moment by moment a part of the end, and never more than was known."""

from itertools import pairwise

import pytest

from producers.scenarios import SCENARIOS
from state.hindsight import moments
from state.verdict import KINDS, Belief, Believer, Fork, Replica, Signed, Split, Verdict, join, kind_of
from tests.storylab import watched
from tests.verdictlab import verdict

GRACE_MS = 30_000
TIMELESS = {"clock_skew", "limit", "quarantine"}


def signed(name: str, seen_ms: int) -> Signed:
    return Signed(id=name, head="h", signature="s", seen_ms=seen_ms)


THREE = (signed("aa", 300), signed("bb", 100), signed("cc", 200), signed("dd", 300))
SIDES = (("a",), ("b", "c"))
LONG = [
    verdict(Fork, branches=THREE),
    verdict(Belief, believers=(Believer("a", 30), Believer("b", 10), Believer("c", 30))),
    verdict(Split, sides_opening=SIDES, sides=SIDES[::-1], opened_ms=5, updated_ms=9, ended_ms=8),
    verdict(Split, sides_opening=SIDES, sides=SIDES[::-1], opened_ms=5, updated_ms=9),
]
EVERY_KIND = [verdict(kind) for kind in KINDS if kind is not Belief]


@pytest.mark.parametrize("found", [*LONG, *EVERY_KIND], ids=kind_of)
def test_the_last_moment_is_the_verdict_and_each_before_it_says_a_part_of_it(found: Verdict) -> None:
    told = list(moments(found, GRACE_MS))
    assert told[-1].verdict == found
    assert all(join(moment.verdict, found) == found for moment in told)
    times_ms = [moment.time_ms for moment in told]
    if kind_of(found) in TIMELESS:
        assert times_ms == [None]
    else:
        assert all(one is not None and other is not None and one < other for one, other in pairwise(times_ms))
        assert times_ms[0] is not None


def test_a_fork_has_the_branches_that_were_there_and_begins_with_two() -> None:
    told = [(time_ms, [branch.id for branch in fork.branches]) for time_ms, fork in moments(LONG[0], 0)]  # type: ignore[attr-defined]
    assert told == [(200, ["bb", "cc"]), (300, ["aa", "bb", "cc", "dd"])]


def test_a_belief_grows_with_those_who_hold_it() -> None:
    told = [(time_ms, [one.author for one in belief.believers]) for time_ms, belief in moments(LONG[1], 0)]  # type: ignore[attr-defined]
    assert told == [(10, ["b"]), (30, ["a", "b", "c"])]


def test_a_split_that_is_over_was_open_with_the_sides_it_began_with() -> None:
    (opened_ms, opening), (ended_ms, ending) = moments(LONG[2], 0)
    assert isinstance(opening, Split)
    assert (opened_ms, opening.sides, opening.ended_ms) == (5, SIDES, None)
    assert (ended_ms, ending) == (9, LONG[2])


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_monitor_that_watched_said_each_thing_then_or_later(name: str) -> None:
    run = watched(name)
    first_ms: dict[str, int] = {}
    for moment in run.moments:
        for update in moment.updates:
            first_ms.setdefault(update.key, run.start_ms + moment.at_ms)
    (swarm,) = run.simulation.config.swarms
    for found in run.verdicts:
        began_ms = next(moments(found, swarm.grace_ms)).time_ms
        # Of a replica only how it stands since its newest update is left.
        if began_ms is not None and not isinstance(found, Replica):
            assert began_ms <= first_ms[found.key], found
