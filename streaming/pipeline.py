"""The metrics of the job itself, and whether it goes on: what its queries did, what is unread, and what they keep."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from state.limits import BLOB_BYTES_MAX
from state.metric import Sample, by_name, counter, gauge, histogram
from state.segment import Reason
from streaming.lag import LagWatch
from streaming.progress import PHASES, Totals

STALLED_SECONDS = 60.0
"""A query that has told nothing for this long stands still: one that waits tells so every ten seconds, and a batch of a
backlog takes less."""

_COUNTS = {
    "verified": ("segments_verified_total", "Segments that passed every check. One that comes twice counts twice."),
    "duplicate": ("segments_duplicate_total", "Segments that had come before: copies, or a topic that is read again."),
    "ops": ("ops_total", "Ops of segments that passed every check and had not come before."),
    "noops": ("noops_total", "Noops taken into the matrix, added up over the blocks of columns."),
    "noops_late": ("noops_late_total", "Noops that came after their tick was reported: brokers' clocks differ."),
    "noops_early": ("noops_early_total", "Noops taken in before their time, because too many waited for the clock."),
    "ticks_reported": ("ticks_reported_total", "Reports of ticks, one for each block of columns."),
    "ticks_judged": ("ticks_judged_total", "Ticks of which it was judged whether the swarm is split."),
    "reports_dropped": ("reports_dropped_total", "Reports that came after their tick was judged, or given up."),
    "tick_gaps": ("tick_gaps_total", "Ticks that were given up because not every block reported them."),
    "updates": ("updates_total", "Updates of shared entities that were taken in. One that comes twice counts twice."),
    "updates_early": ("updates_early_total", "Updates taken in too early, because too many waited for the clock."),
    "entity_events": ("entity_events_total", "Events of shared entities that are held."),
    "entities": ("entities_total", "Entities of which an update came."),
    "reopened": ("state_reopened_total", "Keys whose state was unpacked anew: after a start, or in another worker."),
}
"""By the name under which a fold, or the host, counts."""

_QUERY = ("query",)
_PARTITION = ("topic", "partition")


PIPELINE_METRICS = by_name(
    (
        gauge(
            "job_info", ("version", "config", "prefix"), "1. The digest of the configuration, and the topics' prefix."
        ),
        counter("job_starts_total", (), "How often a job was started on this checkpoint, this time included."),
        gauge(
            "query_active", _QUERY, "1 while Spark runs the query. It can be 1 while nothing moves: see its progress."
        ),
        gauge(
            "progress_age_seconds",
            _QUERY,
            "How long ago a query last ended a batch, or said that there is nothing to read.",
        ),
        gauge("last_progress_timestamp_seconds", _QUERY, "When that was."),
        counter("records_read_total", _QUERY, "Records read. Records of a batch that is repeated count again."),
        counter("rejected_total", ("query", "reason"), "Records refused, by reason; each is kept as a dead letter."),
        *(counter(name, (), text) for name, text in _COUNTS.values()),
        counter("invariant_violations_total", _QUERY, "Broken invariants of a fold's state. Must be 0."),
        counter("quarantined_total", _QUERY, "Keys that were set aside because of a fold's own bug. Must be 0."),
        counter("batches_total", _QUERY, "Batches that had records."),
        histogram("batch_duration_seconds", _QUERY, "How long batches with records took."),
        counter("batch_phase_seconds_total", ("query", "phase"), "Time of batches by Spark's phases of them."),
        gauge("kafka_lag_records", _PARTITION, "Unread records of a partition that a query reads."),
        gauge(
            "kafka_lag_seconds",
            _PARTITION,
            "Age of the oldest unread record of a partition, 0 if there is none. Nonsense if writers choose the times.",
        ),
        gauge("kafka_retention_seconds", ("topic",), "How long Kafka keeps the records of a topic; +Inf is for ever."),
        gauge("state_rows", _QUERY, "Keys and archive entries that a query keeps, without the dead letters' counts."),
        gauge("state_bytes", _QUERY, "Bytes of their values, as folds packed them; RocksDB needs more, or less."),
        gauge("state_blob_bytes_max", _QUERY, "The largest blob of a key: each batch reads and writes it whole."),
        gauge("state_blob_limit_bytes", (), "What a blob should never exceed."),
        gauge("state_memory_bytes", _QUERY, "Memory of RocksDB, as Spark tells it."),
        gauge("state_disk_bytes", _QUERY, "Files of RocksDB at its last snapshot, as Spark tells it."),
    )
)


class About(NamedTuple):
    """What does not change while a job runs."""

    version: str
    config: str
    prefix: str
    starts: int


class Pipeline:
    """What is known of a job's queries, for whoever scrapes it."""

    def __init__(self, queries: Iterable[str]) -> None:
        self.totals: Mapping[str, Totals] = {}
        self.lags: list[LagWatch] = []
        self.about: About | None = None
        self._queries = tuple(queries)
        self.begin()

    def begin(self) -> None:
        """Nothing is known of any query: a job is about to start."""
        self.totals = {name: Totals() for name in self._queries}
        self.lags = []

    def stalled(self, now_s: float) -> dict[str, float]:
        """The queries that have told nothing for too long, and for how long; −1: nothing yet."""
        ages_s = {name: self._age_s(totals, now_s) for name, totals in self.totals.items()}
        return {name: age_s for name, age_s in ages_s.items() if not 0 <= age_s <= STALLED_SECONDS}

    def sentence(self, now_s: float) -> str:
        """In words, which queries stand still, or that none does."""
        stalled = self.stalled(now_s)
        if not stalled:
            return "ready: all queries make progress"
        return "; ".join(
            f"the query {name} has told nothing " + ("yet" if age_s < 0 else f"for {age_s:.0f} s")
            for name, age_s in stalled.items()
        )

    def samples(self) -> Iterator[Sample]:
        """All samples of this moment."""
        now_s = time.time()
        if self.about is not None:
            yield Sample("job_info", (self.about.version, self.about.config, self.about.prefix), 1)
            yield Sample("job_starts_total", (), self.about.starts)
        yield Sample("state_blob_limit_bytes", (), BLOB_BYTES_MAX)
        for tally, (name, _) in _COUNTS.items():
            yield Sample(name, (), sum(totals.counts[tally] for totals in self.totals.values()))
        for name, totals in self.totals.items():
            yield from self._query(name, totals, now_s)
        for lag in self.lags:
            yield from _lag(lag, now_s)

    def _query(self, query: str, totals: Totals, now_s: float) -> Iterator[Sample]:
        yield Sample("query_active", (query,), totals.is_active)
        if totals.heard_s is not None:
            yield Sample("progress_age_seconds", (query,), self._age_s(totals, now_s))
            yield Sample("last_progress_timestamp_seconds", (query,), totals.heard_s)
        yield Sample("records_read_total", (query,), totals.records)
        for reason in Reason:
            yield Sample("rejected_total", (query, reason), totals.counts[f"rejected_{reason}"])
        for name in ("invariant_violations", "quarantined"):
            yield Sample(f"{name}_total", (query,), totals.counts[name])
        yield Sample("batches_total", (query,), totals.batches)
        yield Sample("batch_duration_seconds", (query,), totals.durations.distribution())
        for phase in PHASES:
            yield Sample("batch_phase_seconds_total", (query, phase), totals.phases_ms[phase] / 1000)
        for name, level in totals.levels.items():
            yield Sample(name, (query,), level)
        yield Sample("state_memory_bytes", (query,), totals.memory_bytes)
        yield Sample("state_disk_bytes", (query,), totals.disk_bytes)

    @staticmethod
    def _age_s(totals: Totals, now_s: float) -> float:
        return -1.0 if totals.heard_s is None else max(now_s - totals.heard_s, 0.0)


def _lag(watch: LagWatch, now_s: float) -> Iterator[Sample]:
    for partition, lag in sorted(watch.now.items()):
        labels = (watch.topic, str(partition))
        yield Sample("kafka_lag_records", labels, lag.records)
        # What is unread and could not be looked at has an age that is not known: no value rather than a wrong one.
        if lag.oldest_ms is not None or lag.records == 0:
            age_s = 0.0 if lag.oldest_ms is None else max(now_s - lag.oldest_ms / 1000, 0.0)
            yield Sample("kafka_lag_seconds", labels, age_s)
    if watch.retention_ms is not None:
        yield Sample("kafka_retention_seconds", (watch.topic,), watch.retention_ms / 1000)
