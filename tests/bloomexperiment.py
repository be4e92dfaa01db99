"""`python -m tests.bloomexperiment`: how often Bloom clocks are wrong, and what their own estimates say of it.

Prints the figures of the experiment in tests/bloomlab.py, and writes them into docs/bloom-clocks.md and its plot. The
same seed gives the same figures; a test holds them against the page.
"""

import re
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np

from state.bloom import Parameters, recommend
from tests.bloomlab import Comparisons, History, Numbers, Outcome, Setup, simulate
from tests.bloomplot import Curve, draw

PAGE = Path(__file__).parent.parent / "docs" / "bloom-clocks.md"
PLOT = PAGE.with_suffix(".svg")
PROCESSES = (50, 100, 200)
PLOTTED = 100
RATIOS = (0.1, 0.25, 0.5, 1, 2, 5, 10)
"""Counters for each process."""
HASHES = 2
SIZES = (
    *((10, 0.01, 1), (50, 0.01, 1), (100, 0.1, 1), (100, 0.01, 1), (100, 1e-4, 1), (100, 1e-4, 5), (1_000, 0.01, 1)),
    *((1_000, 1e-4, 10), (5_000, 0.01, 1)),
)
"""Examples: events that are concurrent, the chance, events that are lacking."""
EDGES = (0, 1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.6, 0.9, 1)
"""Of the bins by which an estimate is compared with what is true. Each holds its upper edge."""


class Measured(NamedTuple):
    """A run with one size of clocks. The means of the estimates are over the pairs that `later` calls negative."""

    processes: int
    ratio: float
    all_pairs: Outcome
    later: Outcome
    ramabaja: float
    misra: float


class Bin(NamedTuple):
    """Pairs that look before, with an estimate in one bin: how many, the sum of it, and how many of them are wrong."""

    pairs: int
    estimates: float
    wrong: int

    @property
    def share_wrong(self) -> float:
        return self.wrong / self.pairs

    def __add__(self, other: "Bin") -> "Bin":  # type: ignore[override]
        return Bin(*(one + two for one, two in zip(self, other, strict=True)))


def compare(history: History, ratio: float) -> Comparisons:
    return Comparisons(history, Parameters(max(1, round(ratio * history.setup.processes)), HASHES))


def measure(history: History, ratio: float) -> Measured:
    compared = compare(history, ratio)
    unrelated = compared.later_pairs & ~history.before
    means = (float(estimates[unrelated].mean()) for estimates in (compared.ramabaja, compared.misra))
    outcomes = map(compared.outcome, (compared.all_pairs, compared.later_pairs))
    return Measured(history.setup.processes, ratio, *outcomes, *means)


def bins(compared: Comparisons, estimates: Numbers) -> list[Bin]:
    looks = compared.later_pairs & compared.looks_before
    found, wrong = estimates[looks], ~compared.history.before[looks]
    place = np.searchsorted(EDGES[1:-1], found)
    counts = (np.bincount(place, weights, len(EDGES) - 1) for weights in (None, found, wrong))
    return [Bin(int(pairs), total, int(bad)) for pairs, total, bad in zip(*counts, strict=True)]


def pooled(history: History, name: str) -> list[Bin]:
    """The bins of an estimate, over all sizes of clocks."""
    each = [bins(one, getattr(one, name)) for one in (compare(history, ratio) for ratio in RATIOS)]
    return [reduce(Bin.__add__, column) for column in zip(*each, strict=True)]


@cache
def measure_all(processes: int) -> list[Measured]:
    history = simulate(Setup(processes))
    return [measure(history, ratio) for ratio in RATIOS]


@cache
def calibration() -> tuple[list[Bin], list[Bin]]:
    """The bins of Ramabaja's estimate and of Misra's."""
    history = simulate(Setup(PLOTTED))
    return pooled(history, "ramabaja"), pooled(history, "misra")


def outcome_rows(processes: int) -> Iterator[str]:
    for one in measure_all(processes):
        both = [
            f"{o.accuracy:.3f} | {o.precision:.3f} | {o.false_positive_rate:.3f}" for o in (one.all_pairs, one.later)
        ]
        yield f"| {processes} | {one.ratio:g} | {' | '.join(both)} | {one.ramabaja:.2g} | {one.misra:.2g} |"


def bin_rows(ramabaja: list[Bin], misra: list[Bin]) -> Iterator[str]:
    for low, high, *both in zip(EDGES, EDGES[1:], ramabaja, misra, strict=False):
        told = (f"{one.pairs:,} | {one.share_wrong:.3f}" if one.pairs else "0 | " for one in both)
        yield f"| {low:g} to {high:g} | {' | '.join(told)} |"


SIZE_HEAD = """\
| g, events that A's author had not seen | d, events that B lacks | chance at most | N | k |
|---:|---:|---:|---:|---:|"""
OUTCOME_HEAD = """\
| n | m / n | accuracy | precision | false positives | accuracy | precision | false positives | Ramabaja | Misra |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""
BIN_HEAD = """\
| estimate | pairs, by Ramabaja | wrong | pairs, by Misra | wrong |
|---|---:|---:|---:|---:|"""


def size_rows() -> Iterator[str]:
    for concurrent, chance, lacking in SIZES:
        size = recommend(concurrent_events=concurrent, chance_max=chance, lacking_events=lacking)
        yield f"| {concurrent:,} | {lacking} | {chance:g} | {size.counters:,} | {size.hashes} |"


def tables() -> dict[str, str]:
    rows = [row for processes in PROCESSES for row in outcome_rows(processes)]
    return {
        "sizes": "\n".join([SIZE_HEAD, *size_rows()]),
        "outcomes": "\n".join([OUTCOME_HEAD, *rows]),
        "bins": "\n".join([BIN_HEAD, *bin_rows(*calibration())]),
    }


def plot() -> str:
    measured = measure_all(PLOTTED)
    rates = [
        Curve("measured", [(one.ratio, one.later.false_positive_rate) for one in measured]),
        Curve("Ramabaja", [(one.ratio, one.ramabaja) for one in measured]),
        Curve("Misra", [(one.ratio, one.misra) for one in measured]),
    ]
    shares = [
        Curve(name, [(one.estimates / one.pairs, one.share_wrong) for one in found if one.pairs])
        for name, found in zip(("Ramabaja", "Misra"), calibration(), strict=True)
    ]
    return draw(rates, shares)


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with each part between its two markers."""
    for name, part in parts.items():
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)"
        page, found = re.subn(pattern, lambda match, part=part: match[1] + part + match[2], page, flags=re.DOTALL)
        assert found == 1, f"expected the markers of {name} once, got {found}"
    return page


def main() -> None:
    parts = tables()
    print("\n\n".join(parts.values()))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), parts), encoding="utf-8")
    PLOT.write_text(plot(), encoding="utf-8")


if __name__ == "__main__":
    main()
