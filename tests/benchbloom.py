"""Bloom clocks on one core: operations beside the bare numpy ones, and encodings beside raw bytes and zstd."""

import time
from collections.abc import Callable
from itertools import cycle
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from state.bloom import DEFAULT_PARAMETERS, Clock, Parameters
from state.clockcode import decode_clock, encode_clock

CALLS = 20_000
GOAL = 2.0
"""Times the bare numpy operation."""
PAIRS = 64
"""So many pairs take turns: about 0.5 MB, more than the nearest cache holds."""


class Operation(NamedTuple):
    name: str
    ours: Callable[[Clock, Clock], object]
    bare: Callable[[np.ndarray, np.ndarray], object] | None


def _both(one: np.ndarray, other: np.ndarray) -> tuple[bool, bool]:
    return bool((one <= other).all()), bool((other <= one).all())


def _estimates(one: Clock, other: Clock) -> tuple[float, float]:
    compared = one.compare(one.merge(other))
    return compared.ramabaja, compared.misra


OPERATIONS = (
    Operation("merge, beside `np.maximum`", Clock.merge, np.maximum),
    Operation("compare (`relation`), beside `(a <= b).all()` and `(b <= a).all()`", Clock.relation, _both),
    Operation("`distance`", Clock.distance, None),
    Operation("`after`, one event", lambda one, _: one.after(b"an event"), None),
    Operation("both estimates", _estimates, None),
)


def grown(events: int, parameters: Parameters = DEFAULT_PARAMETERS, seed: int = 6, branches: int = 1) -> Clock:
    """A clock of random events, in so many branches that are merged at the end."""
    chance = np.random.default_rng(seed)
    raised = chance.integers(0, parameters.counters, (branches, events // branches * parameters.hashes))
    counts = [np.bincount(one, minlength=parameters.counters).astype(np.uint32) for one in raised]
    clock = Clock(parameters, counts[0], events if branches == 1 else None)
    for count in counts[1:]:
        clock = clock.merge(Clock(parameters, count))
    return clock


def steep(parameters: Parameters = DEFAULT_PARAMETERS) -> Clock:
    """Some counters high above the others, as an author makes them who chooses ids."""
    counters = grown(2_000, parameters).counters.copy()
    counters[::50] += np.uint32(1_000_000)
    return Clock(parameters, counters)


KINDS = {
    "no events": Clock.zero(),
    "young: 20 events": grown(20),
    "sparse: 200 events": grown(200),
    "2,000 events": grown(2_000),
    "2,000 events in 50 branches": grown(2_000, branches=50),
    "old: 1,000,000 events": grown(1_000_000),
    "dense and even: two values at random": Clock(
        DEFAULT_PARAMETERS, np.random.default_rng(6).integers(700, 702, 1024).astype(np.uint32)
    ),
    "steep: 20 counters a million above the others": steep(),
    "N = 65,536, k = 7, 20 events": grown(20, Parameters(65_536, 7)),
    "N = 65,536, k = 7, 50,000 events": grown(50_000, Parameters(65_536, 7)),
}


def seconds_a_call(call: Callable[[], object], calls: int) -> float:
    """The processor's time of one call, all calls together."""
    call()
    started = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - started) / calls


def measured(operation: Callable[..., object], pairs: list[tuple[object, object]]) -> float:
    taken = cycle(pairs)
    return seconds_a_call(lambda: operation(*next(taken)), CALLS if len(pairs) == PAIRS else CALLS // 100)


def operation_row(operation: Operation, rounds: int) -> str:
    """The best round of each, taken in turns, so that other work on the machine touches both."""
    clocks = [(grown(1_000, seed=seed), grown(1_000, seed=seed + PAIRS)) for seed in range(PAIRS)]
    arrays = [(one.counters, other.counters) for one, other in clocks]
    ours, bare = [], []
    for _ in range(rounds):
        ours.append(measured(operation.ours, clocks))
        bare.append(measured(operation.bare, arrays) if operation.bare else 0.0)
    best, least = min(ours), min(bare)
    beside = f"{least * 1e6:.2f} | {best / least:.2f} | {GOAL:g}" if least else "| |"
    return f"| {operation.name} | {1 / best:,.0f} | {best * 1e6:.2f} | {beside} |"


def kind_row(name: str, clock: Clock) -> str:
    encoded = encode_clock(clock)
    raw = clock.counters.tobytes()
    packed = len(pa.compress(raw, codec="zstd", asbytes=True))
    calls = 300 if clock.parameters.counters <= 1024 else 20
    writing = seconds_a_call(lambda: encode_clock(clock), calls) * 1e6
    reading = seconds_a_call(lambda: decode_clock(encoded), calls) * 1e6
    return f"| {name} | {len(encoded):,} | {len(raw):,} | {packed:,} | {writing:,.0f} | {reading:,.0f} |"


def run(rounds: int) -> list[str]:
    rows = [
        "| Bloom clocks, N = 1,024, k = 2 | a second | µs | bare numpy µs | × | goal |",
        "|---|---:|---:|---:|---:|---:|",
        *(operation_row(operation, rounds) for operation in OPERATIONS),
        "",
        "| encoding of a clock | bytes | raw | zstd | encode µs | decode µs |",
        "|---|---:|---:|---:|---:|---:|",
        *(kind_row(name, clock) for name, clock in KINDS.items()),
    ]
    print("\n".join(rows), flush=True)
    return rows
