"""What a query has done, added up from what Spark says of it."""

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.progress import Totals
from streaming.queries import TALLIES


def progress(batch: int, second: int, rows: int) -> Any:
    ends = json.dumps({"topic": {"0": rows}})
    return SimpleNamespace(
        batchId=batch,
        timestamp=f"2026-01-01T00:00:{second:02}.000Z",
        numInputRows=rows,
        durationMs={"triggerExecution": 500},
        sources=[SimpleNamespace(endOffset=ends)],
        stateOperators=[],
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


def test_what_the_listener_told_is_not_counted_again_when_the_query_is_asked() -> None:
    totals = Totals()
    assert totals.add(progress(0, 1, 5))
    assert not totals.update(SimpleNamespace(recentProgress=[progress(0, 1, 5)]))
    assert totals.update(SimpleNamespace(recentProgress=[progress(0, 1, 5), progress(1, 2, 7)]))
    assert not totals.add(progress(1, 2, 7))
    assert (totals.records, totals.batches, totals.ends) == (12, 2, {0: 7})


def test_rates_are_of_late_and_fall_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    totals = Totals()
    now[0] += 5
    totals.add(progress(0, 1, 100))
    assert totals.rates()[0] == 20
    now[0] += 20
    assert totals.rates()[0] == 0
    totals.add(progress(1, 2, 60))
    assert totals.rates()[0] == 3


def test_the_levels_are_those_of_the_newest_batch_and_counts_add_up() -> None:
    totals = Totals()
    for batch, size in ((0, 100), (1, 80)):
        one = progress(batch, batch + 1, 5)
        tallies = {"ops": 7, "state_rows": 3, "state_bytes": size, "state_blob_bytes_max": size}
        one.observedMetrics = {TALLIES: SimpleNamespace(asDict=lambda tallies=tallies: tallies)}
        totals.add(one)
    assert totals.counts == {"ops": 14}
    assert totals.levels == {"state_rows": 3, "state_bytes": 80, "state_blob_bytes_max": 80}
