"""How many events one version holds and another lacks: held against graphs of events whose pasts are known."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from state.bloom import Clock, Parameters, Relation, events_between
from tests.bloomgraphs import SMALL, Graph, chain, graphs, laws, merged, versions


@laws
@given(SMALL, st.lists(st.integers(0, 99), max_size=12), st.integers(0, 12))
def test_events_between_two_points_of_a_chain_are_counted_exactly(
    parameters: Parameters, events: list[int], cut: int
) -> None:
    count = events_between(chain(parameters, events[:cut]), chain(parameters, events))
    assert set(count) == {len(events[cut:])}


@laws
@given(graphs(), st.data())
def test_no_fewer_events_than_the_least_and_no_more_than_the_most_are_lacking(
    graph: Graph, data: st.DataObject
) -> None:
    earlier, later = data.draw(versions(graph)), data.draw(versions(graph))
    branches_max = graph.width(later) or 1
    stamps = graph.stamp(earlier), graph.stamp(later)
    count = events_between(*stamps, branches_max=branches_max)
    lacking = len(later - earlier)
    assert count.least <= lacking
    assert count.most is not None
    assert count.least <= count.estimate <= count.most
    # a "before" that is a coincidence is taken for true: then no limit holds
    assume(earlier <= later or stamps[0].relation(stamps[1]) in {Relation.CONCURRENT, Relation.AFTER})
    assert lacking <= count.most


@laws
@given(graphs(), st.data())
def test_without_a_limit_of_branches_only_a_chain_has_a_most(graph: Graph, data: st.DataObject) -> None:
    later = graph.stamp(data.draw(versions(graph)))
    count = events_between(Clock.zero(graph.parameters), later)
    assert (count.most is None) == (later.chain_events is None)
    assert count.least <= count.estimate


@laws
@given(SMALL, st.sets(st.integers(0, 30), max_size=8), st.sets(st.integers(31, 60), max_size=8))
def test_a_merge_hides_at_most_as_many_events_as_the_smaller_branch_has(
    parameters: Parameters, one: set[int], other: set[int]
) -> None:
    start = chain(parameters, [99])
    joined = chain(parameters, sorted(one), start).merge(chain(parameters, sorted(other), start))
    hidden = len(one) + len(other) - events_between(start, joined).least
    assert 0 <= hidden <= min(len(one), len(other))


def test_what_only_the_later_version_has_is_counted_also_if_the_earlier_one_has_more_of_its_own() -> None:
    parameters = Parameters(60_000, 3)
    start = chain(parameters, range(100, 120))
    assert events_between(chain(parameters, range(50), start), chain(parameters, range(50, 60), start)).least == 10


def test_a_raise_that_is_left_over_is_of_one_event_more() -> None:
    one = Clock(Parameters(4, 3), np.array([1, 1, 1, 0], np.uint32))
    other = Clock(Parameters(4, 3), np.array([2, 2, 2, 1], np.uint32))
    assert events_between(one, other).least == 2


def test_a_merge_hides_on_average_no_more_than_its_documentation_says() -> None:
    hashes, counters, ours, theirs, rounds = 3, 100, 10, 8, 400
    parameters, start = Parameters(counters, hashes), Clock.zero(Parameters(counters, hashes))
    hidden = []
    for number in range(rounds):
        events = range(100 * number, 100 * number + ours + theirs)
        joined = chain(parameters, events[:ours], start).merge(chain(parameters, events[ours:], start))
        hidden.append(ours + theirs - joined.total / hashes)
    bound = hashes * ours * theirs / counters
    assert 0.7 * bound < np.mean(hidden) < bound


def test_zero_counters_tell_how_many_events_a_merge_hides() -> None:
    parameters = Parameters(1024, 2)
    branches = [chain(parameters, range(at, at + 50)) for at in range(0, 1_000, 50)]
    count = events_between(branches[0], merged(branches, parameters))
    assert count.least < 900
    assert abs(count.estimate - 950) < 60
    assert count.most is None


def test_without_zero_counters_the_estimate_is_the_least() -> None:
    parameters = Parameters(8, 2)
    joined = chain(parameters, range(100)).merge(chain(parameters, range(100, 200)))
    assert joined.counters.all()
    count = events_between(chain(parameters, range(5)), joined)
    assert count.estimate == count.least
