"""docs/metrics.md, from what the collectors say of themselves."""

from collections.abc import Iterator

from dashboards.exposition import SampleCollector, full_name

_INTRODUCTION = """# Metrics

Made by `python -m tests.make_docs` from the collectors themselves; a test keeps it current. Two processes serve metrics
in Prometheus' text format at `/metrics`:

- the **exporter** (`quorumscope exporter --listen HOST:PORT`), from the topics of verdicts and reports. It reads them
  before it opens its port, so its counters go on where they were after a restart, and never back. They belong to the
  topics, not to the process: two exporters of the same topics tell the same.
- the **job** (`quorumscope run --listen HOST:PORT`), from Spark's own progress and from Kafka. Its counters begin at 0
  with each start, but for `quorumscope_job_starts_total`.

Labels come from the configuration alone: `swarm` and `peer` are names of the file of swarms, and what is in no roster
is `other`. Histograms have classic buckets: the client library for Python does not serve native ones. Those of
latencies have no sum and no count series; `le="+Inf"` is the count. Both processes serve `process_…` metrics of
themselves too.
"""


def metrics_page(exporter: SampleCollector, job: SampleCollector) -> str:
    """The page, in Markdown."""
    parts = [_INTRODUCTION, "## Exporter\n", *_table(exporter), "\n## Job\n", *_table(job)]
    return "\n".join(parts) + "\n"


def _table(collector: SampleCollector) -> Iterator[str]:
    yield "| metric | type | labels | what it tells |"
    yield "|---|---|---|---|"
    for family in collector.describe():
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ())) or "–"
        yield f"| `{full_name(family)}` | {family.type} | {labels} | {family.documentation} |"
