"""How far behind the job reads, by partition, and how long Kafka keeps what it has not read.

Spark commits no group offsets, so these numbers are seen by nobody but the job itself.
"""

from dashboards.grafana.looks import NOW, QUIET, SOON, WELL, from_value_on, limits
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph, limited
from dashboards.grafana.queries import gauge, series
from dashboards.grafana.tables import Column, Label, table

PARTITION = "topic, partition"

LONG_SECONDS = 1e12
"""Longer than any retention that is a number: a topic that keeps records for ever says infinity."""


def section() -> Section:
    return Section("Kafka", [_records(), _seconds(), _headroom(), _partitions()])


def _records() -> AnyPanel:
    return graph(
        Says(
            "Lag in records",
            "Records of each partition that the job has not read.",
            "How long they take: some are one op, some four thousand.",
            ("LagHigh",),
        ),
        Size(8, 9),
        "none",
        series(gauge("kafka_lag_records", PARTITION), "{{topic}} {{partition}}"),
    ).decimals(0)


def _seconds() -> AnyPanel:
    lag = graph(
        Says(
            "Lag in seconds",
            "The age of the oldest record of each partition that the job has not read; 0 if there is none.",
            "How long it takes to catch up.",
            ("LagHigh",),
        ),
        Size(8, 9),
        "s",
        series(gauge("kafka_lag_seconds", PARTITION), "{{topic}} {{partition}}"),
    )
    return limited(lag, limits(30, 60))


def _headroom() -> AnyPanel:
    lag = gauge("kafka_lag_seconds", "topic")
    headroom = graph(
        Says(
            "Retention headroom",
            "What is left of the time for which a topic keeps records, for the oldest that is unread. At 0 it is "
            "lost, and "
            "the job ends when it meets the gap. A topic that keeps records for ever has all of it.",
            "Limits of a topic by size: they can delete sooner.",
            ("RetentionAtRisk",),
        ),
        Size(8, 9),
        "percentunit",
        series(f"1 - {lag} / {gauge('kafka_retention_seconds', 'topic')}", "{{topic}}"),
    )
    return limited(headroom.max(1), ((None, NOW), (0.5, SOON), (0.75, WELL)))


def _partitions() -> AnyPanel:
    kept = gauge("kafka_retention_seconds", "topic")
    kept_by_partition = f"{kept} + on (topic) group_right () 0 * {gauge('kafka_lag_records', PARTITION)}"
    return table(
        Says(
            "Partitions",
            "The same numbers, now.",
            "Which peers' segments are in a partition: the key of a record is its author.",
            ("LagHigh", "RetentionAtRisk"),
        ),
        Size(24, 8),
        [Label("topic"), Label("partition")],
        [
            Column("unread records", gauge("kafka_lag_records", PARTITION)),
            Column("oldest unread", gauge("kafka_lag_seconds", PARTITION), "s", limits(30, 60, QUIET)),
            Column(
                "kept for", kept_by_partition, "dtdurations", words=(from_value_on(LONG_SECONDS, "for ever", QUIET),)
            ),
        ],
        sort="topic",
    )
