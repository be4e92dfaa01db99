"""How long the batches of the job take, and in which phase."""

from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph, heat, stacked
from dashboards.grafana.queries import OF_QUERY, buckets, quantile, rate, series, total

HALF = Size(12, 9)
DURATIONS = total("query, le", rate("batch_duration_seconds_bucket", OF_QUERY))


def section() -> Section:
    return Section("Batches", [_heat(), _durations(), _phases(), _batches()])


def _heat() -> AnyPanel:
    return heat(
        Says(
            "Batch duration",
            "How many batches took how long, per second, of the chosen queries. Batches without records are left out.",
            "A batch that has not ended.",
            ("LagHigh", "PipelineStalled"),
        ),
        HALF,
        "s",
        buckets(total("le", rate("batch_duration_seconds_bucket", OF_QUERY))),
    )


def _durations() -> AnyPanel:
    return graph(
        Says(
            "Batches took",
            "Half, and 99 in a hundred, of the batches of each query took at most this long.",
            "Exact values: they are read between the bounds of buckets.",
            ("LagHigh", "PipelineStalled"),
        ),
        HALF,
        "s",
        series(quantile(0.5, DURATIONS), "{{query}} p50"),
        series(quantile(0.99, DURATIONS), "{{query}} p99"),
    )


def _phases() -> AnyPanel:
    phases = graph(
        Says(
            "Where the time goes",
            "Seconds per second that batches spend in each phase. addBatch is the work itself; the rest is Spark's "
            "book-keeping.",
            "Which fold the work is for.",
            ("LagHigh",),
        ),
        HALF,
        "percentunit",
        series(total("query, phase", rate("batch_phase_seconds_total", OF_QUERY)), "{{query}} {{phase}}"),
    )
    return stacked(phases)


def _batches() -> AnyPanel:
    return graph(
        Says(
            "Batches per second",
            "Batches that had records, by query.",
            "How much was in them.",
            ("PipelineStalled",),
        ),
        HALF,
        "cps",
        series(total("query", rate("batches_total", OF_QUERY)), "{{query}}"),
    )
