"""Samples as Prometheus reads them. The only place that knows Prometheus' client library.

The text is written here and not by the library, which takes three times as long: with 1,000 peers that would be most of
a scrape. It is the classic format alone; what OpenMetrics adds is not used.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from state.metric import Distribution, Kind, Metric, Sample, gauge

SERIES_BUDGET = 50_000
"""Samples of a scrape at most. What comes last is left out beyond this, and counted."""

SERIES_METRICS = (
    gauge("exporter_series", (), "Samples in this scrape, each bucket of a histogram being one."),
    gauge("exporter_series_budget", (), "Samples that a scrape may have at most."),
    gauge(
        "exporter_series_dropped",
        (),
        "Samples that were left out of this scrape because of the budget. Those of single pairs and peers go first.",
    ),
)

_FAMILIES: dict[Kind, Callable[..., Family]] = {
    Kind.GAUGE: GaugeMetricFamily,
    Kind.COUNTER: CounterMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}


class SampleCollector(Collector):
    """Collects samples anew at each scrape, so that what is no more vanishes. Requires the important samples first."""

    def __init__(
        self,
        metrics: dict[str, Metric],
        samples: Callable[[], Iterable[Sample]],
        budget: int | None = None,
    ) -> None:
        self._metrics = metrics
        self._samples = samples
        self._budget = budget

    def describe(self) -> Iterator[Family]:
        own = SERIES_METRICS if self._budget is not None else ()
        return (_family(metric) for metric in (*self._metrics.values(), *own))

    def collect(self) -> Iterator[Family]:
        families = {name: _family(metric) for name, metric in self._metrics.items()}
        series = dropped = 0
        for name, labels, value in self._samples():
            size = len(value.bounds) if isinstance(value, Distribution) else 1
            if self._budget is not None and series + size > self._budget:
                dropped += size
                continue
            series += size
            _add(families[name], labels, value)
        yield from (family for family in families.values() if family.samples)
        if self._budget is not None:
            for metric, value in zip(SERIES_METRICS, (series, self._budget, dropped), strict=True):
                family = _family(metric)
                _add(family, (), value)
                yield family


def make_registry(collector: Collector) -> CollectorRegistry:
    """A registry with a collector and what the process itself uses of memory, time and files."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    return registry


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(registry: CollectorRegistry) -> bytes:
    """All metrics, as text."""
    lines: list[str] = []
    for family in registry.collect():
        name = full_name(family)
        help_text = escaped_help(family)
        lines += (f"# HELP {name} {help_text}", f"# TYPE {name} {family.type}")
        lines += [f"{series_text(sample)} {number_text(sample.value)}" for sample in family.samples]
    return "\n".join(lines).encode() + b"\n"


def escaped_help(family: Family) -> str:
    return str(family.documentation).replace("\\", "\\\\").replace("\n", "\\n")


def full_name(family: Family) -> str:
    """As it stands in the text: the library leaves the end of a counter's name out."""
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def series_text(sample: Any) -> str:
    """The name and the labels of a sample of a family, as they stand in the text."""
    if not sample.labels:
        return str(sample.name)
    pairs = ",".join([f'{label}="{_escaped(text)}"' for label, text in sample.labels.items()])
    return f"{sample.name}{{{pairs}}}"


def number_text(value: float) -> str:
    return _INFINITE.get(value) or repr(float(value))


_INFINITE = {float("inf"): "+Inf", float("-inf"): "-Inf"}


@lru_cache(maxsize=65_536)
def _escaped(text: str) -> str:
    """The value of a label. The same few thousand names come in every scrape."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _family(metric: Metric) -> Family:
    return _FAMILIES[metric.kind](metric.full_name, metric.help, labels=metric.labels)


def _add(family: Family, labels: tuple[str, ...], value: float | Distribution) -> None:
    if isinstance(value, Distribution):
        pairs = [(_bound(bound), count) for bound, count in zip(value.bounds, value.cumulative, strict=True)]
        family.add_metric(labels, buckets=pairs, sum_value=value.total)  # type: ignore[attr-defined]
    else:
        family.add_metric(labels, value)  # type: ignore[attr-defined]


def _bound(bound: float) -> str:
    """As OpenMetrics writes it, and Prometheus from 3 on: "10.0" and not "10"."""
    return "+Inf" if bound == float("inf") else str(float(bound))
