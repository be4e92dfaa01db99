"""Random graphs of events and their stamps. Pasts, paths and widths are found by trying everything.

Clocks are small here, so that counters collide all the time: a law that holds among coincidences holds without.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from state.bloom import Clock, Parameters

laws = settings(max_examples=60, deadline=None)
"""Without a deadline: on a busy machine any example can take long."""
SMALL = st.builds(Parameters, st.integers(1, 9), st.integers(1, 4))


def event_id(number: int) -> bytes:
    return number.to_bytes(32)


def merged(clocks: Sequence[Clock], parameters: Parameters) -> Clock:
    return reduce(Clock.merge, clocks, Clock.zero(parameters))


def chain(parameters: Parameters, events: Sequence[int], start: Clock | None = None) -> Clock:
    return reduce(Clock.after, map(event_id, events), start or Clock.zero(parameters))


class Graph(NamedTuple):
    """Events by number, each with parents of lower numbers."""

    parameters: Parameters
    parents: list[set[int]]

    def past(self, event: int) -> set[int]:
        """The event and all that it builds on."""
        return {event}.union(*map(self.past, self.parents[event]))

    def version(self, events: Sequence[int]) -> set[int]:
        return set().union(*map(self.past, events))

    def stamps(self) -> list[Clock]:
        found: list[Clock] = []
        for event, parents in enumerate(self.parents):
            found.append(merged([found[one] for one in parents], self.parameters).after(event_id(event)))
        return found

    def stamp(self, events: set[int]) -> Clock:
        found = self.stamps()
        return merged([found[event] for event in events], self.parameters)

    def paths(self, event: int) -> list[list[int]]:
        """All ways from a first event to this one."""
        below = [path for parent in self.parents[event] for path in self.paths(parent)]
        return [[*path, event] for path in below or [[]]]

    def width(self, events: set[int]) -> int:
        """The most events of which none is in the past of another, by trying all sets."""
        return max(
            sum(chosen)
            for chosen in product((False, True), repeat=len(events))
            if self._apart([event for event, taken in zip(sorted(events), chosen, strict=True) if taken])
        )

    def _apart(self, events: list[int]) -> bool:
        return not any(one in self.past(other) for one in events for other in events if one != other)


@st.composite
def graphs(draw: st.DrawFn, events_max: int = 9, parameters: st.SearchStrategy[Parameters] = SMALL) -> Graph:
    parents: list[set[int]] = []
    for event in range(draw(st.integers(1, events_max))):
        known = st.integers(max(0, event - 4), event - 1) if event else st.nothing()
        parents.append(draw(st.sets(known, max_size=3)) if event else set())
    return Graph(draw(parameters), parents)


def versions(graph: Graph) -> st.SearchStrategy[set[int]]:
    return st.lists(st.integers(0, len(graph.parents) - 1), max_size=3).map(graph.version)
