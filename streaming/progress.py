"""What a query has done so far, added up from the progress that Spark reports for each batch.

Progress comes from a listener, and can be asked of a query too; a batch counts once, however it was heard of.
"""

import json
import threading
import time
from collections import Counter, deque
from typing import Any

from state.metric import Histogram
from streaming.host import LEVELS
from streaming.queries import RANGE_TALLIES, TALLIES

RATE_SECONDS = 10.0
"""Rates are over this long: shorter ones jump with each batch."""

BATCH_BOUNDS_S = (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120)
"""A batch takes half a second whatever it holds; one of a backlog some seconds."""

PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
"""The parts of a batch, as Spark calls them, in their order."""


class Totals:
    """Counts and rates of one query. It may be added to in one thread and read in another."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.levels: dict[str, int] = {}
        """How much is kept, as the newest batch told."""
        self.records = 0
        self.batches = 0
        self.batch_ms = 0
        self.ends: dict[int, int] = {}
        """Where the newest batch ended, by partition."""
        self.phases_ms: Counter[str] = Counter()
        self.durations = Histogram(BATCH_BOUNDS_S, with_total=True)
        self.memory_bytes = 0
        self.disk_bytes = 0
        self.heard_s: float | None = None
        """When the query last told that it goes on, by the wall clock; None before that."""
        self.is_active = False
        self._lock = threading.Lock()
        self._last = (-1, "")
        """Batch and time of the newest progress that was taken in. A query that waits for data reports the batch that
        it will run next, as often as it waits, and then that batch itself."""
        self._history: deque[tuple[float, int, int]] = deque([(time.monotonic(), 0, 0)])
        """After each batch: when, and the records and ops so far; the first is from before the time of the rates."""

    @property
    def rejected(self) -> int:
        return sum(count for name, count in self.counts.items() if name.startswith("rejected_"))

    def update(self, query: Any) -> bool:
        """Take in the batches that ended since the last call; whether there were any."""
        news = [self.add(progress) for progress in query.recentProgress]
        return any(news)

    def add(self, progress: Any) -> bool:
        """Take in the progress of a batch; whether it is new."""
        with self._lock:
            mark = (progress.batchId, progress.timestamp)
            if mark <= self._last:
                return False
            self._last = mark
            self.heard_s = time.time()
            self._add(progress)
            self._history.append((time.monotonic(), self.records, self.counts["ops"]))
            return True

    def note_idle(self) -> None:
        """The query has nothing to do, and says so."""
        self.heard_s = time.time()

    def rates(self) -> tuple[float, float]:
        """Records and ops a second, lately."""
        now = time.monotonic()
        with self._lock:
            while len(self._history) > 1 and self._history[1][0] < now - RATE_SECONDS:
                self._history.popleft()
            since, records, ops = self._history[0]
            seconds = max(now - since, 1e-3)
            return (self.records - records) / seconds, (self.counts["ops"] - ops) / seconds

    def _add(self, progress: Any) -> None:
        self._add_ends(progress.sources[0].endOffset)
        for operator in progress.stateOperators:
            self.memory_bytes = operator.memoryUsedBytes
            self.disk_bytes = operator.customMetrics.get("rocksdbSstFileSize", 0)
        if progress.numInputRows == 0:
            return
        in_range = (progress.observedMetrics or {}).get(RANGE_TALLIES)
        self.records += progress.numInputRows if in_range is None else in_range.records
        self.batches += 1
        self.batch_ms = int(progress.durationMs.get("triggerExecution", 0))
        self.durations.observe(self.batch_ms / 1000)
        self.phases_ms.update({phase: progress.durationMs.get(phase, 0) for phase in PHASES})
        observed = (progress.observedMetrics or {}).get(TALLIES)
        if observed is not None:
            amounts = {name: amount or 0 for name, amount in observed.asDict().items()}
            self.levels = {name: amounts.pop(name) for name in LEVELS if name in amounts}
            self.counts.update(amounts)

    def _add_ends(self, offsets: str | None) -> None:
        for partitions in json.loads(offsets or "{}").values():
            self.ends |= {int(partition): offset for partition, offset in partitions.items()}
