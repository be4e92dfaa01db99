"""Is what these pages show complete and new? The exporter, and the delay of verdicts."""

from dashboards.grafana.looks import NONE_IS_WELL, limits
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph, limited, number
from dashboards.grafana.queries import IN_SWARM, age, gauge, metric, most, or_zero_while, series, total, value
from dashboards.grafana.tables import HIDDEN, Column, Label, table

THIRD = Size(8, 9)
SMALL = Size(6, 5)


def section() -> Section:
    return Section(
        "Exporter",
        [
            _newest_verdict(),
            _skipped(),
            _dropped(),
            _quarantined(),
            _lag(),
            _series(),
            _delay(),
            _programs(),
            _swarms(),
        ],
    )


def _newest_verdict() -> AnyPanel:
    return number(
        Says(
            "Newest verdict before",
            "The age of the newest verdict that the exporter has read.",
            "Whether the job stands still or the swarms are at rest.",
            ("ExporterBehind", "PipelineStalled"),
        ),
        SMALL,
        "s",
        limits(120, 600),
        value(age("exporter_last_verdict_timestamp_seconds", "")),
    )


def _skipped() -> AnyPanel:
    return number(
        Says(
            "Records skipped",
            "Records of verdicts and of the matrix that the exporter could not read, and those of swarms or peers that "
            "its configuration does not have, since its start.",
            "What they said.",
            ("ExporterBehind",),
        ),
        SMALL,
        "none",
        NONE_IS_WELL,
        value(gauge("exporter_unreadable_records", "topic"), "{{topic}}, unreadable"),
        value(gauge("exporter_foreign_records", "topic"), "{{topic}}, foreign"),
    )


def _dropped() -> AnyPanel:
    return number(
        Says(
            "Series left out",
            "Series that the last scrape left out, because the budget was used up. Pairs go first, then peers.",
            "Which peers are not shown.",
            ("SeriesDropped",),
        ),
        SMALL,
        "none",
        NONE_IS_WELL,
        value(most("", metric("exporter_series_dropped"))),
    )


def _quarantined() -> AnyPanel:
    return number(
        Says(
            "Quarantined, by the verdicts",
            "Keys of folds that stand still because of a bug, as their verdicts say. Must be 0.",
            "Which peers they hold: the verdicts tell.",
            ("InvariantBroken",),
        ),
        SMALL,
        "none",
        NONE_IS_WELL,
        value(or_zero_while(metric("exporter_info"), total("", gauge("quarantined_keys", "fold")))),
    )


def _lag() -> AnyPanel:
    return graph(
        Says(
            "Records the exporter has not read",
            "By topic. What these pages show is as old as that.",
            "Whether Kafka or the exporter is slow.",
            ("ExporterBehind",),
        ),
        THIRD,
        "none",
        series(gauge("exporter_lag_records", "topic"), "{{topic}}"),
    ).decimals(0)


def _series() -> AnyPanel:
    return graph(
        Says(
            "Series of a scrape",
            "Series that the exporter serves, and the most that it may.",
            "What Prometheus keeps: series that ended stay there for a while.",
            ("SeriesDropped",),
        ),
        THIRD,
        "short",
        series(most("", metric("exporter_series")), "served"),
        series(most("", metric("exporter_series_budget")), "budget"),
    )


def _delay() -> AnyPanel:
    delay = graph(
        Says(
            "Verdict delay",
            "Of the newest acceptance of each swarm: from the record that made it to the verdict's record.",
            "The delay of other verdicts, and of the exporter and the scrape, which come on top.",
            ("LagHigh",),
        ),
        THIRD,
        "s",
        series(gauge("verdict_delay_seconds", "swarm", IN_SWARM), "{{swarm}}"),
    )
    return limited(delay, limits(5, 15))


def _programs() -> AnyPanel:
    return table(
        Says(
            "Job",
            "The version of the job that runs, the digest of its configuration and the prefix of its topics.",
            "Whether the exporter has the same configuration: compare with the table beside.",
            ("PipelineStalled",),
        ),
        Size(12, 6),
        [Label("version"), Label("config"), Label("prefix")],
        [Column(HIDDEN, gauge("job_info", "version, config, prefix"))],
    )


def _swarms() -> AnyPanel:
    return table(
        Says(
            "Swarms",
            "The swarms that the exporter knows, with their ids and the digest of its configuration, and the age of "
            "the newest tick.",
            "Swarms that are in the job's configuration only.",
            ("ExporterBehind", "SwarmSilent"),
        ),
        Size(12, 6),
        [Label("swarm"), Label("swarm_id"), Label("config")],
        [
            Column("newest tick before", age("matrix_tick_timestamp_seconds", "swarm", IN_SWARM), "s"),
            Column("peers", gauge("peers", "swarm", IN_SWARM)),
            Column(HIDDEN, gauge("swarm_info", "swarm, swarm_id, config", IN_SWARM)),
        ],
        sort="swarm",
    )
