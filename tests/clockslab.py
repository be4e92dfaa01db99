"""Random updates of a few entities, and the slow, obviously right answer to how their replicas stand.

Sets of events and plain search only: nothing here knows of shards, chunks, batches, or of anything that is kept.
Clocks are tiny, so that coincidences are common.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np

from state import wire_pb2
from state.bloom import Clock, Parameters, Relation, events_between, indices
from state.clockcode import ClockDecodeError, decode_clock, encode_clock, read_parameters
from state.clocks import ClocksFold
from state.config import Config
from state.entity import Entity
from state.fold import Arrival, Arrivals
from state.segment import Segment
from state.told import Told, tell
from state.update import Update, encode_update, event_id
from state.verdict import BadUpdate, Replica, Verdict, encode_verdict, key_of
from tests.loglab import AUTHORS, START_MS, SWARM, Copy, lab_config, noop

PARAMETERS = Parameters(12, 2)
ENTITIES = (b"board", b"menu")


def clocks_config() -> Config:
    (swarm,) = lab_config().swarms
    from state.config import ClockSize

    return Config((msgspec.structs.replace(swarm, clock=ClockSize(*PARAMETERS)),))


# A world that makes updates


class World:
    """All events that anyone made, published or not, and versions of them."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.graphs: dict[bytes, dict[bytes, tuple[bytes, ...]]] = {entity: {} for entity in ENTITIES}
        self.copies: list[Copy] = []
        self._indexes: dict[bytes, int] = defaultdict(int)
        self._now_ms = START_MS

    def step(self) -> None:
        """A segment with some updates, published once, several times, late or never."""
        chance, author = self.chance, self.chance.choice(AUTHORS)
        self._now_ms += chance.choice([1, 10, 300])
        ops = [self._op(author) for _ in range(chance.randint(1, 4))]
        self._indexes[author] += chance.choice([1, 1, 1, 1, 0, 2])
        index = max(1, self._indexes[author])
        made = noop(author, index, sha256(b"%d" % chance.randrange(1 << 30)).digest(), time_ms=self._now_ms)
        segment = made._replace(ops=tuple(ops))
        for _ in range(chance.choice([0, 1, 1, 1, 1, 1, 2, 3])):
            self.copies.append(Copy(segment, self._now_ms + chance.choice([0, 5, 500])))

    def _op(self, author: bytes) -> bytes:
        chance = self.chance
        entity = chance.choice(ENTITIES)
        graph = self.graphs[entity]
        if chance.random() < 0.05:
            return wire_pb2.Op(update=wire_pb2.Update(entity=entity, digest=b"short")).SerializeToString()
        parents = self._parents(graph)
        update = Update(entity, parents)
        if chance.random() < 0.6:
            update = update._replace(change=b"%d" % chance.randrange(4))
            graph.setdefault(event_id(SWARM, author, update), parents)
        tips = [event_id(SWARM, author, update)] if update.change is not None else list(parents)
        update = self._claiming(update, Slow(graph, tips))
        if update.change is None and chance.random() < 0.3:
            update = update._replace(parents=())
        return encode_update(update)

    def _parents(self, graph: dict[bytes, tuple[bytes, ...]]) -> tuple[bytes, ...]:
        chance = self.chance
        names = list(graph)
        if chance.random() < 0.4 and names:
            built_on = {parent for parents in graph.values() for parent in parents}
            return tuple(sorted(set(names) - built_on))
        some = set(chance.sample(names[-4:], min(len(names[-4:]), chance.randint(0, 2))))
        if chance.random() < 0.04:
            some.add(sha256(b"%d" % chance.randrange(3)).digest())
        return tuple(sorted(some))

    def _claiming(self, update: Update, version: "Slow") -> Update:
        """With none, some or all claims; now and then a false one."""
        chance = self.chance
        stamp, digest = b"", b""
        if chance.random() < 0.6:
            counters = version.stamp.counters + np.uint32(0)
            if chance.random() < 0.15:
                counters[chance.randrange(len(counters))] += chance.choice([1, 3])
            stamp = encode_clock(Clock(PARAMETERS, counters))
            stamp = chance.choices([stamp, encode_clock(Clock.zero(Parameters(12, 3))), stamp[:-1]], [30, 1, 1])[0]
        if chance.random() < 0.6:
            digest = version.digest if chance.random() < 0.9 else sha256(b"false").digest()
        return update._replace(stamp=stamp, digest=digest)


def history(seed: int, steps: int = 25) -> list[Copy]:
    world = World(Random(seed))
    for _ in range(steps):
        world.step()
    return world.copies


def batches_of(chance: Random, copies: list[Copy]) -> list[list[Copy]]:
    """The same copies in any order, some of them several times, cut anywhere."""
    again = chance.sample(copies, min(4, len(copies)))
    batches: list[list[Copy]] = [[]]
    for copy in chance.sample(copies + again, len(copies) + len(again)):
        if chance.random() < 0.3:
            batches.append([])
        batches[-1].append(copy)
    return batches


# The fold


class Run(NamedTuple):
    """The compacted verdicts, what was counted, and what is kept."""

    verdicts: dict[bytes, bytes]
    tallies: dict[str, int]
    archives: dict[bytes, dict[bytes, bytes]]


def run_clocks(
    batches: list[list[Copy]],
    *,
    clocks: Iterable[int] = (),
    reopen: bool = True,
    memory_bytes_max: int | None = None,
    config: Config | None = None,
) -> Run:
    """The fold over these batches, each shard packed and opened again after each batch if `reopen`.

    `clocks` are the clocks of the first batches; the last one, without events, has the newest record time.
    """
    fold = ClocksFold(config or clocks_config())
    archives: dict[bytes, dict[bytes, bytes]] = {key: {} for key in fold.all_keys()}
    machines = {key: fold.open(key, None, archives[key]) for key in fold.all_keys()}
    verdicts: dict[bytes, bytes] = {}
    tallies: dict[str, int] = defaultdict(int)
    end_ms = max((copy.time_ms for batch in batches for copy in batch), default=0)
    times = [*clocks][: len(batches)]
    times = [min(time_ms, end_ms) for time_ms in times] + [0] * (len(batches) - len(times))
    for batch, clock_ms in zip([*batches, []], [*times, end_ms], strict=True):
        routed = defaultdict(list)
        for key, payload in fold.route(Arrivals([Arrival(*copy) for copy in batch], [])):
            routed[key].append(payload)
        for key, machine in machines.items():
            if memory_bytes_max is not None:
                machine.memory_bytes_max = memory_bytes_max
            outcome = machine.absorb(routed[key], clock_ms)
            assert [problem for log in machine._open.values() for problem in log.problems()] == []
            for message in outcome.messages:
                assert message.value is not None
                verdicts[message.key] = message.value
            for tally in outcome.tallies:
                tallies[tally.name] += tally.amount
            again = fold.open(key, machine.pack(), archives[key])
            assert list(again.audit(archives[key])) == []
            if reopen:
                machines[key] = again
    return Run(verdicts, dict(tallies), archives)


# The oracle


class Slow:
    """The version that is the past of some events of a graph, by search; parents that are not there are left out."""

    def __init__(self, graph: dict[bytes, tuple[bytes, ...]], tips: Iterable[bytes]) -> None:
        self._graph = graph
        self.events: set[bytes] = set()
        stack = [tip for tip in tips if tip in graph]
        while stack:
            at = stack.pop()
            if at not in self.events:
                self.events.add(at)
                stack += [parent for parent in graph[at] if parent in graph]

    @cached_property
    def _ordered(self) -> list[bytes]:
        """Each after those that it builds on."""
        done: dict[bytes, None] = {}
        left = sorted(self.events)
        while left:
            ready = [at for at in left if all(p in done or p not in self._graph for p in self._graph[at])]
            done |= dict.fromkeys(ready)
            left = [at for at in left if at not in done]
        return list(done)

    @cached_property
    def stamp(self) -> Clock:
        stamps: dict[bytes, Any] = {}
        for at in self._ordered:
            below = [stamps[parent] for parent in self._graph[at] if parent in stamps]
            stamps[at] = np.max([np.zeros(PARAMETERS.counters, np.uint32), *below], axis=0)
            for index in indices(at, PARAMETERS):
                stamps[at][index] += 1
        return Clock(PARAMETERS, np.max([np.zeros(PARAMETERS.counters, np.uint32), *stamps.values()], axis=0))

    @cached_property
    def digest(self) -> bytes:
        """From scratch; tests of `state.version` hold it against its definition."""
        entity = Entity(PARAMETERS)
        for at in self._ordered:
            entity.add(at, [parent for parent in self._graph[at] if parent in self._graph])
        return entity.version.digest


class Oracle:
    """What must be said of a set of copies."""

    def __init__(self, copies: list[Copy], config: Config | None = None) -> None:
        self._config = config or clocks_config()
        self.told: dict[bytes, list[Told]] = defaultdict(list)
        for segment, time_ms in _earliest(copies):
            for told in tell(Arrival(segment, time_ms)):
                self.told[told.entity].append(told)

    def verdicts(self) -> dict[bytes, bytes]:
        found = (verdict for entity in self.told for verdict in self._of(entity))
        return {verdict.key.encode(): encode_verdict(verdict) for verdict in found}

    def _of(self, entity: bytes) -> Iterator[Verdict]:
        told = self.told[entity]
        graph = {one.event: tuple(one.builds_on) for one in told if one.event}
        closed = {at for at in graph if _is_closed(at, graph)}
        held = {at: parents for at, parents in graph.items() if at in closed}
        times = {at: min(one.time_ms for one in told if one.event == at) for at in held}
        yield from self._bad(entity, told, held)
        newest: dict[bytes, Told] = {}
        for one in told:
            if self._speaks(one) and one.place > newest.get(one.author, _NOTHING).place:
                newest[one.author] = one
        for one in newest.values():
            yield self._replica(one, held, times)

    def _speaks(self, one: Told) -> bool:
        return not one.problem and (one.names_version or _usable(one))

    def _bad(self, entity: bytes, told: list[Told], held: dict[bytes, tuple[bytes, ...]]) -> Iterator[BadUpdate]:
        found: dict[tuple[bytes, str], list[Any]] = defaultdict(list)
        for one in told:
            for why, claimed, expected in _faults(one, held):
                place = one.time_ms, one.index, one.position, one.segment, claimed, expected
                found[one.author, why].append(place)
        for (author, why), places in found.items():
            seen_ms, index, position, segment, claimed, expected = min(places)
            yield BadUpdate(
                key=key_of(BadUpdate, SWARM.hex(), author.hex(), entity.hex(), why),
                swarm=SWARM.hex(),
                config=self._config.digest,
                author=author.hex(),
                entity=entity.hex(),
                why=why,
                segment=segment.hex(),
                index=index,
                position=position,
                seen_ms=seen_ms,
                claimed=claimed,
                expected=expected,
            )

    def _replica(self, one: Told, held: dict[bytes, tuple[bytes, ...]], times: dict[bytes, int]) -> Replica:
        everything = Slow(held, held)
        facts: dict[str, Any] = {"why": "", "lacks": 0, "extra": 0, "by_clock": False}
        since_ms = one.time_ms
        if one.names_version and all(tip in held for tip in one.tips):
            version = Slow(held, one.tips)
            lacking = everything.events - version.events
            since_ms = min((times[at] for at in lacking), default=since_ms)
            facts |= _exactly(one, version, held, len(lacking))
        elif _usable(one):
            facts |= _by_clock(one, everything)
        else:
            facts |= {"state": "ahead", "extra": sum(tip not in held for tip in one.tips)}
        return Replica(
            key=key_of(Replica, SWARM.hex(), one.author.hex(), one.entity.hex()),
            swarm=SWARM.hex(),
            config=self._config.digest,
            author=one.author.hex(),
            entity=one.entity.hex(),
            events=len(held),
            segment=one.segment.hex(),
            index=one.index,
            position=one.position,
            stated_ms=one.time_ms,
            since_ms=since_ms,
            **facts,
        )


_NOTHING = Told(0, b"", 0, b"", 0, b"")


def _earliest(copies: Iterable[Copy]) -> list[tuple[Segment, int]]:
    times: dict[bytes, tuple[Segment, int]] = {}
    for segment, time_ms in copies:
        times[segment.id] = segment, min(time_ms, times.get(segment.id, (segment, time_ms))[1])
    return list(times.values())


def _is_closed(at: bytes, graph: dict[bytes, tuple[bytes, ...]]) -> bool:
    seen, stack = set(), [at]
    while stack:
        now = stack.pop()
        if now not in graph:
            return False
        if now not in seen:
            seen.add(now)
            stack += graph[now]
    return True


def _usable(one: Told) -> bool:
    """Whether it has a stamp that is one of the swarm's clocks."""
    try:
        return read_parameters(one.stamp) == PARAMETERS and decode_clock(one.stamp).parameters == PARAMETERS
    except ClockDecodeError:
        return False


def _faults(one: Told, held: dict[bytes, tuple[bytes, ...]]) -> Iterator[tuple[str, str, str]]:
    if one.problem:
        yield "malformed", one.problem, ""
        return
    if one.stamp and not _usable(one):
        try:
            parameters = read_parameters(one.stamp)
            decode_clock(one.stamp)
            yield "parameters", f"{parameters.counters} × {parameters.hashes}", "12 × 2"
        except ClockDecodeError as error:
            yield "malformed", f"stamp: {error}", ""
    if not one.names_version or any(tip not in held for tip in one.tips):
        return
    version = Slow(held, one.tips)
    if _usable(one) and decode_clock(one.stamp) != version.stamp:
        yield "stamp", _clock_words(decode_clock(one.stamp)), _clock_words(version.stamp)
    if one.digest and one.digest != version.digest:
        yield "digest", one.digest.hex(), version.digest.hex()


def _clock_words(clock: Clock) -> str:
    counters = clock.counters.tolist()
    return f"sum {sum(counters)}, SHA-256 {sha256(struct.pack('>12I', *counters)).hexdigest()}"


def _exactly(one: Told, version: Slow, held: dict[bytes, tuple[bytes, ...]], lacks: int) -> dict[str, Any]:
    if one.digest and one.digest != version.digest:
        return {"state": "diverged", "why": "digest", "lacks": lacks}
    tips = held.keys() - {parent for parents in held.values() for parent in parents}
    if lacks and version.events & tips:
        return {"state": "diverged", "why": "branch", "lacks": lacks}
    return {"state": "behind" if lacks else "in_step", "lacks": lacks}


def _by_clock(one: Told, everything: Slow) -> dict[str, Any]:
    claimed, published = Clock(PARAMETERS, decode_clock(one.stamp).counters), everything.stamp
    if published.total == 2 * len(everything.events):
        published = Clock(PARAMETERS, published.counters, len(everything.events))
    relation = claimed.relation(published)
    lacks, extra = events_between(claimed, published).estimate, events_between(published, claimed).estimate
    if relation is Relation.EQUAL:
        if one.digest and one.digest != everything.digest:
            return {"state": "diverged", "why": "digest", "by_clock": True}
        return {"state": "in_step", "by_clock": True}
    if relation is Relation.BEFORE:
        return {"state": "behind", "lacks": lacks, "by_clock": True}
    if relation is Relation.AFTER:
        return {"state": "ahead", "extra": extra, "by_clock": True}
    return {"state": "diverged", "why": "clock", "lacks": lacks, "extra": extra, "by_clock": True}
