"""The clocks fold: entities that peers share, whether their replicas are in step, and claims that cannot be right.

Key: a swarm and a shard of its entities. Events: updates, each to the shard of its entity; they are taken in when the
clock has passed them, so that no partition that is read ahead makes a replica look ahead. `state.entitylog` has the
rules of one entity. An entity is read when an update of it comes, and stays in memory for as long as there is room.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import msgspec

from state.config import Config, Swarm
from state.entitylog import EntityLog
from state.entitystore import EntityStore, entity_of
from state.fold import Archive, Arrivals, Message, Outcome, Tally, Topic
from state.limits import EVENTS_MAX, NESTING_MAX, PENDING_MAX
from state.told import Told, decode_told, encode_told, tell
from state.verdict import BadUpdate, Limit, Replica, Verdict, encode_verdict, key_of
from state.waiting import Codec, Waiting

SHARDS = 8
"""Shards a swarm: a key visited costs 0.6 ms in each batch, also where nobody shares an entity."""
PAYLOAD_UPDATES = 4096
"""Updates that travel together in one row."""
MEMORY_BYTES_MAX = 64 << 20
"""What the entities of a shard may take in memory, about: half a gigabyte where one machine has all shards."""
LIMITS = {"events": EVENTS_MAX, "nesting": NESTING_MAX, "pending_updates": PENDING_MAX}


class ShardState(msgspec.Struct, array_like=True):
    """The blob of a shard."""

    clock_ms: int = 0
    waiting_pieces: int = 0
    pending_of: dict[bytes, int] = {}
    """How many updates of an author wait for events that nobody has published."""
    over: list[tuple[bytes, str]] = []
    """Authors that were said to have gone over a limit."""
    updates: int = 0
    events: int = 0
    entities: int = 0


_decoder = msgspec.msgpack.Decoder(ShardState)
_encoder = msgspec.msgpack.Encoder()
_TOLD = Codec(encode_told, decode_told)


class ClocksFold:
    """Routes updates to the shards of their entities."""

    name = "clocks"
    version = 1
    tallies = ("updates", "updates_early", "entity_events", "entities")

    def __init__(self, config: Config) -> None:
        self._config = config
        self._swarms = {swarm.key: swarm for swarm in config.swarms}

    def all_keys(self) -> Iterable[bytes]:
        return [key + bytes([shard]) for key in sorted(self._swarms) for shard in range(SHARDS)]

    def route(self, arrivals: Arrivals) -> Iterator[tuple[bytes, bytes]]:
        by_shard: dict[bytes, list[Told]] = {}
        for arrival in arrivals.verified:
            for told in tell(arrival):
                shard = arrival.segment.head.swarm + bytes([shard_of(told.entity)])
                by_shard.setdefault(shard, []).append(told)
        for shard, told_here in by_shard.items():
            for at in range(0, len(told_here), PAYLOAD_UPDATES):
                yield shard, encode_told(told_here[at : at + PAYLOAD_UPDATES])

    def open(self, key: bytes, blob: bytes | None, archive: Archive) -> "ClocksShard":
        state = ShardState() if blob is None else _decoder.decode(blob)
        return ClocksShard(self._swarms[key[:32]], self._config.digest, state, archive)


def shard_of(entity: bytes) -> int:
    return crc32(entity) % SHARDS


class ClocksShard:
    """The entities of one shard."""

    memory_bytes_max = MEMORY_BYTES_MAX

    def __init__(self, swarm: Swarm, config: str, state: ShardState, archive: Archive) -> None:
        self._swarm = swarm
        self._about: dict[str, Any] = {"swarm": swarm.id, "config": config}
        self._store = EntityStore(archive)
        self._waiting = Waiting(archive, state.waiting_pieces, _TOLD)
        self._open: dict[bytes, EntityLog] = {}
        """By name, the one used last at the end."""
        self._sizes: dict[bytes, int] = {}
        """What each of them takes in memory, about."""
        self._open_bytes = 0
        self.state = state

    def absorb(self, payloads: Iterable[bytes], clock_ms: int) -> Outcome:
        """Take in what the clock has passed, and say what follows."""
        state = self.state
        before = state.updates, state.events, state.entities
        self._waiting.add(payloads)
        state.clock_ms = max(state.clock_ms, clock_ms)
        due, early = self._waiting.take(state.clock_ms)
        verdicts = [verdict for log in self._take(due) for verdict in (*self._found(log), *self._limits(log))]
        self._waiting.flush()
        after = state.updates, state.events, state.entities
        updates, events, entities = (now - then for now, then in zip(after, before, strict=True))
        counted = zip(ClocksFold.tallies, (updates, early, events, entities), strict=True)
        messages = [Message(Topic.VERDICTS, v.key.encode(), encode_verdict(v)) for v in verdicts]
        return Outcome(messages, [Tally(name, amount) for name, amount in counted])

    def pack(self) -> bytes:
        """The blob; what stands in the archive was written when the batch was absorbed."""
        self.state.waiting_pieces = self._waiting.pieces
        return _encoder.encode(self.state)

    def check_invariants(self) -> list[str]:
        state, problems = self.state, []
        if state.events > state.updates:
            problems.append(f"{state.events} events of {state.updates} updates")
        if max(state.pending_of.values(), default=0) > PENDING_MAX:
            problems.append("more updates of an author wait than may")
        return problems

    def audit(self, names: Iterable[bytes]) -> Iterator[str]:
        state = self.state
        yield from self.check_invariants()
        entities = [entity for entity in map(entity_of, names) if entity is not None]
        pending_of: dict[bytes, int] = {}
        events = 0
        for entity in entities:
            log = EntityLog(entity, self._swarm.clock_parameters, pending_of, self._store)
            events += len(log)
            yield from (f"{entity!r}: {problem}" for problem in log.problems())
            for told in log.state.waiting:
                pending_of[told.author] = pending_of.get(told.author, 0) + 1
        if (len(entities), events) != (state.entities, state.events):
            yield f"want {state.events} events of {state.entities} entities, got {events} of {len(entities)}"
        if pending_of != state.pending_of:
            yield f"updates that wait: want {pending_of}, got {state.pending_of}"

    # Updates come in

    def _take(self, due: list[Told]) -> Iterator[EntityLog]:
        """Take in updates; gives the entities that they are of, one after another, and saves each when it was told.

        So a batch that touches many large entities needs room for one of them above what may stay open.
        """
        by_entity: dict[bytes, list[Told]] = {}
        for told in due:
            by_entity.setdefault(told.entity, []).append(told)
        self.state.updates += len(due)
        for entity, told_here in sorted(by_entity.items()):
            log = self._log(entity)
            held = len(log)
            for told in told_here:
                log.take(told)
            self.state.entities += log.is_new
            self.state.events += len(log) - held
            yield log
            log.save(self._store)
            self._make_room(log)

    def _log(self, entity: bytes) -> EntityLog:
        log = self._open.pop(entity, None)
        if log is None:
            log = EntityLog(entity, self._swarm.clock_parameters, self.state.pending_of, self._store)
        self._open[entity] = log
        return log

    def _make_room(self, log: EntityLog) -> None:
        """Let the entities go that were not used for the longest time, if this one leaves no room for all."""
        size = log.memory_bytes
        self._open_bytes += size - self._sizes.get(log.name, 0)
        self._sizes[log.name] = size
        while self._open_bytes > self.memory_bytes_max:
            entity = next(iter(self._open))
            del self._open[entity]
            self._open_bytes -= self._sizes.pop(entity)

    # What follows

    def _found(self, log: EntityLog) -> Iterator[Verdict]:
        entity = log.name.hex()
        for author, replica, standing in log.standings():
            told = replica.told
            yield Replica(
                key=key_of(Replica, self._swarm.id, author.hex(), entity),
                author=author.hex(),
                entity=entity,
                events=len(log),
                segment=told.segment.hex(),
                index=told.index,
                position=told.position,
                stated_ms=told.time_ms,
                since_ms=replica.since_ms,
                **standing._asdict(),
                **self._about,
            )
        for author, why, bad in log.faults():
            yield BadUpdate(
                key=key_of(BadUpdate, self._swarm.id, author.hex(), entity, why),
                author=author.hex(),
                entity=entity,
                why=why,
                segment=bad.segment.hex(),
                index=bad.index,
                position=bad.position,
                seen_ms=bad.seen_ms,
                claimed=bad.claimed,
                expected=bad.expected,
                **self._about,
            )

    def _limits(self, log: EntityLog) -> Iterator[Verdict]:
        said = self.state.over
        for author, limit in sorted(log.changes.over.difference(said)):
            said.append((author, limit))
            key = key_of(Limit, self._swarm.id, author.hex(), "clocks", limit)
            yield Limit(key=key, author=author.hex(), limit=limit, maximum=LIMITS[limit], **self._about)
