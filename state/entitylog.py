"""One entity as the topic tells it: its events, what each author said last of its replica, and what cannot be right.

Rules (SPEC: DESIGN, clocks), each a function of the set of updates and of their earliest record times:
- An event is held when all that it builds on is. Until then its update waits, and so does one that only speaks of a
  version. What a replica lacks is counted among the events that are held.
- What an update claims is held against what follows from its parents, when they are held. A claim that does not follow
  is bad, and nothing is built on it. What a version tells by its stamp alone can be held against nothing.
- A replica is judged by its author's newest update, by place in the log.
- An event over a limit is not held, and a verdict says which limit its author went over.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256

import msgspec

from state.bloom import Clock, Parameters
from state.clockcode import ClockDecodeError, decode_clock, read_parameters
from state.entity import Entity, EntityLimitError
from state.entitystore import (
    CHUNK_EVENTS,
    BadState,
    EntityState,
    EntityStore,
    ReplicaState,
    id_of,
    pack_event,
    parents_of,
    retimed,
    time_of,
)
from state.limits import PENDING_MAX
from state.standing import Standing, stand_by_clock, stand_by_names, stand_exactly
from state.told import Told
from state.version import Version, differences

_decode = lru_cache(maxsize=64)(decode_clock)
"""Several peers claim one stamp when they hold one version, and entities are taken in one after another. 64 of the
largest stamps are 20 MB."""

_EVENT_BYTES, _VERSION_BYTES, _OWN_VERSIONS = 600, 2_000, 4
"""In memory, measured. A version has a stamp besides, and an entity has some of its own."""

MALFORMED, PARAMETERS, STAMP, DIGEST = "malformed", "parameters", "stamp", "digest"


class Changes:
    """What is to be said, and saved."""

    def __init__(self) -> None:
        self.first_new: int | None = None
        """The number of the first event that is new."""
        self.chunks: set[int] = set()
        self.is_retimed = False
        """Whether an earlier copy of an event came."""
        self.authors: set[bytes] = set()
        """Whose replicas are to be judged anew."""
        self.bad: set[tuple[bytes, str]] = set()
        self.over: set[tuple[bytes, str]] = set()


class EntityLog:
    """All that is known of one entity."""

    def __init__(self, name: bytes, parameters: Parameters, pending_of: dict[bytes, int], store: EntityStore) -> None:
        """`pending_of` counts the updates of each author that wait, also those of other entities."""
        self.name = name
        self.entity = Entity(parameters)
        self.changes = Changes()
        self._parameters = parameters
        self._pending_of = pending_of
        stored = store.load(name)
        self.is_new = stored is None
        self.state, events = stored or (EntityState(), [])
        self._events: list[bytes] = []
        """Packed, in the order of their numbers."""
        self._waiting: dict[tuple[bytes, int], Told] = {}
        self._waited_for: dict[bytes, list[tuple[bytes, int]]] = {}
        for packed in events:
            self.entity.add(id_of(packed), [id_of(self._events[parent]) for parent in parents_of(packed)])
            self._events.append(packed)
        for told in self.state.waiting:
            self._put_waiting(told, self._missing(told))

    def __len__(self) -> int:
        return len(self._events)

    @property
    def memory_bytes(self) -> int:
        """What it takes in memory, about."""
        versions = _OWN_VERSIONS + self.entity.versions
        return _EVENT_BYTES * len(self) + versions * (_VERSION_BYTES + 4 * self._parameters.counters)

    # What comes

    def take(self, told: Told) -> None:
        """Take in an update, seen before or not."""
        if told.problem:
            self._note_bad(told, MALFORMED, told.problem)
            return
        missing = self._missing(told)
        if told.stamp and not self._can_use_stamp(told):
            if not told.names_version:
                return
            told = msgspec.structs.replace(told, stamp=b"")
        self._note_newest(told)
        if missing:
            self._wait(told, missing)
        else:
            self._settle(told)

    def _can_use_stamp(self, told: Told) -> bool:
        """Whether a stamp is one of the swarm's clocks. Nothing is made of one of another size: it may be huge."""
        try:
            parameters = read_parameters(told.stamp)
            if parameters != self._parameters:
                self._note_bad(told, PARAMETERS, _words(parameters), _words(self._parameters))
                return False
            _decode(told.stamp)
        except ClockDecodeError as error:
            self._note_bad(told, MALFORMED, f"stamp: {error}")
            return False
        return True

    def _missing(self, told: Told) -> list[bytes]:
        return [parent for parent in told.builds_on if parent not in self.entity]

    def _wait(self, told: Told, missing: list[bytes]) -> None:
        held = self._waiting.get(told.name)
        if held is not None:
            self._waiting[told.name] = min(told, held)
        elif self._pending_of.get(told.author, 0) >= PENDING_MAX:
            self.changes.over.add((told.author, "pending_updates"))
        else:
            self._pending_of[told.author] = self._pending_of.get(told.author, 0) + 1
            self._put_waiting(told, missing)

    def _put_waiting(self, told: Told, missing: list[bytes]) -> None:
        self._waiting[told.name] = told
        for parent in missing:
            self._waited_for.setdefault(parent, []).append(told.name)

    def _stop_waiting(self, told: Told) -> None:
        if self._waiting.pop(told.name, None) is not None:
            self._pending_of[told.author] -= 1
            if not self._pending_of[told.author]:
                del self._pending_of[told.author]

    def _settle(self, told: Told) -> None:
        """Take in an update whose parents are held, and all that waited for nothing but its event."""
        ready = [told]
        while ready:
            now = ready.pop()
            self._stop_waiting(now)
            is_new = bool(now.event) and self._hold(now)
            if not now.event or now.event in self.entity:
                self._check(now)
            if is_new:
                waiters = [self._waiting[name] for name in self._waited_for.pop(now.event, ())]
                ready += [waiter for waiter in waiters if not self._missing(waiter)]

    def _hold(self, told: Told) -> bool:
        """Hold an event; whether it is new."""
        if told.event in self.entity:
            self._retime(self.entity.event(told.event).number, told.time_ms)
            return False
        parents = told.builds_on
        try:
            self.entity.add(told.event, parents)
        except EntityLimitError as error:
            self.changes.over.add((told.author, error.limit))
            return False
        number = len(self._events)
        numbers = [self.entity.event(parent).number for parent in parents]
        self._events.append(pack_event(told.event, told.time_ms, numbers))
        self.changes.chunks.add(number // CHUNK_EVENTS)
        if self.changes.first_new is None:
            self.changes.first_new = number
        return True

    def _retime(self, number: int, time_ms: int) -> None:
        packed = self._events[number]
        if time_ms < time_of(packed):
            self._events[number] = retimed(packed, time_ms)
            self.changes.chunks.add(number // CHUNK_EVENTS)
            self.changes.is_retimed = True

    # What is claimed

    def _check(self, told: Told) -> None:
        """SPEC: DESIGN, clocks: a claim that does not follow from its parents is a verdict."""
        if not told.names_version or not (told.stamp or told.digest):
            return
        version = self.entity.version_of(told.tips)
        if told.stamp and (claimed := _decode(told.stamp)) != version.stamp:
            self._note_bad(told, STAMP, _tell(claimed), _tell(version.stamp))
        if told.digest and told.digest != version.digest:
            self._note_bad(told, DIGEST, told.digest.hex(), version.digest.hex())

    def _note_bad(self, told: Told, why: str, claimed: str, expected: str = "") -> None:
        now = BadState(told.time_ms, told.index, told.position, told.segment, claimed, expected)
        reasons = self.state.bad.setdefault(told.author, {})
        held = reasons.get(why)
        if held is None or now < held:
            reasons[why] = now
            self.changes.bad.add((told.author, why))

    # How replicas stand

    def _note_newest(self, told: Told) -> None:
        held = self.state.replicas.get(told.author)
        if held is None or (told.place, -told.time_ms) > (held.told.place, -held.told.time_ms):
            self.state.replicas[told.author] = ReplicaState(told)
            self.changes.authors.add(told.author)

    def standings(self) -> Iterator[tuple[bytes, ReplicaState, Standing]]:
        """The replicas that are to be told anew, by author, and how they stand."""
        changes, replicas = self.changes, self.state.replicas
        is_all = changes.first_new is not None or changes.is_retimed
        new_ms = min(map(time_of, self._events[changes.first_new :]), default=0) if is_all else 0
        for author in sorted(replicas if is_all else changes.authors):
            replica = replicas[author]
            if replica.size < 0 or changes.is_retimed:
                self._locate(replica)
            elif changes.first_new is not None:
                lacked_before = replica.size < changes.first_new
                replica.since_ms = min(replica.since_ms, new_ms) if lacked_before else new_ms
            yield author, replica, self._standing(replica)

    def _locate(self, replica: ReplicaState) -> None:
        """Find the version that was told, if all that it names is held."""
        told = replica.told
        tips = told.tips
        replica.since_ms = told.time_ms
        if not told.names_version or not all(map(self.entity.__contains__, tips)):
            return
        version = self.entity.version_of(tips)
        if replica.size < 0:
            replica.size, replica.has_digest = version.size, not told.digest or told.digest == version.digest
            if told.stamp or told.digest:
                # Nothing more is asked of what it claims.
                replica.told = msgspec.structs.replace(told, stamp=b"", digest=b"")
        if version.size < len(self.entity):
            replica.since_ms = min(map(time_of, self._lacking(tips, version)))

    def _lacking(self, tips: list[bytes], version: Version) -> Iterable[bytes]:
        """The events that a version of these tips lacks: at least all that came after the last of its tips."""
        after = 1 + max((self.entity.event(tip).number for tip in tips), default=-1)
        if version.size == after:
            return self._events[after:]
        return [self._events[event.number] for event in differences(version, self.entity.version).only_other]

    def _standing(self, replica: ReplicaState) -> Standing:
        told = replica.told
        if replica.size >= 0:
            return stand_exactly(self.entity, told, replica.size, has_digest=replica.has_digest)
        return stand_by_clock(self.entity, told) if told.stamp else stand_by_names(self.entity, told)

    def faults(self) -> Iterator[tuple[bytes, str, BadState]]:
        """The bad updates that are to be told anew: author, reason, and the earliest one."""
        return ((author, why, self.state.bad[author][why]) for author, why in sorted(self.changes.bad))

    # What is saved

    def save(self, store: EntityStore) -> None:
        """Write what was changed; it has been said."""
        for number in sorted(self.changes.chunks):
            store.save_events(self.name, number, self._events[number * CHUNK_EVENTS : (number + 1) * CHUNK_EVENTS])
        self.state.events = len(self._events)
        self.state.waiting = sorted(self._waiting.values())
        store.save(self.name, self.state)
        self.changes, self.is_new = Changes(), False

    def problems(self) -> Iterator[str]:
        """What is wrong with the entity, in words."""
        if len(self.entity) != len(self._events):
            yield f"want as many events as are kept, {len(self._events)}, got {len(self.entity)}"
        for told in self._waiting.values():
            if not self._missing(told):
                yield f"update {told.place} waits for nothing"
        for replica in self.state.replicas.values():
            told = replica.told
            held = told.names_version and all(tip in self.entity for tip in told.tips)
            if held != (replica.size >= 0):
                yield f"replica of {told.author.hex()}: its version is {'' if held else 'not '}held"
            elif held and replica.size != self.entity.version_of(told.tips).size:
                yield f"replica of {told.author.hex()}: got {replica.size} events"


def _words(parameters: Parameters) -> str:
    return f"{parameters.counters} × {parameters.hashes}"


def _tell(clock: Clock) -> str:
    """A clock in few words: what its counters add up to, and which it is."""
    return f"sum {clock.counters.sum()}, SHA-256 {sha256(clock.counters.astype('>u4').tobytes()).hexdigest()}"
