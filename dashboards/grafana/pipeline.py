"""Is the monitor itself well? Whether the job runs, and what it reads and rejects.

The rows on batches, on Kafka, on state and on the exporter are in `batches`, `reading`, `stored` and `exporting`.
"""

from dashboards.grafana import batches, exporting, reading, stored, variables
from dashboards.grafana.links import PIPELINE
from dashboards.grafana.looks import NO_DATA, NONE_IS_WELL, NOW, PLAIN, SOME_ARE_WELL, WELL, limits, meanings
from dashboards.grafana.page import Page, Section
from dashboards.grafana.panels import AnyPanel, Says, Size, bars, graph, number, stacked
from dashboards.grafana.queries import (
    OF_QUERY,
    gauge,
    increase,
    metric,
    rate,
    series,
    total,
    value,
)

SMALL = Size(4, 5)
THIRD = Size(8, 9)
HALF = Size(12, 9)


def page() -> Page:
    return Page(
        file="pipeline",
        uid=PIPELINE,
        title="quorumscope / Pipeline",
        about="The monitor itself: the job that reads segments and writes verdicts, and the exporter that shows them.",
        variables=[variables.swarm(), variables.query()],
        sections=[
            Section("Does it run?", _running()),
            Section("Records", [_segments(), _ops(), _rejects(), _read(), _rare()]),
            batches.section(),
            reading.section(),
            stored.section(),
            exporting.section(),
        ],
    )


def _running() -> list[AnyPanel]:
    return [
        number(
            Says(
                "Queries run",
                "Whether each streaming query of the job is active.",
                "Whether it gets on: see the age of its progress.",
                ("PipelineStalled",),
            ),
            SMALL,
            "none",
            SOME_ARE_WELL,
            value(gauge("query_active", "query", OF_QUERY), "{{query}}"),
        ).mappings([meanings({"0": ("no", NOW), "1": ("yes", WELL)}), NO_DATA]),
        number(
            Says(
                "Progress age",
                "How long ago each query last ended a batch or said that there was nothing to do.",
                "Whether a long batch hangs or works.",
                ("PipelineStalled",),
            ),
            SMALL,
            "s",
            limits(60, 120),
            value(gauge("progress_age_seconds", "query", OF_QUERY), "{{query}}"),
        ),
        number(
            Says(
                "Last progress",
                "The same as a time, by the job's clock.",
                "What it was that was done.",
                ("PipelineStalled",),
            ),
            SMALL,
            "dateTimeAsIso",
            PLAIN,
            value(f"{gauge('last_progress_timestamp_seconds', 'query', OF_QUERY)} * 1000", "{{query}}"),
        ),
        number(
            Says(
                "Starts",
                "How often a job was started on this checkpoint, ever. It counts on while the job restarts.",
                "Why it ended: its log tells.",
                ("PipelineStalled",),
            ),
            SMALL,
            "none",
            PLAIN,
            value(gauge("job_starts_total", "")),
        ),
        number(
            Says(
                "Broken invariants",
                "Checks that must hold for the state and did not, by query. Must be 0: it is a bug, or a damaged "
                "checkpoint.",
                "Which verdicts are wrong because of it.",
                ("InvariantBroken",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(total("query", metric("invariant_violations_total", OF_QUERY)), "{{query}}"),
        ),
        number(
            Says(
                "Keys in quarantine",
                "Keys that stand still because of a bug in a fold, by query. Their input is kept as dead letters. "
                "Must be 0.",
                "Which peers they hold: the quarantine verdicts tell.",
                ("InvariantBroken",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(total("query", metric("quarantined_total", OF_QUERY)), "{{query}}"),
        ),
    ]


def _segments() -> AnyPanel:
    return graph(
        Says(
            "Segments per second",
            "Segments that were verified, and those among them that had been there already.",
            "Who publishes twice. Duplicates change nothing.",
            ("LagHigh",),
        ),
        THIRD,
        "cps",
        series(total("", rate("segments_verified_total")), "verified"),
        series(total("", rate("segments_duplicate_total")), "duplicate"),
    )


def _ops() -> AnyPanel:
    return graph(
        Says(
            "Ops and noops per second",
            "Ops in verified segments, and the noops that sign them.",
            "What the ops do: they are bytes to the monitor.",
            ("LagHigh",),
        ),
        THIRD,
        "cps",
        series(total("", rate("ops_total")), "ops"),
        series(total("", rate("noops_total")), "noops"),
    )


def _rejects() -> AnyPanel:
    rejects = graph(
        Says(
            "Rejects per second",
            "Records that were rejected, by reason. They are kept whole on the topic of dead letters.",
            "Who wrote them: what a rejected record says of itself is not proved.",
            ("RejectsRising", "BadSignatures"),
        ),
        THIRD,
        "cps",
        series(total("reason", rate("rejected_total", OF_QUERY)), "{{reason}}"),
    )
    return stacked(rejects)


def _read() -> AnyPanel:
    return graph(
        Says(
            "Records read per second",
            "Records that each query read, whatever they were.",
            "How many wait: see the lag.",
            ("LagHigh",),
        ),
        HALF,
        "cps",
        series(total("query", rate("records_read_total", OF_QUERY)), "{{query}}"),
    )


def _rare() -> AnyPanel:
    counters = {
        "noops_late_total": "noops after their tick",
        "noops_early_total": "noops ahead of the clock",
        "ticks_reported_total": "ticks reported",
        "ticks_judged_total": "ticks judged",
        "reports_dropped_total": "reports dropped",
        "tick_gaps_total": "gaps between ticks",
        "state_reopened_total": "states read again",
    }
    return bars(
        Says(
            "Ticks in this time",
            "Ticks of the matrix that were reported and judged within the shown time range, and what went wrong with "
            "them.",
            "Which swarm it was. Fewer judged than reported means that a block of columns is behind, or that it just "
            "began.",
            ("PipelineStalled", "VerdictsUndecidable"),
        ),
        HALF,
        "none",
        PLAIN,
        *(value(total("", increase(counter)), text) for counter, text in counters.items()),
    ).decimals(0)
