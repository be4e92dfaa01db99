"""Writes docs/metrics.md: `python -m tests.make_docs`. A test proves that the file in the repository is current."""

from pathlib import Path

from dashboards.exposition import SERIES_BUDGET, SampleCollector
from dashboards.metrics import METRICS
from dashboards.metricspage import metrics_page
from streaming.pipeline import PIPELINE_METRICS

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"


def current_page() -> str:
    return metrics_page(SampleCollector(METRICS, list, SERIES_BUDGET), SampleCollector(PIPELINE_METRICS, list))


if __name__ == "__main__":
    PAGE.write_text(current_page(), encoding="utf-8")
