"""The graph of an entity's events, and the place that each has in the one order of them all.

An event builds on parents, which come before it. Rules, each a function of an event's past alone, so that what comes
later never moves what is there:
- The *guard* of an event is the nearest event through which every way from the beginning to it leads (in graph theory
  its immediate dominator). Of an event with one parent it is that parent; of a join, the event before the fork that it
  closes. The beginning itself guards the first events.
- Of the events with one guard, those that build on nothing but the guard have level 0: each begins a branch. One that
  builds on events under the guard has a level one higher than the highest of the branches or joins which these are in.
- The *position* of an event is that of its guard, plus one, plus its level.
The guards make a tree, in which `jump` pointers find ancestors in O(log n) steps.
"""

from collections.abc import Sequence
from functools import reduce


class Event:
    """An event and what follows from its past. `number` counts events in the order in which they came."""

    __slots__ = ("depth", "guard", "id", "jump", "level", "number", "parents", "position")

    guard: "Event"
    jump: "Event"

    def __init__(
        self, event_id: bytes, parents: tuple["Event", ...], number: int, guard: "Event | None", level: int
    ) -> None:
        self.id = event_id
        self.parents = parents
        self.number = number
        self.level = level
        self.guard = guard or self
        self.jump = _jump(guard) if guard else self
        self.depth: int = guard.depth + 1 if guard else 0
        """How many guards stand above it."""
        self.position: int = guard.position + 1 + level if guard else 0


def new_root() -> Event:
    """The beginning of a graph: nothing is before it, and it is no event itself."""
    return Event(bytes(32), (), -1, None, 0)


def new_event(event_id: bytes, parents: Sequence[Event], number: int, root: Event) -> Event:
    """An event in its place. Requires parents of the graph that begins with `root`."""
    guard = reduce(_common, parents) if parents else root
    level = 1 + max(_level(guard, parent) for parent in parents) if len(parents) > 1 else 0
    return Event(event_id, tuple(parents), number, guard, level)


def _common(one: Event, other: Event) -> Event:
    """The nearest common ancestor of two events in the tree of guards."""
    one, other = _up(one, other.depth), _up(other, one.depth)
    while one is not other:
        if one.jump is not other.jump:
            one, other = one.jump, other.jump
        else:
            one, other = one.guard, other.guard
    return one


def _up(event: Event, depth: int) -> Event:
    """The ancestor of an event at a depth; the event itself if it is not deeper."""
    while event.depth > depth:
        event = event.jump if event.jump.depth >= depth else event.guard
    return event


def _level(guard: Event, parent: Event) -> int:
    """The level of the branch or join under `guard` that a parent is in; −1 if it is the guard itself."""
    return -1 if parent is guard else _up(parent, guard.depth + 1).level


def _jump(guard: Event) -> Event:
    """How far up an event points: as far as its guard's pointer and that one's together, if these are as long."""
    far = guard.jump
    return far.jump if guard.depth - far.depth == far.depth - far.jump.depth else guard
