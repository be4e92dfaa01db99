"""The graph of events: guards, levels and positions, against brute force."""

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from state.events import Event, new_root
from tests.entitylab import BEGINNING, Graph, Places, entity_of, event_name, graph_of, graphs, laws, past, shuffled

BEHIND_ANOTHER = graph_of([[], [0], [0, 1], [1, 2]])
TWO_BEGINNINGS = graph_of([[], [], [0, 1], [0], [2, 3]])


@laws
@given(graphs())
@example(BEHIND_ANOTHER)
@example(TWO_BEGINNINGS)
def test_guards_levels_and_positions_are_those_of_the_definition(graph: Graph) -> None:
    entity, places = entity_of(graph), Places(graph)
    for event in map(entity.event, graph):
        assert event.guard.id == places.guard[event.id]
        assert event.level == places.level[event.id]
        assert event.position == places.position[event.id]


@laws
@given(graphs(), st.randoms())
def test_the_place_of_an_event_follows_from_its_past_alone(graph: Graph, chance: Random) -> None:
    whole = entity_of(graph, shuffled(graph, chance))
    for event_id in list(graph)[-3:]:
        within = past(graph, [event_id])
        alone = entity_of({event: parents for event, parents in graph.items() if event in within})
        for event in map(alone.event, within):
            same = whole.event(event.id)
            assert (same.guard.id, same.level, same.position) == (event.guard.id, event.level, event.position)


@laws
@given(graphs())
def test_jumps_lead_to_guards_and_depth_counts_these(graph: Graph) -> None:
    entity = entity_of(graph)
    for event in map(entity.event, graph):
        above = guards_above(event)
        assert event.depth == len(above)
        assert event.jump in above
        assert above[-1].id == BEGINNING


def guards_above(event: Event) -> list[Event]:
    above = []
    while event.guard is not event:
        event = event.guard
        above.append(event)
    return above


def test_of_a_chain_each_event_guards_the_next_and_jumps_are_logarithmic() -> None:
    entity = entity_of(graph_of([[number - 1] if number else [] for number in range(5_000)]))
    event, hops = entity.event(event_name(4_999)), 0
    while event.depth:
        event, hops = event.jump, hops + 1
    assert hops <= 13 * 2


def test_the_beginning_guards_itself_and_is_before_all() -> None:
    root = new_root()
    assert (root.guard, root.jump, root.depth, root.position, root.id) == (root, root, 0, 0, BEGINNING)


def test_a_join_is_guarded_by_the_event_before_the_fork_and_stands_above_its_branches() -> None:
    #   0 ─ 1 ─┬─ 2 ─ 3 ─┬─ 5
    #          └─ 4 ─────┘
    entity = entity_of(graph_of([[], [0], [1], [2], [1], [3, 4]]))
    first, fork, branch, inner, other, join = (entity.event(event_name(number)) for number in range(6))
    assert (join.guard, join.level, join.position) == (fork, 1, 4)
    assert [one.level for one in (branch, inner, other)] == [0, 0, 0]
    assert [one.position for one in (first, fork, branch, inner, other)] == [1, 2, 3, 4, 3]
