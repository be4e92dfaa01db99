"""Entities: stamps, versions of any events, limits, and that hostile graphs cost no more than a lot."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import entity as entities
from state.bloom import Relation
from state.entity import Entity, EntityLimitError
from state.limits import NESTING_MAX
from state.version import Version
from tests import entitylab as lab
from tests.entitylab import Graph, event_name, graph_of, graphs


def counters(version: Version) -> list[int]:
    return [int(counter) for counter in version.stamp.counters]


def of(entity: Entity, *numbers: int) -> Version:
    return entity.version_of(map(event_name, numbers))


def is_chain(graph: Graph) -> bool:
    return all(len(lab.past(graph, [event])) == at for at, event in enumerate(lab.sequence(graph), 1))


@lab.laws
@given(graphs(), st.randoms())
def test_stamps_are_those_of_the_definition_in_any_order(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    assert counters(entity.version) == lab.stamp(graph, graph)
    chosen = chance.sample(list(graph), min(2, len(graph)))
    assert counters(entity.version_of(chosen)) == lab.stamp(graph, chosen)


@lab.laws
@given(graphs(), st.randoms())
def test_the_stamp_of_an_event_is_the_merge_of_its_parents_raised_by_it(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    for event, parents in graph.items():
        assert entity.version_of([event]).stamp == entity.version_of(parents).stamp.after(event)


@lab.laws
@given(graphs(), st.randoms())
def test_a_stamp_counts_events_exactly_if_they_are_a_chain(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    for event in graph:
        alone = lab.part(graph, [event])
        assert entity.version_of([event]).stamp.chain_events == (len(alone) if is_chain(alone) else None)
    assert entity.version.stamp.chain_events == (len(graph) if is_chain(graph) else None)


@lab.laws
@given(graphs(), st.randoms())
def test_an_ancestor_is_never_missed_and_all_common_ones_are_within_the_bound(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    one, other = ([chance.choice(list(graph))] if graph else [] for _ in range(2))
    bound = entity.version_of(one).stamp.common_bound(entity.version_of(other).stamp)
    for event in lab.past(graph, one):
        older = entity.version_of([event]).stamp
        assert older.relation(entity.version_of(one).stamp) in {Relation.BEFORE, Relation.EQUAL}
        if event in lab.past(graph, other):
            assert older.relation(bound) in {Relation.BEFORE, Relation.EQUAL}


@lab.laws
@given(graphs())
def test_tips_are_the_events_that_no_other_builds_on(graph: Graph) -> None:
    entity = lab.entity_of(graph)
    assert entity.tips == tuple(sorted(lab.tips(graph)))
    assert {event for event in graph if entity.is_tip(event)} == lab.tips(graph)


@lab.laws
@given(graphs())
def test_what_is_held_is_not_added_again(graph: Graph) -> None:
    entity = lab.entity_of(graph)
    before = entity.version
    assert not any(entity.add(event, parents) for event, parents in graph.items())
    assert entity.version is before
    assert len(entity) == len(graph)


def test_an_entity_without_events_has_the_empty_version() -> None:
    entity = Entity(lab.SMALL)
    assert entity.version is entity.version_of([])
    assert entity.version.digest == lab.digest({})
    assert (entity.version.size, entity.tips, entity.sequence()) == (0, (), [])
    assert entity.version.stamp.total == 0


def test_an_event_whose_parent_is_not_held_is_refused_and_changes_nothing() -> None:
    entity = lab.entity_of(lab.chain(3))
    before = entity.version
    with pytest.raises(KeyError):
        entity.add(event_name(9), [event_name(2), event_name(8)])
    with pytest.raises(KeyError):
        entity.version_of([event_name(2), event_name(8)])
    assert (entity.version, len(entity), event_name(9) in entity) == (before, 3, False)


def test_the_same_events_named_twice_are_one_version() -> None:
    entity = lab.entity_of(graph_of([[], [], [0], [1]]))
    assert of(entity, 2, 2).digest == of(entity, 2).digest
    assert of(entity, 2, 2).size == 2


@lab.laws
@given(graphs(), st.integers(1, 4), st.integers(1, 3), st.randoms())
def test_versions_do_not_depend_on_which_of_them_are_kept(
    graph: Graph, steps: int, recent: int, chance: Random
) -> None:
    wanted = lab.entity_of(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entities, "STEPS_MAX", steps)
        patch.setattr(entities, "RECENT_MAX", recent)
        entity = lab.entity_of(graph, lab.shuffled(graph, chance))
        for event in chance.sample(list(graph), len(graph)):
            found, want = entity.version_of([event]), wanted.version_of([event])
            assert (found.digest, found.stamp, found.size) == (want.digest, want.stamp, want.size)


def test_a_copy_goes_on_by_itself_and_may_have_a_long_history() -> None:
    entity = lab.entity_of(lab.chain(3_000))
    copied = deepcopy(entity)
    assert copied.version.digest == entity.version.digest
    copied.add(b"\1" * 32, [event_name(2_999)])
    assert (len(copied), len(entity)) == (3_001, 3_000)
    assert copied.version.digest != entity.version.digest


# Limits


def assert_refused(entity: Entity, event: bytes, parents: Sequence[bytes], limit: str) -> None:
    before = (entity.version, len(entity), entity.tips, entity.sequence())
    with pytest.raises(EntityLimitError) as error:
        entity.add(event, parents)
    assert error.value.limit == limit
    assert (entity.version, len(entity), entity.tips, entity.sequence()) == before
    assert event not in entity
    assert not entity.add(entity.tips[0], [])


def test_an_event_over_the_limit_of_events_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entities, "EVENTS_MAX", 5)
    entity = lab.entity_of(lab.chain(5))
    assert_refused(entity, event_name(5), [event_name(4)], "events")
    assert_refused(entity, event_name(5), [], "events")


def comb(teeth: int) -> list[list[int]]:
    """A chain, its first event 0, on each event of which something else is built too: event number 2 i has i forks
    around it, and so has the one before.
    """
    return [[]] + [[2 * (number // 2)] for number in range(2 * teeth)]


def test_an_event_within_too_many_forks_is_refused_and_changes_nothing() -> None:
    entity = lab.entity_of(graph_of(comb(NESTING_MAX)))
    deepest = event_name(2 * NESTING_MAX)
    # A branch that goes on is no fork.
    assert entity.add(event_name(1_000), [deepest])
    assert_refused(entity, event_name(1_001), [deepest], "nesting")
    # Once something joins them they are not within each other any more from there on.
    assert entity.add(event_name(1_002), entity.tips)
    assert entity.add(event_name(1_003), [event_name(1_002)])
    assert entity.add(event_name(1_004), [event_name(1_002)])


def test_forks_that_come_about_from_the_inside_out_have_the_same_limit() -> None:
    parents = comb(NESTING_MAX)
    graph = graph_of(parents)
    spine = [event_name(2 * number) for number in range(NESTING_MAX + 1)]
    teeth = [event_name(2 * number + 1) for number in range(NESTING_MAX)]
    inside_out = [*spine, *reversed(teeth)]
    entity = lab.entity_of(graph, inside_out)
    assert entity.version.digest == lab.entity_of(graph).version.digest
    # One more fork at the very beginning, which only puts one more around all others.
    assert_refused(entity, event_name(999), [], "nesting")
    # Events deep within can still be built on, and named together in any order.
    chance = Random(6)
    for _ in range(10):
        chosen = chance.sample(inside_out, 60)
        assert entity.version_of(chosen).digest == lab.entity_of(lab.part(graph, chosen)).version.digest
    assert entity.add(event_name(1_000), [spine[-1]])
    assert_refused(entity, event_name(1_001), [spine[-1]], "nesting")


# Hostile graphs: events that take long to take in would be a way to stop a monitor. Counted in joins and hashes, not in
# time. A part of a history that is compared for the first time is hashed then: that is in the numbers, once.


def layers(width: int, count: int) -> list[list[int]]:
    rows = [list(range(at, at + width)) for at in range(0, width * count, width)]
    return [[] for _ in rows[0]] + [below for below, row in pairwise(rows) for _ in row]


def old_pairs(length: int, count: int) -> list[list[int]]:
    """Two long branches, and then joins of old events of both, never of the tips."""
    branches = [[number - 1] if number not in {0, length} else [] for number in range(2 * length)]
    return branches + [[length - 2 - at, 2 * length - 2 - at] for at in range(count)]


def wide(count: int) -> list[list[int]]:
    """Branches of old events with many of them in one join, again and again."""
    chains = [[number - 15] if number >= 15 else [] for number in range(600)]
    return chains + [list(range(300 + at, 556 + at)) for at in range(count)]


@pytest.mark.parametrize(
    ("parents", "joins_max", "hashes_max"),
    [
        pytest.param(lambda: layers(2, 500), 5, 200, id="criss-cross"),
        pytest.param(lambda: layers(64, 6), 300, 2_000, id="wide criss-cross"),
        pytest.param(lambda: old_pairs(600, 60), 40, 1_500, id="joins of old events"),
        pytest.param(lambda: wide(5), 1_000, 40_000, id="wide joins"),
        pytest.param(lambda: comb(100), 5, 3_000, id="nested forks"),
        pytest.param(lambda: [[] for _ in range(1_000)], 1, 100, id="all beginnings"),
    ],
)
def test_no_event_of_a_hostile_graph_is_dear(
    monkeypatch: pytest.MonkeyPatch, parents: Callable[[], list[list[int]]], joins_max: int, hashes_max: int
) -> None:
    made = 0
    join = Version.join

    def counting_join(one: Version, other: Version) -> Version:
        nonlocal made
        made += 1
        return join(one, other)

    monkeypatch.setattr(Version, "join", counting_join)
    graph = graph_of(parents())
    entity = Entity(lab.SMALL)
    dearest = dearest_hashes = 0
    with lab.counted_hashes() as hashes:
        for event, below in graph.items():
            made, before = 0, hashes()
            entity.add(event, below)
            dearest, dearest_hashes = max(dearest, made), max(dearest_hashes, hashes() - before)
    assert (dearest <= joins_max, dearest_hashes <= hashes_max) == (True, True), (dearest, dearest_hashes)
