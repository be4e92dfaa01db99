"""Noops that the columns fold absorbs in a second of one core, over all blocks, packed after each batch."""

import time
from collections import defaultdict
from typing import NamedTuple

from producers.load import matrix_load
from state.columns import ColumnsFold
from state.fold import Arrival, Arrivals

REFS = 16
BATCH = 2_000
NOOPS = 40_000
"""The second half is measured: by then the peers' pasts are as long as they get, and old noops leave."""


class MatrixCase(NamedTuple):
    peers: int
    step_ms: int
    """Between two noops of the swarm: each peer publishes about one a second."""
    goal: int


CASES = (MatrixCase(10, 100, 20_000), MatrixCase(100, 10, 10_000), MatrixCase(1_000, 1, 2_000))


def absorbed_a_second(case: MatrixCase) -> float:
    made = matrix_load(1, case.peers, NOOPS, min(REFS, case.peers - 1), step_ms=case.step_ms)
    fold = ColumnsFold(made.config)
    blocks = {key: fold.open(key, None, {}) for key in fold.all_keys()}
    seconds = 0.0
    for at in range(0, NOOPS, BATCH):
        batch = made.noops[at : at + BATCH]
        started = time.process_time()
        routed = defaultdict(list)
        for key, payload in fold.route(Arrivals([Arrival(*one) for one in batch], [])):
            routed[key].append(payload)
        for key, block in blocks.items():
            block.absorb(routed[key], batch[-1][1])
            block.pack()
        seconds += (time.process_time() - started) * (at >= NOOPS // 2)
    return NOOPS / 2 / seconds


def run(rounds: int) -> list[str]:
    rows = [
        "| peers | noops a second, each round | goal | µs a noop | beside a tenth of the peers |",
        "|---:|---|---:|---:|---:|",
    ]
    before_us = 0.0
    for case in CASES:
        rates = [absorbed_a_second(case) for _ in range(rounds)]
        best_us = 1e6 / max(rates)
        growth = f"× {best_us / before_us:.1f}" if before_us else ""
        told = ", ".join(f"{rate:,.0f}" for rate in rates)
        rows.append(f"| {case.peers:,} | {told} | {case.goal:,} | {best_us:.0f} | {growth} |")
        print(rows[-1], flush=True)
        before_us = best_us
    return rows
