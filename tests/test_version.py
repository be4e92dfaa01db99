"""Versions: their order and digest by the definition, their differences, and what all of it costs."""

from collections.abc import Collection
from itertools import pairwise
from math import log2
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state import version as versions
from state.radix import Leaf, Tree, get
from state.version import Difference, Version, differences
from tests import entitylab as lab
from tests.entitylab import Graph, graph_of, graphs

CRISS_CROSS = graph_of([[], [], [0, 1], [0, 1], [2, 3], [2, 3]])
LADDER = graph_of([[], [0], [0], [1, 2], [3], [3], [4, 5], [6]])
NESTED = graph_of([[], [0], [0], [1], [1], [3], [3], [5, 6], [2, 4]])
JOIN_WITHIN = graph_of([[], [0], [1], [1], [2, 3], [0], [4, 5], [6], [0]])
FORKED_FROM_THE_END = graph_of([[], [0], [1], [2], [2], [1], [0], []])
shapes = graphs() | st.sampled_from([CRISS_CROSS, LADDER, NESTED, JOIN_WITHIN, FORKED_FROM_THE_END])


def names(found: Difference) -> tuple[list[bytes], list[bytes]]:
    return sorted(event.id for event in found.only_one), sorted(event.id for event in found.only_other)


def some_of(graph: Graph, chance: Random) -> list[bytes]:
    return chance.sample(list(graph), chance.randint(0, min(3, len(graph))))


@lab.laws
@given(shapes, st.randoms())
def test_sequence_and_digest_are_those_of_the_definition_in_any_order(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    assert entity.sequence() == lab.sequence(graph)
    assert entity.version.digest == lab.digest(graph)
    assert entity.version.size == len(graph)


@lab.laws
@given(shapes)
def test_in_the_sequence_each_event_comes_once_and_after_its_parents(graph: Graph) -> None:
    place = {event: at for at, event in enumerate(lab.entity_of(graph).sequence())}
    assert sorted(place) == sorted(graph)
    assert all(place[parent] < place[event] for event, parents in graph.items() for parent in parents)


@lab.laws
@given(shapes, st.randoms())
def test_the_version_of_some_events_is_that_of_their_past_made_alone(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    chosen = some_of(graph, chance)
    version, alone = entity.version_of(chosen), lab.part(graph, chosen)
    assert version.digest == lab.digest(alone)
    assert [event.id for event in version.events()] == lab.sequence(alone)
    assert version.size == len(alone)
    assert {event for event in graph if entity.event(event) in version} == set(alone)


@lab.laws
@given(shapes, st.randoms())
def test_digests_are_equal_if_and_only_if_the_sets_of_events_are(graph: Graph, chance: Random) -> None:
    one, other = lab.entity_of(graph), lab.entity_of(graph, lab.shuffled(graph, chance))
    chosen, others = some_of(graph, chance), some_of(graph, chance)
    is_equal = lab.past(graph, chosen) == lab.past(graph, others)
    assert (one.version_of(chosen).digest == other.version_of(others).digest) == is_equal
    assert (one.version_of(chosen).digest == one.version_of(others).digest) == is_equal


@lab.laws
@given(shapes, shapes)
def test_digests_of_different_graphs_are_different(graph: Graph, other: Graph) -> None:
    graph, other = lab.sealed(graph), lab.sealed(other)
    is_equal = graph.keys() == other.keys()
    assert (lab.entity_of(graph).version.digest == lab.entity_of(other).version.digest) == is_equal


def test_all_versions_of_a_graph_have_digests_of_their_own() -> None:
    for graph in (CRISS_CROSS, LADDER, NESTED, JOIN_WITHIN, FORKED_FROM_THE_END):
        entity = lab.entity_of(graph)
        events = list(graph)
        pasts = {frozenset(lab.past(graph, [a, b, c])) for a in events for b in events for c in events}
        assert len({entity.version_of(some).digest for some in pasts}) == len(pasts)


@lab.laws
@given(shapes, st.randoms())
def test_a_join_is_the_union_of_the_events(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    one, other = (entity.version_of(some_of(graph, chance)) for _ in range(2))
    joined = one.join(other)
    both = lab.events_of(one) | lab.events_of(other)
    assert lab.events_of(joined) == both
    assert joined.digest == other.join(one).digest == lab.digest(lab.part(graph, both))
    assert joined.size == len(both)
    assert joined.stamp == one.stamp.merge(other.stamp)
    assert joined.join(one) is joined
    assert one.join(joined).digest == joined.digest


@lab.laws
@given(shapes, st.randoms())
def test_differences_are_exactly_the_events_that_one_has_and_the_other_lacks(graph: Graph, chance: Random) -> None:
    entity = lab.entity_of(graph)
    elsewhere = lab.entity_of(graph, lab.shuffled(graph, chance))
    for where in (entity, elsewhere):
        one, other = entity.version_of(some_of(graph, chance)), where.version_of(some_of(graph, chance))
        ours, theirs = lab.events_of(one), lab.events_of(other)
        found = differences(one, other)
        assert names(found) == (sorted(ours - theirs), sorted(theirs - ours))
        assert names(differences(other, one)) == (sorted(theirs - ours), sorted(ours - theirs))
        assert found.hashes >= 1 or one is other


@lab.laws
@given(shapes, shapes)
@example(LADDER, {})
def test_differences_are_found_between_different_graphs_too(graph: Graph, other: Graph) -> None:
    graph, other = lab.sealed(graph), lab.sealed(other)
    found = differences(lab.entity_of(graph).version, lab.entity_of(other).version)
    assert names(found) == (sorted(graph.keys() - other.keys()), sorted(other.keys() - graph.keys()))


# Cost


def assert_few_hashes(one: Version, other: Version, events: int) -> Difference:
    found = differences(one, other)
    differing = len(found.only_one) + len(found.only_other)
    assert found.hashes <= 8 * (differing + 1) * log2(events), (found.hashes, differing, events)
    return found


@settings(lab.laws, max_examples=8)
@given(st.integers(0, 10_000))
def test_differences_in_a_large_graph_take_few_hashes(seed: int) -> None:
    chance = Random(seed)
    graph = lab.wild_graph(chance, 300)
    entity = lab.entity_of(graph, lab.shuffled(graph, chance))
    for _ in range(10):
        one = entity.version_of(some_of(graph, chance))
        assert_few_hashes(one, entity.version, len(graph))
        assert_few_hashes(entity.version_of(some_of(graph, chance)), one, len(graph))


def test_differences_in_a_long_chain_take_few_hashes() -> None:
    graph = lab.chain(10_000) | {lab.event_name(number): (lab.event_name(number - 5_000),) for number in (10_000,)}
    graph[lab.event_name(10_001)] = tuple(sorted((lab.event_name(9_999), lab.event_name(10_000))))
    entity = lab.entity_of(graph)
    for tip in (9_999, 9_998, 9_000, 8_191, 1):
        version = entity.version_of([lab.event_name(tip)])
        assert version.size == tip + 1
        found = assert_few_hashes(version, entity.version, 10_002)
        assert len(found.only_other) == 10_002 - tip - 1
        assert found.hashes < 60
    # The fork in the middle, without its join: a branch of 5,000 events is found to be the same as in one go.
    whole, lacking = entity.version_of([lab.event_name(9_999), lab.event_name(10_000)]), [lab.event_name(9_999)]
    found = differences(entity.version_of(lacking), whole)
    assert names(found) == ([], [lab.event_name(10_000)])
    assert found.hashes < 60


def test_one_more_event_after_ten_thousand_makes_some_log_n_hashes() -> None:
    graph = lab.chain(10_000)
    entity = lab.entity_of(graph)
    entity.version.digest  # noqa: B018  the hashes are made when they are asked for
    with lab.counted_hashes() as made:
        entity.add(b"\1" * 32, [lab.event_name(9_999)])
        entity.version.digest  # noqa: B018
    assert 2 <= made() <= 20
    # A fork in the middle makes anew what is on the way to it, and the branch that was the chain.
    with lab.counted_hashes() as made:
        entity.add(b"\2" * 32, [lab.event_name(5_000)])
        entity.version.digest  # noqa: B018
    assert 2 <= made() <= 60


def test_an_event_deep_in_a_branch_is_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = lab.chain(5_000) | {b"\1" * 32: ()}
    version, looked_at = lab.entity_of(graph).version, 0

    def counting(tree: Tree, key: int) -> Leaf | None:
        nonlocal looked_at
        looked_at += 1
        return get(tree, key)

    monkeypatch.setattr(versions, "get", counting)
    event = next(event for event in version.events() if event.id == lab.event_name(4_999))
    assert event in version
    assert 2 <= looked_at <= 60


@pytest.mark.parametrize("width", [2, 16])
def test_one_more_event_in_a_criss_cross_makes_few_hashes(width: int) -> None:
    graph = criss_cross(width, 1_600)
    *before, last = graph
    entity = lab.entity_of(graph, before)
    entity.version.digest  # noqa: B018
    with lab.counted_hashes() as made:
        entity.add(last, graph[last])
        entity.version.digest  # noqa: B018
    # Its own version is put together from those of its parents, and then it is added to the whole.
    assert 2 <= made() <= 60 + 40 * width


def criss_cross(width: int, events: int) -> dict[bytes, tuple[bytes, ...]]:
    """Layers of events that each build on all of the layer before."""
    layers = [range(number, number + width) for number in range(0, events, width)]
    parents: list[Collection[int]] = [[] for _ in layers[0]]
    return graph_of(parents + [below for below, layer in pairwise(layers) for _ in layer])
