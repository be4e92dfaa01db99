"""The formula of docs/sizing.md, held within 20 %, and what a peer that is gone, 64 branches or a huge roster cost."""

from collections import defaultdict
from typing import NamedTuple

import msgspec
import pytest

from producers.load import matrix_load
from state.columns import ColumnsFold
from state.config import Config
from state.fold import Arrival, Arrivals
from state.head import NO_PREVIOUS
from state.segment import Segment
from tests import benchclocks
from tests.loglab import START_MS, noop
from tests.matrixlab import PEERS, matrix_config

BATCH = 1000


class Sizes(NamedTuple):
    """Bytes of a swarm's columns: blobs, and the archive by the first letter of its names; and noops looked at."""

    blob: int
    largest_blob: int
    archive: dict[str, int]
    live: int


def sizes(config: Config, noops: list[tuple[Segment, int]], end_ms: int | None = None) -> Sizes:
    fold = ColumnsFold(config)
    blobs, archive, live = [], defaultdict[str, int](int), 0
    for key in fold.all_keys():
        kept: dict[bytes, bytes] = {}
        block = fold.open(key, None, kept)
        for at in range(0, len(noops), BATCH):
            part = noops[at : at + BATCH]
            arrivals = Arrivals([Arrival(*one) for one in part], [])
            block.absorb([payload for routed, payload in fold.route(arrivals) if routed == key], part[-1][1])
        if end_ms is not None:
            block.absorb([], end_ms)
        blobs.append(len(block.pack()))
        live = len(block.pasts.slot_of)
        for name, value in kept.items():
            archive[chr(name[0])] += len(value)
    return Sizes(sum(blobs), max(blobs), dict(archive), live)


@pytest.mark.parametrize(
    ("peers", "blocks", "horizon", "seconds"), [(10, 1, "5m", 900), (60, 1, "30s", 150), (200, 2, "30s", 130)]
)
def test_a_healthy_swarm_takes_what_the_formula_says(peers: int, blocks: int, horizon: str, seconds: int) -> None:
    noops = peers * seconds
    made = matrix_load(1, peers, noops, min(16, peers - 1), step_ms=1000 // peers)
    swarm = msgspec.structs.replace(made.config.swarms[0], horizon=horizon, blocks=blocks)
    step_s = (1000 // peers) / 1000
    got = sizes(Config((swarm,)), made.noops)
    looked_at = peers * (2.5 * swarm.horizon_ms / 1000 / (peers * step_s) + 32)
    assert 0.6 * looked_at < got.live <= looked_at
    want = {
        "blob": blocks * 140 * peers,
        "vectors": blocks * got.live * (51 + 1.07 * peers / blocks),
        "old": blocks * (noops - got.live) * 61,
    }
    assert got.blob == pytest.approx(want["blob"], rel=0.2)
    assert got.archive["L"] == pytest.approx(want["vectors"], rel=0.2)
    assert got.archive["O"] == pytest.approx(want["old"], rel=0.2)
    assert set(got.archive) <= {"L", "O"}


def chain(author: bytes, start_ms: int, count: int, every_ms: int) -> list[tuple[Segment, int]]:
    made, previous = [], NO_PREVIOUS
    for index in range(1, count + 1):
        segment = noop(author, index, previous)
        previous = segment.id
        made.append((segment, start_ms + index * every_ms))
    return made


def test_a_peer_that_is_gone_for_good_costs_its_tip_and_its_observers() -> None:
    config = matrix_config(3, horizon="2s")
    gone = chain(PEERS[0], START_MS, 5, 100)
    others = [one for peer in PEERS[1:3] for one in chain(peer, START_MS, 600, 100)]
    noops = sorted(gone + others, key=lambda one: one[1])
    got = sizes(config, noops)
    later = sizes(config, noops + [(s, t) for s, t in sorted(more(others), key=lambda one: one[1])])
    assert got.archive["E"] == later.archive["E"] == 8 * 3
    assert later.live == pytest.approx(got.live, rel=0.5)
    assert later.largest_blob < 1.1 * got.largest_blob


def more(noops: list[tuple[Segment, int]]) -> list[tuple[Segment, int]]:
    """Each log of `noops` goes on for as long again."""
    made = []
    for author in PEERS[1:3]:
        own = [(segment, time_ms) for segment, time_ms in noops if segment.head.author == author]
        last, last_ms = own[-1]
        previous = last.id
        for step in range(1, len(own) + 1):
            segment = noop(author, last.head.index + step, previous)
            previous = segment.id
            made.append((segment, last_ms + 100 * step))
    return made


def test_sixty_four_branches_widen_the_vectors_and_no_more() -> None:
    trunk = chain(PEERS[0], START_MS, 2, 10)
    branches = [(noop(PEERS[0], 3, trunk[1][0].id, salt), START_MS + 100 + salt) for salt in range(200)]
    got = sizes(matrix_config(3), trunk + branches)
    assert got.live == 2 + 64
    assert got.blob < 65 * 140 * 1.2
    assert got.archive["B"] == 64 * 8 * 3


def test_a_roster_of_4096_has_blobs_below_the_limit_of_a_mebibyte() -> None:
    made = matrix_load(1, 4096, 4096, 0, step_ms=1)
    fold = ColumnsFold(made.config)
    keys = list(fold.all_keys())
    assert len(keys) == 16
    arrivals = Arrivals([Arrival(*one) for one in made.noops], [])
    block = fold.open(keys[0], None, {})
    block.absorb([payload for routed, payload in fold.route(arrivals) if routed == keys[0]], made.noops[-1][1])
    heard = len({segment.head.author for segment, _ in made.noops})
    assert len(block.pack()) == pytest.approx(140 * heard, rel=0.2)
    assert len(block.pack()) < 1 << 20


@pytest.mark.parametrize("batches", [2, 30])
def test_an_entity_takes_what_the_formula_says(batches: int) -> None:
    world = benchclocks.World(benchclocks.CASES[-1])
    got = benchclocks.absorbed(world.crew.config, [world.batch(number) for number in range(batches)])
    replicas, name = benchclocks.WRITERS + benchclocks.READERS, len(b"entity 10")
    assert got.events_an_entity == benchclocks.WRITERS * batches
    want = 60 + got.events_an_entity * (42 + 4) + replicas * (180 + name)
    assert got.bytes_an_entity == pytest.approx(want, rel=0.2)
