"""Marks on every graph where something happened: forks, and splits from their opening to their end.

A mark stands at the time that is the metric's value, in milliseconds: the record time of what happened, not the time of
the scrape that told it. Newer versions of Grafana read the query from `target`, older ones from `expr`; both are there.
"""

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery
from grafana_foundation_sdk.builders.prometheus import Dataquery

from dashboards.grafana.queries import IN_SWARM, gauge, moment
from dashboards.grafana.variables import PROMETHEUS

STEP = "10s"
"""How finely splits are looked for: about a tick, of which a split takes two to open and two to close."""


def forks() -> AnnotationQuery:
    return (
        _mark("Forks", moment("last_fork_timestamp_seconds", "swarm, peer", IN_SWARM), "red")
        .use_value_for_time(True)
        .title_format("{{peer}} forked its log")
        .text_format("swarm {{swarm}}: the second version reached the topic; earlier forks of this peer have no mark")
        .tag_keys("swarm,peer")
    )


def split_openings() -> AnnotationQuery:
    return (
        _mark("Split opened", moment("split_opened_timestamp_seconds", "swarm", IN_SWARM), "purple")
        .use_value_for_time(True)
        .title_format("{{swarm}} split")
        .text_format("the tick at which the split opened")
        .tag_keys("swarm")
    )


def splits() -> AnnotationQuery:
    """The stretch of time in which a swarm had more than one side, as it was scraped."""
    return (
        _mark("Split", f"{gauge('split_sides', 'swarm', IN_SWARM)} > 1", "orange")
        .use_value_for_time(False)
        .title_format("{{swarm}} is split")
        .text_format("more than one side")
        .tag_keys("swarm")
    )


def _mark(name: str, expr: str, color: str) -> AnnotationQuery:
    target = Dataquery().datasource(PROMETHEUS).expr(expr).range().interval(STEP).ref_id("Anno")
    return (
        AnnotationQuery()
        .name(name)
        .datasource(PROMETHEUS)
        .enable(True)
        .icon_color(color)
        .expr(expr)
        .step(STEP)
        .target(target)
    )
