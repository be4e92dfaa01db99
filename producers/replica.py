"""A peer's replica of one entity: what an application changes, states, and feeds with the updates of others.

    replica = Replica(swarm, peer.public, b"menu", parameters)      # those of the swarm's Bloom clocks
    peer.append_update(replica.change(b"add soup"))                 # an event of our own
    for segment in peer.receive(record):
        for op in segment.ops:
            update = decode_update(op)
            if isinstance(update, Update) and update.entity == b"menu":
                for told in replica.receive(segment.head.author, update).events:
                    apply(told.update.change)
    peer.append_update(replica.state())                             # "I hold this version"

Rules:
- A change builds on all the branches that are held, so it joins them. More than an update can name are joined in steps.
- Each update claims the stamp and the digest of the version that it speaks of, so anyone can check what it says.
- An event is held once its parents are; until then it waits. What comes twice, in any order, changes nothing.
- It remembers nothing by itself: after a restart it is given all updates again, its own too.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from state.bloom import Parameters
from state.clockcode import encode_clock
from state.entity import Entity, EntityLimitError
from state.limits import PARENTS_MAX, PENDING_MAX
from state.update import Update, event_id
from state.version import Version


class Told(NamedTuple):
    """An event as its author told it."""

    id: bytes
    author: bytes
    update: Update


class Outcome(StrEnum):
    """What a replica did with an update."""

    ADDED = "added"
    HELD = "held"
    """It was there already, held or waiting."""
    WAITING = "waiting"
    """A part of its past is not held yet."""
    REFUSED = "refused"
    """There is no room: too many of its author's wait, or the entity is over a limit. It may be told again."""
    STATEMENT = "statement"
    """It makes no event."""


class Received(NamedTuple):
    """What was done, and the events that are held now and were not before, each after those that it builds on."""

    outcome: Outcome
    events: Sequence[Told] = ()


class Replica:
    """The events of one entity that a peer holds, and those that wait for their parents."""

    def __init__(self, swarm: bytes, author: bytes, name: bytes, parameters: Parameters) -> None:
        self.swarm = swarm
        self.author = author
        self.name = name
        self.entity = Entity(parameters)
        self._waiting: dict[bytes, Told] = {}
        self._waited_for: dict[bytes, list[bytes]] = {}
        self._waiting_of: Counter[bytes] = Counter()
        """How many wait of each author."""

    @property
    def waiting(self) -> int:
        """How many events were received and wait for a part of their past."""
        return len(self._waiting)

    def change(self, data: bytes) -> Update:
        """Do something to the entity: the update that tells it. Raises EntityLimitError if there is no room for it."""
        update = Update(self.name, self._tips(), data)
        own = event_id(self.swarm, self.author, update)
        self.entity.add(own, update.parents)
        return _claiming(update, self.entity.version_of([own]))

    def state(self) -> Update:
        """A statement of the version that is held, by its tips; of the first ones, if an update cannot name them all.

        Without events there is no stamp in it: with a stamp alone it would speak of a version by its clock.
        """
        tips = self._tips()
        stated = _claiming(Update(self.name, tips), self.entity.version_of(tips))
        return stated if tips else stated._replace(stamp=b"")

    def state_by_clock(self) -> Update:
        """A statement of the version that is held by its stamp and digest alone: it names no events."""
        return _claiming(Update(self.name), self.entity.version)

    def receive(self, author: bytes, update: Update) -> Received:
        """Take in an update that `author` signed. Its claims are not judged: nothing is built on them."""
        if update.entity != self.name:
            raise ValueError(f"want an update of {self.name!r}, got one of {update.entity!r}")
        if update.change is None:
            return Received(Outcome.STATEMENT)
        told = Told(event_id(self.swarm, author, update), author, update)
        if told.id in self.entity or told.id in self._waiting:
            return Received(Outcome.HELD)
        if self._missing(told):
            return Received(self._wait(told))
        added = self._hold(told)
        return Received(Outcome.ADDED, added) if added else Received(Outcome.REFUSED)

    def _tips(self) -> tuple[bytes, ...]:
        return self.entity.tips[:PARENTS_MAX]

    def _missing(self, told: Told) -> list[bytes]:
        return [parent for parent in told.update.parents if parent not in self.entity]

    def _wait(self, told: Told) -> Outcome:
        if self._waiting_of[told.author] >= PENDING_MAX:
            return Outcome.REFUSED
        self._waiting[told.id] = told
        self._waiting_of[told.author] += 1
        for parent in self._missing(told):
            self._waited_for.setdefault(parent, []).append(told.id)
        return Outcome.WAITING

    def _hold(self, told: Told) -> list[Told]:
        """Hold an event, and all that waited for nothing but it; what is over a limit is dropped."""
        added, ready = [], [told]
        while ready:
            now = ready.pop()
            if self._waiting.pop(now.id, None):
                self._waiting_of[now.author] -= 1
            try:
                self.entity.add(now.id, now.update.parents)
            except EntityLimitError:
                continue
            added.append(now)
            waiters = [self._waiting[waiter] for waiter in self._waited_for.pop(now.id, ())]
            ready += [waiter for waiter in waiters if not self._missing(waiter)]
        return added


def _claiming(update: Update, version: Version) -> Update:
    return update._replace(stamp=encode_clock(version.stamp), digest=version.digest)
