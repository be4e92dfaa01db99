"""Updates that the clocks fold absorbs in a second of one core, and what an entity takes: part of `make bench`.

Entities that some peers change in turn, each building on what there is, and that others state. Routing, absorbing and
packing are measured, verdicts included; verification is not, `--what verify` does that. The second half is measured: by
then histories are as long as they get.
"""

import gc
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from producers.load import Crew
from producers.replica import Replica
from state.bloom import DEFAULT_PARAMETERS
from state.clocks import ClocksFold
from state.config import Config
from state.fold import Arrival, Arrivals
from state.head import NO_PREVIOUS
from state.segment import Ref
from state.update import encode_update
from streaming.worker import COLLECT_AFTER

GOAL = 20_000
ENTITIES, WRITERS, READERS = 100, 4, 4
BATCHES = 40
"""In each of them every writer changes every entity, and every reader states it."""
SEGMENT_OPS = 50
BATCH_MS = 1_000
START_MS = 1_700_000_000_000


class Claims(NamedTuple):
    name: str
    digest: bool
    stamp: bool


CASES = (
    Claims("nothing", digest=False, stamp=False),
    Claims("the digest", digest=True, stamp=False),
    Claims("the digest and the stamp", digest=True, stamp=True),
)


class Measured(NamedTuple):
    updates_a_second: float
    bytes_an_entity: float
    events_an_entity: float


class World:
    """The entities, and who writes them."""

    def __init__(self, claims: Claims) -> None:
        self.crew = Crew(1, WRITERS + READERS)
        self._claims = claims
        self._indexes = [0] * (WRITERS + READERS)
        names = [b"entity %d" % number for number in range(ENTITIES)]
        self._replicas = [Replica(self.crew.swarm, b"", name, DEFAULT_PARAMETERS) for name in names]

    def batch(self, number: int) -> list[Arrival]:
        return [arrival for peer in range(WRITERS + READERS) for arrival in self._segments(peer, number)]

    def _segments(self, peer: int, number: int) -> Iterator[Arrival]:
        ops = [self._op(replica, peer, number) for replica in self._replicas]
        author = self.crew.keys[peer].public
        for at in range(0, len(ops), SEGMENT_OPS):
            self._indexes[peer] += 1
            made = self.crew.pretend(Ref(author, self._indexes[peer], NO_PREVIOUS), b"", number)
            yield Arrival(made._replace(ops=tuple(ops[at : at + SEGMENT_OPS])), START_MS + number * BATCH_MS + peer)

    def _op(self, replica: Replica, peer: int, number: int) -> bytes:
        replica.author = self.crew.keys[peer].public
        update = replica.change(b"%d" % number) if peer < WRITERS else replica.state()
        stamp, digest = update.stamp * self._claims.stamp, update.digest * self._claims.digest
        return encode_update(update._replace(stamp=stamp, digest=digest))


def measure(claims: Claims) -> Measured:
    world = World(claims)
    return absorbed(world.crew.config, [world.batch(number) for number in range(BATCHES)])


def absorbed(config: Config, batches: list[list[Arrival]]) -> Measured:
    fold = ClocksFold(config)
    archives: dict[bytes, dict[bytes, bytes]] = {key: {} for key in fold.all_keys()}
    shards = {key: fold.open(key, None, archives[key]) for key in fold.all_keys()}
    seconds = 0.0
    for number, batch in enumerate(batches):
        started = time.process_time()
        routed = defaultdict(list)
        for key, payload in fold.route(Arrivals(batch, [])):
            routed[key].append(payload)
        for key, shard in shards.items():
            shard.absorb(routed[key], batch[-1].time_ms)
            shard.pack()
        seconds += (time.process_time() - started) * (number >= len(batches) // 2)
    states = [shard.state for shard in shards.values()]
    entities = sum(state.entities for state in states)
    kept = sum(len(value) for archive in archives.values() for value in archive.values())
    updates = (len(batches) - len(batches) // 2) * ENTITIES * (WRITERS + READERS)
    return Measured(updates / seconds, kept / entities, sum(state.events for state in states) / entities)


def run(rounds: int) -> list[str]:
    gc.set_threshold(*COLLECT_AFTER)  # as in a worker of Spark
    rows = [
        "| updates claim | updates a second, each round | goal | µs an update | bytes an entity | events of each |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for claims in CASES:
        found = [measure(claims) for _ in range(rounds)]
        rates = [one.updates_a_second for one in found]
        told = ", ".join(f"{rate:,.0f}" for rate in rates)
        rows.append(
            f"| {claims.name} | {told} | {GOAL:,} | {1e6 / max(rates):.0f} | {found[0].bytes_an_entity:,.0f} "
            f"| {found[0].events_an_entity:.0f} |"
        )
        print(rows[-1], flush=True)
    return rows
