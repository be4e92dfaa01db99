"""Metrics as plain data: what is measured, and samples of it. Who shows them to Prometheus is not known here.

Rules: names begin with `quorumscope_`, have base units and end as Prometheus wants it (`_total`, `_seconds`, `_bytes`,
`_info`); the help says what a metric tells and what it cannot. A sample belongs to one metric and one set of labels.
"""

from bisect import bisect_left
from collections.abc import Iterable
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

PREFIX = "quorumscope_"


class Kind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """What is measured. The name is without the prefix that all have."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


def gauge(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, Kind.GAUGE, labels, text)


def counter(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, Kind.COUNTER, labels, text)


def histogram(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, labels, text)


class Distribution(NamedTuple):
    """A histogram at one moment: how many values are at most each bound, the last of which is infinite.

    `total` is the sum of all values, or None where it could fall and so is no counter.
    """

    bounds: tuple[float, ...]
    cumulative: tuple[int, ...]
    total: float | None


class Sample(NamedTuple):
    """A value of a metric, by its name, for one set of label values in the order of the metric's labels."""

    metric: str
    labels: tuple[str, ...]
    value: float | Distribution


class Histogram:
    """Counts values by bounds. Requires ascending bounds; what is above the last one is counted too."""

    def __init__(self, bounds: tuple[float, ...], *, with_total: bool) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0 if with_total else None

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        if self._total is not None:
            self._total += value

    def distribution(self) -> Distribution:
        return Distribution((*self._bounds, float("inf")), tuple(accumulate(self._counts)), self._total)


def by_name(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """The metrics by their names. Requires that no two have the same."""
    found = {metric.name: metric for metric in metrics}
    assert len(found) == len(tuple(metrics)), "each name once"
    return found
