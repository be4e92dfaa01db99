"""Entities by brute force: all that `state.entity` keeps, from its definition (docs/adr/0012-version-digests.md) alone.

A graph is a mapping from the id of each event to those of its parents, in an order in which parents come first. Nothing
here is quick, keeps anything, or knows how the real thing does it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from state import radix, version
from state.bloom import Parameters, indices
from state.entity import Entity
from state.version import Version

Graph = Mapping[bytes, Sequence[bytes]]
Leaves = dict[int, bytes]

BEGINNING = bytes(32)
SMALL = Parameters(16, 2)
"""So small that counters collide all the time."""
laws = settings(max_examples=60, deadline=None)
"""For the property tests of entities: brute force takes its time."""


def event_name(number: int, salt: int = 0) -> bytes:
    return sha256(b"event %d of graph %d" % (number, salt)).digest()


def graph_of(parents: Sequence[Collection[int]], salt: int = 0) -> dict[bytes, tuple[bytes, ...]]:
    """A graph of numbered events, each given by the numbers of its parents."""
    return {
        event_name(number, salt): tuple(sorted(event_name(parent, salt) for parent in chosen))
        for number, chosen in enumerate(parents)
    }


@st.composite
def graphs(draw: st.DrawFn, events_max: int = 16) -> dict[bytes, tuple[bytes, ...]]:
    """Graphs of all shapes: with several beginnings, nested forks, joins of joins, parents behind other parents."""
    back = st.integers(1, 3) | st.integers(1, events_max)
    steps = draw(st.lists(st.lists(back, min_size=0, max_size=3), max_size=events_max))
    parents = [{number - step for step in chosen if step <= number} for number, chosen in enumerate(steps)]
    return graph_of(parents, draw(st.integers(0, 99)))


def wild_graph(chance: Random, events: int, reach: int = 20) -> dict[bytes, tuple[bytes, ...]]:
    """A large graph: most events build on one of the last ones, some on several, a few on old ones."""
    parents = []
    for number in range(events):
        first = 0 if chance.random() < 0.02 else max(0, number - reach)
        count = min(number, chance.choice((1, 1, 1, 1, 2, 3)))
        parents.append(set(chance.sample(range(first, number), min(count, number - first))))
    return graph_of(parents)


def chain(events: int, salt: int = 0) -> dict[bytes, tuple[bytes, ...]]:
    return graph_of([{number - 1} if number else set() for number in range(events)], salt)


def shuffled(graph: Graph, chance: Random) -> list[bytes]:
    """The events in a random one of the orders in which parents come first."""
    left = {event: set(parents) for event, parents in graph.items()}
    above: dict[bytes, list[bytes]] = {event: [] for event in graph}
    for event, parents in graph.items():
        for parent in parents:
            above[parent].append(event)
    ready = [event for event, parents in left.items() if not parents]
    order = []
    while ready:
        at = chance.randrange(len(ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        order.append(ready.pop())
        for event in above[order[-1]]:
            left[event].remove(order[-1])
            if not left[event]:
                ready.append(event)
    return order


def sealed(graph: Graph) -> dict[bytes, tuple[bytes, ...]]:
    """The same graph with ids that cover the parents, as those of real events do."""
    new: dict[bytes, bytes] = {}
    for event, parents in graph.items():
        new[event] = sha256(event + b"".join(new[parent] for parent in parents)).digest()
    return {new[event]: tuple(sorted(new[parent] for parent in parents)) for event, parents in graph.items()}


def entity_of(graph: Graph, order: Sequence[bytes] | None = None, parameters: Parameters = SMALL) -> Entity:
    entity = Entity(parameters)
    for event in graph if order is None else order:
        assert entity.add(event, graph[event])
    return entity


def past(graph: Graph, events: Collection[bytes]) -> set[bytes]:
    """Events and all that they build on."""
    reached = set(events)
    while more := {parent for event in reached for parent in graph[event]} - reached:
        reached |= more
    return reached


def part(graph: Graph, events: Collection[bytes]) -> dict[bytes, Sequence[bytes]]:
    """The graph of some events and their past."""
    within = past(graph, events)
    return {event: parents for event, parents in graph.items() if event in within}


def tips(graph: Graph) -> set[bytes]:
    return set(graph) - {parent for parents in graph.values() for parent in parents}


# Stamps


def stamp(graph: Graph, events: Collection[bytes], parameters: Parameters = SMALL) -> list[int]:
    """Of each counter the most that one way from the beginning to an event raises it."""

    @cache
    def of(event: bytes) -> tuple[int, ...]:
        raised = indices(event, parameters)
        below = [of(parent) for parent in graph[event]]
        return tuple(max((one[at] for one in below), default=0) + raised.count(at) for at in range(parameters.counters))

    return [max((of(event)[at] for event in events), default=0) for at in range(parameters.counters)]


# The order of the default join strategy


class Places:
    """The guard, the level and the position of each event, from their definitions."""

    def __init__(self, graph: Graph) -> None:
        self.guard = {event: self._guard(graph, event) for event in graph}
        self.level: dict[bytes, int] = {}
        self.position = {BEGINNING: 0}
        for event, parents in graph.items():
            guard = self.guard[event]
            within = [self._branch(guard, parent) for parent in parents if parent != guard]
            self.level[event] = 1 + max((self.level[branch] for branch in within), default=-1)
            self.position[event] = self.position[guard] + 1 + self.level[event]

    @staticmethod
    def _guard(graph: Graph, event: bytes) -> bytes:
        """The nearest event without which no way would lead here: all others such are in its own past."""
        guards = [other for other in past(graph, [event]) - {event} if not _reached(graph, event, other)]
        return max(guards, key=lambda guard: len(past(graph, [guard])), default=BEGINNING)

    def _branch(self, guard: bytes, event: bytes) -> bytes:
        while self.guard[event] != guard:
            event = self.guard[event]
        return event

    def levels(self, guard: bytes) -> list[list[bytes]]:
        """What an event guards, level by level, each sorted."""
        guarded = [event for event, other in self.guard.items() if other == guard]
        highest = max((self.level[event] for event in guarded), default=-1)
        return [sorted(event for event in guarded if self.level[event] == level) for level in range(highest + 1)]


def _reached(graph: Graph, event: bytes, without: bytes) -> bool:
    """Whether a way leads from the beginning to an event that does not lead through another."""
    if event == without:
        return False
    parents = graph[event]
    return not parents or any(_reached(graph, parent, without) for parent in parents)


def sequence(graph: Graph) -> list[bytes]:
    places = Places(graph)

    def after(guard: bytes) -> Iterator[bytes]:
        for level in places.levels(guard):
            for event in level:
                yield event
                yield from after(event)

    return list(after(BEGINNING))


# The version digest


def digest(graph: Graph) -> bytes:
    """The version digest of all events of a graph."""
    places = Places(graph)

    def run(first: bytes) -> Leaves:
        at = places.position[first]
        leaves = {at: _hash(0, at.to_bytes(8), first)}
        levels = places.levels(first)
        for level, events in enumerate(levels):
            at = places.position[first] + 1 + level
            if level == len(levels) - 1 and len(events) == 1:
                leaves |= run(events[0])
            else:
                leaves[at] = _hash(2, at.to_bytes(8), root({int.from_bytes(event): branch(event) for event in events}))
        return leaves

    def branch(event: bytes) -> bytes:
        return _hash(3, event, root(run(event)))

    return sha256(b"quorumscope.version.v1\0" + root(run(BEGINNING))).digest()


def root(leaves: Leaves) -> bytes:
    """The root of a radix tree: a branch stands where the keys below it first differ."""
    if len(leaves) == 1:
        return next(iter(leaves.values()))
    highest = (min(leaves) ^ max(leaves)).bit_length() - 1
    sides = [{key: leaf for key, leaf in leaves.items() if key >> highest & 1 == side} for side in (0, 1)]
    return _hash(1, root(sides[0]), root(sides[1]))


def _hash(kind: int, *parts: bytes) -> bytes:
    return sha256(bytes([kind]) + b"".join(parts)).digest()


# Cost


@contextmanager
def counted_hashes() -> Iterator[Callable[[], int]]:
    """Counts the hashes that trees and versions make."""
    made = 0

    def counting(*given: Any) -> Any:
        nonlocal made
        made += 1
        return sha256(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix, "sha256", counting)
        patch.setattr(version, "sha256", counting)
        yield lambda: made


def events_of(found: Version) -> set[bytes]:
    return {event.id for event in found.events()}
