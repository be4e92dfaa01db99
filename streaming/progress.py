"""What a query has done so far, added up from the progress that Spark reports for each batch."""

import json
import time
from collections import Counter, deque
from typing import Any

from streaming.queries import TALLIES

RATE_SECONDS = 10.0
"""Rates are over this long: shorter ones jump with each batch."""


class Totals:
    """Counts and rates of one query. `update` reads what is new in the query's progress."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.records = 0
        self.batches = 0
        self.batch_ms = 0
        self.ends: dict[int, int] = {}
        """Where the newest batch ended, by partition."""
        self._last = (-1, "")
        """Batch and time of the newest progress that was taken in. A query that waits for data reports the batch that
        it will run next, as often as it waits, and then that batch itself."""
        self._history: deque[tuple[float, int, int]] = deque([(time.monotonic(), 0, 0)])

    @property
    def rejected(self) -> int:
        return sum(count for name, count in self.counts.items() if name.startswith("rejected_"))

    def update(self, query: Any) -> bool:
        """Take in the batches that ended since the last call; whether there were any."""
        new = [one for one in query.recentProgress if (one.batchId, one.timestamp) > self._last]
        for progress in new:
            self._last = (progress.batchId, progress.timestamp)
            self.records += progress.numInputRows
            self.batches += progress.numInputRows > 0
            self.batch_ms = int(progress.durationMs.get("triggerExecution", 0))
            self._add_ends(progress.sources[0].endOffset)
            observed = (progress.observedMetrics or {}).get(TALLIES)
            if observed is not None:
                self.counts.update({name: count or 0 for name, count in observed.asDict().items()})
        self._history.append((time.monotonic(), self.records, self.counts["ops"]))
        while self._history[0][0] < self._history[-1][0] - RATE_SECONDS:
            self._history.popleft()
        return bool(new)

    def rates(self) -> tuple[float, float]:
        """Records and ops a second, lately."""
        (since, records, ops), (now, records_now, ops_now) = self._history[0], self._history[-1]
        seconds = max(now - since, 1e-3)
        return (records_now - records) / seconds, (ops_now - ops) / seconds

    def _add_ends(self, offsets: str | None) -> None:
        for partitions in json.loads(offsets or "{}").values():
            self.ends |= {int(partition): offset for partition, offset in partitions.items()}
