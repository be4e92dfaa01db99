"""How the replicas of one swarm stand: of each peer and entity what its newest verdict says, joined by the core's join.

Peers name entities as they like, and there is no end to names. So a swarm has a number of places, of which each key
that was ever in its roster has an equal part: a peer that invents entities fills its own part, and what comes after
that is not looked at. Of a verdict only what differs from one replica to the next is kept.

A verdict stands under the key that its facts give, or it is none of ours: so a key alone tells what is withdrawn.
"""

import heapq
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from state.limits import ENTITY_BYTES_MAX
from state.verdict import Replica, join, key_of

STATES = ("in_step", "behind", "ahead", "diverged")
IN_STEP, DIVERGED = STATES[0], STATES[-1]

LASTING_MS = 600_000
"""A divergence that lasts so long is none that concurrent writes explain: they are joined when the next update is
published, some noop intervals later. The alert has the same bound. What contradicts itself need not last."""

PLACES_MAX = 1 << 19
"""Replicas of a swarm that are kept, at 430 bytes each: 220 MB when all are taken, or 340 MB if no two peers name the
same entities. Eight peers can share 65,536 entities, a thousand peers 524."""

_CONTRADICTED = "digest"
_WHYS = {why: why for why in ("", "branch", "clock", _CONTRADICTED)}
_WORST_FIRST = {"diverged": 0, "ahead": 1, "behind": 2}
_ENTITY = re.compile(rf"(?:[0-9a-f]{{2}}){{1,{ENTITY_BYTES_MAX}}}")
_SEGMENT = re.compile(r"[0-9a-f]{64}")


class Place(NamedTuple):
    """Which replica a verdict is about, in hex digits."""

    swarm: str
    author: str
    entity: str


def can_be(verdict: Replica) -> bool:
    """Whether a verdict stands under its key, and what it names can be: the entity, the segment, one of the states."""
    key = key_of(Replica, verdict.swarm, verdict.author, verdict.entity)
    is_named = _ENTITY.fullmatch(verdict.entity) and _SEGMENT.fullmatch(verdict.segment)
    return verdict.key == key and verdict.state in STATES and is_named is not None


def place_of(key: str) -> Place | None:
    """The replica that a key names; None if it is the key of another kind of verdict."""
    parts = key.split("/")
    return Place(*parts[1:]) if len(parts) == 1 + len(Place._fields) and key_of(Replica, *parts[1:]) == key else None


def is_contradicted(replica: Replica) -> bool:
    """Whether it does not have the events that it says it has. No concurrent write explains that."""
    return replica.state == DIVERGED and replica.why == _CONTRADICTED


class Standing(NamedTuple):
    """How the replicas of one peer stand."""

    states: Mapping[str, int]
    """How many are in each state; all four are there."""
    contradicted: int
    """Those of the diverged ones that contradict themselves."""
    lacks_max: int
    """The most published events that one of them does not have."""
    diverged_since_ms: int | None
    """Since when the oldest divergence lasts, of those that may be concurrent writes; None if there is none."""
    is_full: bool
    """Whether the peer named more entities than its part of the places, so that not all are looked at."""


class Standings(NamedTuple):
    """How the replicas of some peers stand, and the worst of them."""

    entities: int
    by_author: Mapping[str, Standing]
    worst: list[Replica]

    def count(self, state: str) -> int:
        return sum(standing.states[state] for standing in self.by_author.values())

    @property
    def replicas(self) -> int:
        return sum(map(self.count, STATES))

    @property
    def apart(self) -> int:
        """How many are not in step."""
        return self.replicas - self.count(IN_STEP)


class Replicas:
    """All replicas of a swarm. `authors` are the keys that were ever in its roster; others are not looked at."""

    def __init__(self, swarm: str, authors: Collection[str]) -> None:
        self._swarm = swarm
        self._authors = {author: author for author in authors}
        self.part = max(1, PLACES_MAX // max(1, len(authors)))
        """Places of one peer."""
        self._kept: dict[str, dict[str, Replica]] = {author: {} for author in authors}
        """By author and entity."""
        self._apart: dict[str, dict[str, Replica]] = {author: {} for author in authors}
        """Those that are not in step: in health few, so that a scrape need not look at all."""
        self._entities: dict[str, _Shared] = {}
        self._full: set[str] = set()
        self._standings: dict[str, Standing] = {}

    @property
    def entities(self) -> int:
        return len(self._entities)

    def add(self, verdict: Replica) -> None:
        """Take in a verdict that can be."""
        kept = self._kept.get(verdict.author)
        if kept is None:
            return
        held = kept.get(verdict.entity)
        if held is not None:
            replica = join(held, self._slim(verdict, held.entity))
        elif len(kept) < self.part:
            shared = self._entities.setdefault(verdict.entity, _Shared(verdict.entity))
            shared.replicas += 1
            replica = self._slim(verdict, shared.entity)
        else:
            self._full.add(verdict.author)
            self._standings.pop(verdict.author, None)
            return
        kept[replica.entity] = replica
        self._sort(replica.author, replica.entity, replica)

    def withdraw(self, author: str, entity: str) -> None:
        """Take a verdict back; one that is not kept need not be."""
        if self._kept.get(author, {}).pop(entity, None) is None:
            return
        shared = self._entities[entity]
        shared.replicas -= 1
        if not shared.replicas:
            del self._entities[entity]
        self._sort(author, entity, None)

    def standing(self, author: str) -> Standing:
        """How the replicas of a peer stand. Made anew only if one of them has changed."""
        standing = self._standings.get(author)
        if standing is None:
            standing = self._standings[author] = self._judge(author)
        return standing

    def standings(self, authors: Iterable[str], worst_max: int) -> Standings:
        """How the replicas of some peers stand, with so many of the worst: those that contradict themselves, then
        diverged, ahead, behind ones, and of each the oldest first.
        """
        by_author = {author: self.standing(author) for author in authors}
        apart = (replica for author in by_author for replica in self._apart.get(author, {}).values())
        return Standings(self.entities, by_author, heapq.nsmallest(worst_max, apart, key=_place))

    def _sort(self, author: str, entity: str, replica: Replica | None) -> None:
        if replica is None or replica.state == IN_STEP:
            self._apart[author].pop(entity, None)
        else:
            self._apart[author][entity] = replica
        self._standings.pop(author, None)

    def _judge(self, author: str) -> Standing:
        apart = list(self._apart.get(author, {}).values())
        states = Counter(replica.state for replica in apart)
        states[IN_STEP] = len(self._kept.get(author, {})) - len(apart)
        parted = [replica for replica in apart if replica.state == DIVERGED and not is_contradicted(replica)]
        return Standing(
            states={state: states[state] for state in STATES},
            contradicted=states[DIVERGED] - len(parted),
            lacks_max=max((replica.lacks for replica in apart), default=0),
            diverged_since_ms=min((replica.since_ms for replica in parted), default=None),
            is_full=author in self._full,
        )

    def _slim(self, verdict: Replica, entity: str) -> Replica:
        """The same verdict, with one copy of each text that many share, and without those that others give."""
        return msgspec.structs.replace(
            verdict,
            key="",
            config="",
            swarm=self._swarm,
            author=self._authors[verdict.author],
            entity=entity,
            state=STATES[STATES.index(verdict.state)],
            why=_WHYS.get(verdict.why, ""),
        )


class _Shared:
    """An entity: its one copy of the name, and how many replicas of it are kept."""

    __slots__ = ("entity", "replicas")

    def __init__(self, entity: str) -> None:
        self.entity = entity
        self.replicas = 0


def _place(replica: Replica) -> tuple[bool, int, int, str, str]:
    worst = _WORST_FIRST[replica.state]
    return not is_contradicted(replica), worst, replica.since_ms, replica.entity, replica.author
