"""Bloom clocks: the laws, for random graphs of events and for random counters."""

import random
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.bloom import (
    COUNTER_MAX,
    COUNTERS_MAX,
    DEFAULT_PARAMETERS,
    HASHES_MAX,
    Clock,
    CounterOverflowError,
    MixedParametersError,
    NotAChainError,
    Parameters,
    Relation,
    events_between,
    indices,
)
from tests.bloomgraphs import SMALL, Graph, chain, event_id, graphs, laws, merged, versions

FOUR = Parameters(4, 2)


def of(*counters: int, hashes: int = 1) -> Clock:
    return Clock(Parameters(len(counters), hashes), np.array(counters, np.uint32))


@st.composite
def clocks(draw: st.DrawFn, parameters: Parameters = FOUR) -> Clock:
    """Any counters, often equal or near each other, sometimes huge; often those of a chain."""
    if draw(st.booleans()):
        return chain(parameters, draw(st.lists(st.integers(0, 5), max_size=3)))
    counter = st.one_of(st.integers(0, 3), st.integers(0, COUNTER_MAX))
    counters = draw(st.lists(counter, min_size=parameters.counters, max_size=parameters.counters))
    return Clock(parameters, np.array(counters, np.uint32))


def same(one: Clock, other: Clock) -> bool:
    """Also in what is known of the chain."""
    return one == other and one.chain_events == other.chain_events


# The laws of merging.


@laws
@given(clocks(), clocks(), clocks())
def test_merging_is_associative(one: Clock, two: Clock, three: Clock) -> None:
    assert same(one.merge(two).merge(three), one.merge(two.merge(three)))


@laws
@given(clocks(), clocks())
def test_merging_is_commutative(one: Clock, two: Clock) -> None:
    assert same(one.merge(two), two.merge(one))


@laws
@given(clocks())
def test_merging_is_idempotent_and_the_empty_clock_adds_nothing(clock: Clock) -> None:
    assert same(clock.merge(clock), clock)
    assert same(clock.merge(Clock.zero(FOUR)), clock)
    assert same(Clock.zero(FOUR).merge(clock), clock)


@laws
@given(clocks(), clocks())
def test_a_merge_is_the_least_clock_that_both_are_before_or_equal_to(one: Clock, other: Clock) -> None:
    assert one.merge(other).counters.tolist() == list(map(max, one.counters.tolist(), other.counters.tolist()))


@laws
@given(clocks(), clocks())
def test_the_common_bound_is_the_greatest_clock_that_is_before_or_equal_to_both(one: Clock, other: Clock) -> None:
    assert one.common_bound(other).counters.tolist() == list(map(min, one.counters.tolist(), other.counters.tolist()))
    assert same(one.common_bound(other), other.common_bound(one))
    assert same(one.common_bound(one), one)


def test_a_merge_of_equal_clocks_is_not_called_a_chain() -> None:
    one, other = chain(Parameters(1, 1), [1]), chain(Parameters(1, 1), [2])
    assert one == other
    assert one.merge(other).chain_events is None


# Stamps of events.


@laws
@given(graphs())
def test_an_ancestor_always_looks_before_or_equal(graph: Graph) -> None:
    stamps = graph.stamps()
    for event in range(len(stamps)):
        for ancestor in graph.past(event):
            assert stamps[ancestor].relation(stamps[event]) in {Relation.BEFORE, Relation.EQUAL}


@laws
@given(graphs(), st.data())
def test_a_version_always_looks_before_or_equal_to_one_that_holds_it(graph: Graph, data: st.DataObject) -> None:
    small, more = data.draw(versions(graph)), data.draw(versions(graph))
    assert graph.stamp(small).relation(graph.stamp(small | more)) in {Relation.BEFORE, Relation.EQUAL}


@laws
@given(graphs())
def test_a_stamp_counts_the_most_that_one_path_adds_to_each_counter(graph: Graph) -> None:
    for event, stamp in enumerate(graph.stamps()):
        raises = [
            np.bincount(sum((indices(event_id(e), graph.parameters) for e in path), ()), minlength=len(stamp.counters))
            for path in graph.paths(event)
        ]
        assert stamp.counters.tolist() == np.max(raises, axis=0).tolist()


@laws
@given(graphs(), st.randoms())
def test_stamps_do_not_depend_on_the_order_in_which_events_come(graph: Graph, chance: random.Random) -> None:
    waiting, found = list(range(len(graph.parents))), dict[int, Clock]()
    version = Clock.zero(graph.parameters)
    while waiting:
        event = chance.choice([one for one in waiting if graph.parents[one] <= found.keys()])
        parents = [found[one] for one in graph.parents[event]]
        chance.shuffle(parents)
        found[event] = merged(parents, graph.parameters).after(event_id(event))
        version = version.merge(found[event]) if chance.random() < 0.5 else found[event].merge(version)
        waiting.remove(event)
    assert [found[event] for event in range(len(found))] == graph.stamps()
    assert version == graph.stamp(set(found))


@laws
@given(graphs(), st.data())
def test_the_common_bound_is_a_bound_of_the_stamp_of_each_common_ancestor(graph: Graph, data: st.DataObject) -> None:
    one, other = data.draw(versions(graph)), data.draw(versions(graph))
    bound = graph.stamp(one).common_bound(graph.stamp(other))
    for ancestor in one & other:
        assert graph.stamps()[ancestor].relation(bound) in {Relation.BEFORE, Relation.EQUAL}
    assert graph.stamp(one & other).relation(bound) in {Relation.BEFORE, Relation.EQUAL}


@laws
@given(graphs())
def test_what_is_called_a_chain_is_one_of_so_many_events(graph: Graph) -> None:
    for event, stamp in enumerate(graph.stamps()):
        if stamp.chain_events is not None:
            assert graph.width(graph.past(event)) == 1
            assert stamp.chain_events == len(graph.past(event))
            assert stamp.total == stamp.counters.sum() == len(graph.past(event)) * graph.parameters.hashes


# Which counters an event raises.


@laws
@given(SMALL, st.binary(max_size=40))
def test_an_event_raises_k_counters_of_the_clock(parameters: Parameters, event: bytes) -> None:
    raised = indices(event, parameters)
    assert len(raised) == parameters.hashes
    assert all(0 <= index < parameters.counters for index in raised)
    assert (
        Clock.zero(parameters).after(event).counters.tolist()
        == np.bincount(raised, minlength=parameters.counters).tolist()
    )


PINNED = [
    (b"", Parameters(1024, 2), (194, 334)),
    (bytes(32), Parameters(1024, 2), (459, 863)),
    (bytes(32), Parameters(1000, 4), (137, 686, 238, 239)),
    (bytes(32), Parameters(65536, 3), (2707, 2093, 59714)),
]


@pytest.mark.parametrize(("event", "parameters", "raised"), PINNED)
def test_the_counters_of_an_event_never_change_from_one_release_to_the_next(
    event: bytes, parameters: Parameters, raised: tuple[int, ...]
) -> None:
    assert indices(event, parameters) == raised


def test_events_are_spread_evenly_over_counters_and_their_pairs() -> None:
    parameters, events = Parameters(7, 2), 49_000
    pairs = np.array([indices(event_id(number), parameters) for number in range(events)])
    counts = np.bincount(pairs[:, 0] * 7 + pairs[:, 1], minlength=49)
    # chi square with 48 degrees of freedom: above 90 in two of ten thousand such tests
    assert ((counts - 1_000) ** 2 / 1_000).sum() < 90


# Mixed parameters, limits.

TWO_CLOCKS: list[Callable[[Clock, Clock], object]] = [
    Clock.merge,
    Clock.relation,
    Clock.compare,
    Clock.distance,
    Clock.common_bound,
    events_between,
]


@pytest.mark.parametrize("put_together", TWO_CLOCKS)
@pytest.mark.parametrize("other", [Parameters(4, 3), Parameters(5, 2)])
@pytest.mark.parametrize("is_empty", [True, False])
def test_clocks_of_different_parameters_are_never_put_together(
    put_together: Callable[[Clock, Clock], object], other: Parameters, is_empty: bool
) -> None:
    one, two = Clock.zero(FOUR), Clock.zero(other)
    if not is_empty:
        one, two = one.after(b""), two.after(b"")
    with pytest.raises(MixedParametersError, match=rf"\(4, 2\) and \({other.counters}, {other.hashes}\)"):
        put_together(one, two)
    assert one != two


def test_equal_parameters_that_are_not_one_object_are_put_together() -> None:
    assert Clock.zero(Parameters(4, 2)).relation(Clock.zero(Parameters(4, 2))) is Relation.EQUAL


@pytest.mark.parametrize("bad", [(0, 1), (COUNTERS_MAX + 1, 1), (1, 0), (1, HASHES_MAX + 1)])
def test_parameters_out_of_range_are_refused_with_what_was_expected(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="expected 1 to"):
        Clock.zero(Parameters(*bad))


@pytest.mark.parametrize("good", [(1, 1), (COUNTERS_MAX, HASHES_MAX), DEFAULT_PARAMETERS])
def test_parameters_in_range_have_no_problem(good: tuple[int, int]) -> None:
    assert not Parameters(*good).problem()


def test_a_counter_at_its_maximum_is_not_raised_and_the_clock_stays_as_it_was() -> None:
    full = of(COUNTER_MAX - 1, hashes=2)
    with pytest.raises(CounterOverflowError, match="counter 0"):
        full.after(b"event")
    assert full.counters.tolist() == [COUNTER_MAX - 1]
    assert of(COUNTER_MAX - 2, hashes=2).after(b"event").counters.tolist() == [COUNTER_MAX]


def test_the_counters_of_a_clock_cannot_be_written_to() -> None:
    for clock in (Clock.zero(FOUR), of(1, 2), of(1, 2).merge(of(2, 1)), Clock.zero(FOUR).after(b"")):
        with pytest.raises(ValueError, match="read-only"):
            clock.counters[0] = 7


# Comparing.


@laws
@given(clocks(), clocks())
def test_a_relation_is_what_the_counters_one_by_one_tell(one: Clock, other: Clock) -> None:
    ours, theirs = one.counters.tolist(), other.counters.tolist()
    at_most = all(a <= b for a, b in zip(ours, theirs, strict=True))
    at_least = all(a >= b for a, b in zip(ours, theirs, strict=True))
    expected = {
        (True, True): Relation.EQUAL,
        (True, False): Relation.BEFORE,
        (False, True): Relation.AFTER,
        (False, False): Relation.CONCURRENT,
    }
    assert one.relation(other) is expected[at_most, at_least]
    assert (one == other) == (ours == theirs)
    assert one != other or hash(one) == hash(other)


@laws
@given(clocks(), clocks())
def test_a_comparison_names_the_smaller_clock_first(one: Clock, other: Clock) -> None:
    compared = one.compare(other)
    assert compared.relation is one.relation(other)
    if compared.relation is Relation.CONCURRENT:
        assert compared.ramabaja == compared.misra == 0
    else:
        assert compared.smaller.merge(compared.larger) == compared.larger
        assert {id(compared.smaller), id(compared.larger)} == {id(one), id(other)}


@laws
@given(clocks(), clocks())
def test_a_distance_is_the_sum_of_the_differences(one: Clock, other: Clock) -> None:
    ours, theirs = one.counters.tolist(), other.counters.tolist()
    assert one.distance(other) == sum(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    assert one.distance(other) == other.distance(one)
    assert one.distance(one.merge(other)) == one.merge(other).total - one.total


def test_a_distance_can_be_more_than_a_counter_can() -> None:
    assert of(COUNTER_MAX, 0, COUNTER_MAX).distance(of(0, COUNTER_MAX, 1)) == 3 * COUNTER_MAX - 1


# Taking an event out.


@laws
@given(SMALL, st.lists(st.integers(), min_size=1, max_size=8, unique=True), st.data())
def test_an_event_that_is_taken_out_of_a_chain_leaves_the_clock_of_the_others(
    parameters: Parameters, numbers: list[int], data: st.DataObject
) -> None:
    events = [str(number).encode() for number in numbers]
    out = data.draw(st.sampled_from(events))
    start = Clock.zero(parameters)
    left = reduce(Clock.without, [out], reduce(Clock.after, events, start))
    assert same(left, reduce(Clock.after, [event for event in events if event != out], start))


def test_an_event_is_not_taken_out_of_a_merge() -> None:
    joined = chain(FOUR, [1]).merge(chain(FOUR, [2])).after(event_id(3))
    with pytest.raises(NotAChainError, match="is a merge"):
        joined.without(event_id(3))


@laws
@given(SMALL, st.lists(st.integers(0, 99), max_size=4), st.integers(100, 199))
def test_an_event_whose_counters_are_not_there_is_not_taken_out(
    parameters: Parameters, events: list[int], stranger: int
) -> None:
    clock = chain(parameters, events)
    needed = np.bincount(indices(event_id(stranger), parameters), minlength=parameters.counters)
    before = clock.counters.tolist()
    if (clock.counters >= needed).all():
        assert clock.without(event_id(stranger)).after(event_id(stranger)) == clock
    else:
        with pytest.raises(NotAChainError, match="does not hold the event"):
            clock.without(event_id(stranger))
    assert clock.counters.tolist() == before
