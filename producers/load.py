"""Load for benchmarks: segments as fast as they can be made, from one seed, without a simulated world.

`load` and `deep_fork` give valid records. `matrix_load` signs nothing: it is for folds, which trust ingest.
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import repeat
from random import Random
from typing import NamedTuple

from producers.simulation import Record
from producers.swarm import EPOCH_START, START_MS
from state.config import Config, Epoch, Swarm
from state.head import NO_PREVIOUS, VERSION, Head, head_id
from state.segment import NO_REFS_HASH, Ref, Segment, encode_op, encode_refs, rolling_hash, seal
from state.signing import SIGNATURE_BYTES, SigningKey

INTERVAL_MS = 1_000
"""Virtual time between two segments of a peer."""
_CHAFF_BYTES = 1 << 20
"""Ops are slices of so many random bytes: making fresh ones would cost more than signing."""


class Load(NamedTuple):
    """A configuration and the records that it watches, in order; they are made while they are read, once."""

    config: Config
    records: Iterator[Record]


class MatrixLoad(NamedTuple):
    """A configuration and noops that it watches, each with its record time, in the order of their times."""

    config: Config
    noops: list[tuple[Segment, int]]


def load(
    seed: int,
    peers: int = 200,
    *,
    segments: int,
    ops_per_segment: int,
    op_bytes: int = 120,
    refs_per_segment: int = 4,
) -> Load:
    """Peers in turn, each segment with ops of `op_bytes` bytes and refs to the newest noops of a few others.

    Requires refs_per_segment < peers and op_bytes ≥ 8. Roots are not those of honest peers.
    """
    if not 0 <= refs_per_segment < peers:
        raise ValueError(f"refs a segment: want 0 to {peers - 1}, got {refs_per_segment}")
    crew = Crew(seed, peers)
    chance = Random(seed)  # noqa: S311  a benchmark must be repeatable; no secret comes from it
    ops = _ops(chance, op_bytes)
    return Load(crew.config, _round_robin(crew, segments, ops_per_segment, ops, _offsets(peers, refs_per_segment)))


def deep_fork(segments: int = 100_000, seed: int = 1) -> Load:
    """One author's honest chain of so many segments, and then a second version of index 1."""
    crew = Crew(seed, 1)
    return Load(crew.config, _chain_and_lie(crew, segments))


def matrix_load(seed: int, peers: int, noops: int, refs: int, *, step_ms: int = 1) -> MatrixLoad:
    """Noops without ops, one each `step_ms`: in each round all peers have their turn, in a new random order.

    A noop entangles the newest noops of `refs` random others, less those it has entangled before. The graph is right,
    the signatures are made up, because signing would take most of the time. Requires 0 ≤ refs < peers.
    """
    if not 0 <= refs < peers:
        raise ValueError(f"refs: want 0 to {peers - 1}, got {refs}")
    crew = Crew(seed, peers)
    chance = Random(seed)  # noqa: S311  a benchmark must be repeatable; no secret comes from it
    return MatrixLoad(crew.config, list(_rounds(crew, chance, noops, refs, step_ms)))


class Crew:
    """Peers that do nothing but sign: their keys and their newest noops."""

    def __init__(self, seed: int, peers: int) -> None:
        seeds = (sha256(f"quorumscope load {seed} {number}".encode()).digest() for number in range(peers))
        self.keys = [SigningKey(key_seed) for key_seed in seeds]
        self.newest = [Ref(key.public, 0, NO_PREVIOUS) for key in self.keys]
        self.swarm = sha256(f"quorumscope load {seed}".encode()).digest()

    @property
    def config(self) -> Config:
        roster = {f"peer-{number}": key.public.hex() for number, key in enumerate(self.keys, start=1)}
        return Config((Swarm(self.swarm.hex(), "load", (Epoch(start=EPOCH_START, roster=roster),)),))

    def sign(self, number: int, after: Ref, ops: list[bytes], refs: bytes, time_ms: int) -> Segment:
        return seal(self.keys[number], self.head(after, ops, refs, time_ms), ops, refs)

    def pretend(self, after: Ref, refs: bytes, time_ms: int) -> Segment:
        """A segment without ops whose signature is zeros."""
        head = self.head(after, [], refs, time_ms)
        encoded = head.encode()
        return Segment(head_id(encoded), head, encoded, bytes(SIGNATURE_BYTES), (), refs)

    def head(self, after: Ref, ops: list[bytes], refs: bytes, time_ms: int) -> Head:
        return Head(
            version=VERSION,
            flags=0,
            swarm=self.swarm,
            author=after.author,
            index=after.index + 1,
            previous=after.id,
            time_ms=time_ms,
            ops_count=len(ops),
            ops_hash=rolling_hash(after.id, ops),
            refs_hash=sha256(refs).digest() if refs else NO_REFS_HASH,
            root=after.id,
        )


def _round_robin(crew: Crew, segments: int, count: int, ops: Iterator[bytes], offsets: list[int]) -> Iterator[Record]:
    peers = len(crew.keys)
    for turn in range(segments):
        number = turn % peers
        refs = [newest for offset in offsets if (newest := crew.newest[number - offset]).index]
        time_ms = START_MS + turn * INTERVAL_MS // peers
        some = [next(ops) for _ in repeat(None, count)]
        segment = crew.sign(number, crew.newest[number], some, encode_refs(refs), time_ms)
        crew.newest[number] = segment.ref
        yield Record(time_ms, segment.head.author, segment.encode())


def _rounds(crew: Crew, chance: Random, noops: int, refs: int, step_ms: int) -> Iterator[tuple[Segment, int]]:
    peers = len(crew.keys)
    order = list(range(peers))
    entangled: list[dict[int, int]] = [{} for _ in order]
    for turn in range(noops):
        if turn % peers == 0:
            chance.shuffle(order)
        number = order[turn % peers]
        mine, fresh = entangled[number], []
        for other in _others(chance, peers, number, refs):
            newest = crew.newest[other]
            if newest.index > mine.get(other, 0):
                mine[other] = newest.index
                fresh.append(newest)
        time_ms = START_MS + turn * step_ms
        segment = crew.pretend(crew.newest[number], encode_refs(fresh), time_ms)
        crew.newest[number] = segment.ref
        yield segment, time_ms


def _others(chance: Random, peers: int, number: int, count: int) -> Iterator[int]:
    """So many different peers, never the one with this number."""
    return (other + (other >= number) for other in chance.sample(range(peers - 1), count))


def _chain_and_lie(crew: Crew, segments: int) -> Iterator[Record]:
    start = newest = crew.newest[0]
    for turn in range(segments):
        segment = crew.sign(0, newest, [encode_op(b"honest")], b"", START_MS + turn)
        newest = segment.ref
        yield Record(START_MS + turn, segment.head.author, segment.encode())
    lie = crew.sign(0, start, [encode_op(b"lie")], b"", START_MS)
    yield Record(START_MS + segments, lie.head.author, lie.encode())


def _offsets(peers: int, refs: int) -> list[int]:
    """How far around the circle the peers are that a peer entangles: evenly spread, all different, never itself."""
    return [1 + at * (peers - 1) // refs for at in range(refs)]


def _ops(chance: Random, op_bytes: int) -> Iterator[bytes]:
    """Encoded ops of exactly this size, without end."""
    empty = encode_op(bytes(op_bytes))
    overhead = len(empty) - op_bytes
    data_bytes = op_bytes - overhead
    prefix = encode_op(bytes(data_bytes))[: len(encode_op(bytes(data_bytes))) - data_bytes]
    chaff = chance.randbytes(_CHAFF_BYTES)
    at = 0
    while True:
        at = (at + 7) % (_CHAFF_BYTES - data_bytes)
        yield prefix + chaff[at : at + data_bytes]
