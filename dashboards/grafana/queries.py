"""The PromQL of the panels, and the four ways in which a panel asks.

- Labels that tell which process was scraped are never kept: two exporters of one topic say the same, so `most` takes
  one of them.
- A counter stands under `rate` over `$__rate_interval`, or under `increase` over `$__range`, which is what the reader
  sees. Exceptions are named in tests/test_grafana.py with their reasons.
"""

from collections.abc import Callable

from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.grafana.alerts import TROUBLE
from dashboards.grafana.variables import PROMETHEUS

IN_SWARM = 'swarm=~"$swarm"'
OF_PEER = f'{IN_SWARM}, peer=~"$peer"'
BY_RULE = f'{IN_SWARM}, rule=~"$rule"'
OF_PAIR = f'{IN_SWARM}, observer=~"$observer", author=~"$author"'
OF_QUERY = 'query=~"$query"'

FIRING = f'alertstate="firing", alertname=~"{"|".join(TROUBLE)}", swarm=~"($swarm)|"'
"""Our alerts that fire, the watchdog left out; those of the chosen swarms, and those that are of no swarm."""

WITHIN_PROMISE = 'le=~"10([.]0)?"'
"""The bucket of the promise: 99 % of segments are accepted within 10 s. Clients write the bound as 10 or as 10.0."""

PROMISED_MISSES = 0.01
"""The share that may miss the promise. A burn rate of 1 uses up exactly that."""


def metric(name: str, where: str = "") -> str:
    return f"quorumscope_{name}{{{where}}}" if where else f"quorumscope_{name}"


def rate(counter: str, where: str = "") -> str:
    return f"rate({metric(counter, where)}[$__rate_interval])"


def increase(counter: str, where: str = "") -> str:
    """How much was added in the time range that is shown."""
    return f"increase({metric(counter, where)}[$__range])"


def most(by: str, expr: str) -> str:
    return f"max by ({by}) ({expr})" if by else f"max({expr})"


def total(by: str, expr: str) -> str:
    return f"sum by ({by}) ({expr})" if by else f"sum({expr})"


def quantile(share: float, buckets: str) -> str:
    return f"histogram_quantile({share}, {buckets})"


def gauge(name: str, by: str, where: str = "") -> str:
    """A gauge as the exporters tell it now, one series for each value of these labels."""
    return most(by, metric(name, where))


def age(name: str, by: str, where: str = "") -> str:
    """Seconds since a time stamp."""
    return f"time() - {gauge(name, by, where)}"


def moment(name: str, by: str, where: str = "") -> str:
    """A time stamp in milliseconds, as Grafana's units for dates want it."""
    return f"{gauge(name, by, where)} * 1000"


def or_zero_while(told: str, expr: str) -> str:
    """0 where a count found nothing, as long as this gauge is told at all: no monitor must not look like no trouble."""
    return f"({expr}) or 0 * max({told})"


def or_zero_for_swarms(expr: str) -> str:
    """0 for each swarm that a count has nothing about."""
    return f"({expr}) or 0 * {gauge('peers', 'swarm', IN_SWARM)}"


def kept_share(by: str, counted: Callable[[str, str], str]) -> str:
    """The share of acceptances that took no longer than promised, counted by `rate` or by `increase`."""
    within = counted("acceptance_latency_seconds_bucket", f"{BY_RULE}, {WITHIN_PROMISE}")
    every = counted("acceptance_latency_seconds_bucket", f'{BY_RULE}, le="+Inf"')
    return f"{total(by, within)} / {total(by, every)}"


LATENCY = most("swarm, rule, le", rate("acceptance_latency_seconds_bucket", IN_SWARM))
"""The buckets of acceptance latency of the last minutes, for each rule of each swarm."""

ACCEPTED = most("swarm, rule", rate("accepted_segments_total", IN_SWARM))
"""Segments accepted per second, for each rule of each swarm."""


def series(expr: str, legend: str) -> Dataquery:
    """One line a series, over the time range."""
    return _query(expr).range().legend_format(legend)


def value(expr: str, legend: str = "") -> Dataquery:
    """The values at the end of the time range."""
    return _query(expr).instant().legend_format(legend or "__auto")


def rows(expr: str) -> Dataquery:
    """One row of a table a series, at the end of the time range."""
    return _query(expr).instant().format(PromQueryFormat.TABLE)


def buckets(expr: str) -> Dataquery:
    """The cumulative buckets of a histogram, which Grafana takes apart for a heatmap."""
    return _query(expr).range().format(PromQueryFormat.HEATMAP).legend_format("{{le}}")


def _query(expr: str) -> Dataquery:
    return Dataquery().datasource(PROMETHEUS).expr(expr)
