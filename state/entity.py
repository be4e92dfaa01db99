"""An entity that peers share: the graph of its events, and the version that any of them stands for.

Rules (SPEC: seed 002, generic protocol; DESIGN, clocks):
- The stamp of an event is the merge of the stamps of its parents, raised by the event. That of a version is the merge
  of the stamps of its tips.
- An event that builds on several is a join. What forks is kept whole; the order of all events is that of the default
  join strategy, branches sorted by their first event (`state.version`).
- All of it follows from the set of events, in whichever order they came, parents first.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

from state.bloom import Clock, Parameters
from state.events import Event, new_event, new_root
from state.limits import EVENTS_MAX
from state.version import NestingError, Version

STEPS_MAX = 16
"""The version of an event is kept for good if it takes so many steps to make it from others that are. A step is one
parent of one event, some 50 µs; a version is a stamp and some tree nodes, 6 kB with clocks of 1,024 counters. So of a
chain every 16th version is kept, and there is no graph in which it is dear to build on old events."""
RECENT_MAX = 256
"""The versions that were used last are kept besides: so many peers can go on with branches of their own."""


class EntityLimitError(Exception):
    """An event goes over a limit, which is named; nothing was changed."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class Entity:
    """All events of one entity that are held, and their versions."""

    def __init__(self, parameters: Parameters) -> None:
        self._root = new_root()
        self._events: dict[bytes, Event] = {}
        self._tips: set[bytes] = set()
        self._empty = Version.empty(self._root, Clock.zero(parameters))
        self._kept: dict[Event, Version] = {}
        self._recent: dict[Event, Version] = {}
        self._steps: dict[Event, int] = {}
        """At most how many it takes to make the version of an event that has none in `_kept`."""
        self.version = self._empty
        """Of all events."""

    def __contains__(self, event_id: bytes) -> bool:
        return event_id in self._events

    def __len__(self) -> int:
        return len(self._events)

    @property
    def versions(self) -> int:
        """How many versions are kept in memory: of a chain every 16th event's, of joins of many up to every event's."""
        return len(self._kept) + len(self._recent)

    @property
    def tips(self) -> tuple[bytes, ...]:
        """The events that no other one builds on, sorted."""
        return tuple(sorted(self._tips))

    def is_tip(self, event_id: bytes) -> bool:
        """Whether it is one of them."""
        return event_id in self._tips

    def event(self, event_id: bytes) -> Event:
        return self._events[event_id]

    def add(self, event_id: bytes, parents: Sequence[bytes]) -> bool:
        """Take in an event; False if it is held. Raises KeyError if a parent is not, EntityLimitError for a limit."""
        if event_id in self._events:
            return False
        if len(self._events) >= EVENTS_MAX:
            raise EntityLimitError("events")
        event = new_event(event_id, [self._events[parent] for parent in parents], len(self._events), self._root)
        past = self._past(event.parents)
        stamp = past.stamp.after(event_id)
        is_whole = past.size == self.version.size
        try:
            # With the same event in a part of the whole, no limit is hit that is not hit here.
            whole = self.version.after(event, stamp if is_whole else self.version.stamp.merge(stamp))
        except NestingError:
            raise EntityLimitError("nesting") from None
        self._keep(event, whole if is_whole else past.after(event, stamp))
        self._events[event_id] = event
        self._tips.difference_update(parents)
        self._tips.add(event_id)
        self.version = whole
        return True

    def version_of(self, ids: Iterable[bytes]) -> Version:
        """The version with these events and all that they build on. Raises KeyError for one that is not held."""
        return self._past([self._events[event_id] for event_id in ids])

    def sequence(self) -> list[bytes]:
        """All events in the order of the default join strategy."""
        return [event.id for event in self.version.events()]

    def _past(self, events: Sequence[Event]) -> Version:
        if {event.id for event in events} == self._tips:
            return self.version
        return self._joined([self._version_at(event) for event in events])

    def _joined(self, versions: Sequence[Version]) -> Version:
        return reduce(Version.join, versions) if versions else self._empty

    def _version_at(self, event: Event) -> Version:
        """The version of one event: one that is there, or made from those that are."""
        made: dict[Event, Version] = {}
        for step in self._lacking(event):
            past = self._joined([made.get(parent) or self._there(parent) for parent in step.parents])
            made[step] = past.after(step, past.stamp.after(step.id))
        version = made.get(event) or self._there(event)
        if event not in self._kept:
            self._remember(event, version)
        return version

    def _there(self, event: Event) -> Version:
        return self._kept.get(event) or self._recent[event]

    def _lacking(self, event: Event) -> list[Event]:
        """The events whose versions are needed and not there, in an order in which they can be made."""
        wanted: set[Event] = set()
        stack = [event]
        while stack:
            step = stack.pop()
            if step not in self._kept and step not in self._recent and step not in wanted:
                wanted.add(step)
                stack += step.parents
        return sorted(wanted, key=lambda one: one.number)

    def _keep(self, event: Event, version: Version) -> None:
        """Keep a new event's version for good, or for a while."""
        steps = sum(1 + self._steps.get(parent, 0) for parent in event.parents)
        if steps >= STEPS_MAX:
            self._kept[event] = version
        else:
            self._steps[event] = steps
            self._remember(event, version)

    def _remember(self, event: Event, version: Version) -> None:
        self._recent.pop(event, None)
        self._recent[event] = version
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]
