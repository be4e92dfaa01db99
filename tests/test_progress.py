"""What a query has done, added up from what Spark says of it."""

import json
from types import SimpleNamespace
from typing import Any

from streaming.progress import Totals


def progress(batch: int, second: int, rows: int) -> Any:
    ends = json.dumps({"topic": {"0": rows}})
    return SimpleNamespace(
        batchId=batch,
        timestamp=f"2026-01-01T00:00:{second:02}.000Z",
        numInputRows=rows,
        durationMs={"triggerExecution": 500},
        sources=[SimpleNamespace(endOffset=ends)],
        observedMetrics={},
    )


def test_each_batch_counts_once_however_often_it_is_seen() -> None:
    totals = Totals()
    query = SimpleNamespace(recentProgress=[progress(0, 1, 5)])
    assert totals.update(query)
    assert not totals.update(query)
    query.recentProgress.append(progress(1, 2, 7))
    totals.update(query)
    assert (totals.records, totals.batches) == (12, 2)


def test_a_batch_counts_after_a_wait_that_was_reported_under_its_number() -> None:
    totals = Totals()
    query = SimpleNamespace(recentProgress=[progress(0, 1, 5), progress(1, 11, 0)])
    totals.update(query)
    query.recentProgress += [progress(1, 21, 0), progress(1, 24, 7), progress(2, 34, 0)]
    totals.update(query)
    assert (totals.records, totals.batches) == (12, 2)
