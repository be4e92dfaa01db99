"""The metrics of the job: all that its queries count is shown, and readiness follows their progress."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dashboards.site import Address
from state.connection import Connection
from state.metric import Distribution, Kind
from state.segment import Reason
from streaming.cli import _serving_job
from streaming.host import LEVELS
from streaming.lag import Lag, LagWatch
from streaming.listener import ProgressListener
from streaming.pipeline import PIPELINE_METRICS, STALLED_SECONDS, About, Pipeline
from streaming.progress import PHASES, Totals
from streaming.queries import QUERIES, TALLIES, tallies
from tests.loglab import lab_config
from tests.test_progress import progress

NOW_S = 1_767_225_700.0
TOPIC = "prefix.segments"
Series = tuple[str, tuple[str, ...]]


def batch(number: int, counted: dict[str, int], rows: int = 5) -> Any:
    """The progress of a batch that counted something."""
    one = progress(number, number + 1, rows)
    one.observedMetrics = {TALLIES: SimpleNamespace(asDict=lambda: counted)}
    one.durationMs = {"triggerExecution": 700, "addBatch": 400, "walCommit": 50}
    one.stateOperators = [SimpleNamespace(memoryUsedBytes=1000, customMetrics={"rocksdbSstFileSize": 2000})]
    return one


def lag_watch(now: dict[int, Lag], retention_ms: float | None) -> LagWatch:
    """A watch as it is after it asked."""
    watch = LagWatch(Connection(bootstrap="127.0.0.1:9"), TOPIC, Totals())
    watch.now, watch.retention_ms = now, retention_ms
    return watch


def busy() -> Pipeline:
    """A pipeline that knows something of everything."""
    pipeline = Pipeline(QUERIES)
    pipeline.about = About("1.0", "digest", "prefix", 3)
    for name, totals in pipeline.totals.items():
        totals.is_active = True
        totals.add(batch(0, dict.fromkeys([*tallies(QUERIES[name], lab_config()), *LEVELS], 2)))
    pipeline.lags = [lag_watch({0: Lag(4, 1000)}, 5000)]
    return pipeline


def values(pipeline: Pipeline) -> dict[Series, float | Distribution]:
    """The samples by name and labels; each is there once."""
    samples = list(pipeline.samples())
    found = {(sample.metric, sample.labels): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def test_each_metric_is_shown_with_the_labels_that_it_has() -> None:
    samples = list(busy().samples())
    assert {sample.metric for sample in samples} == set(PIPELINE_METRICS)
    for sample in samples:
        metric = PIPELINE_METRICS[sample.metric]
        assert len(sample.labels) == len(metric.labels), sample
        assert all(isinstance(label, str) for label in sample.labels)
        assert isinstance(sample.value, Distribution) == (metric.kind == Kind.HISTOGRAM)
        labels = dict(zip(metric.labels, sample.labels, strict=True))
        assert labels.get("query", "segments") in QUERIES
        assert labels.get("reason", Reason.MALFORMED) in set(Reason)
        assert labels.get("phase", "addBatch") in PHASES


@pytest.mark.parametrize(
    ("query", "tally"), [(name, tally) for name in QUERIES for tally in tallies(QUERIES[name], lab_config())]
)
def test_whatever_a_query_counts_raises_a_counter(query: str, tally: str) -> None:
    """A fold that counts something new has to say in `streaming.pipeline` how it is shown."""
    pipeline = Pipeline(QUERIES)
    pipeline.totals[query].add(batch(0, {}))
    before = values(pipeline)
    pipeline.totals[query].counts[tally] += 7
    after = values(pipeline)
    raised = {series for series, value in after.items() if value != before[series] and is_counter(series)}
    assert len(raised) == 1
    (series,) = raised
    assert after[series] == 7


def is_counter(series: Series) -> bool:
    return PIPELINE_METRICS[series[0]].kind == Kind.COUNTER


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("level", LEVELS)
def test_whatever_is_kept_is_shown_as_the_newest_batch_told_it(query: str, level: str) -> None:
    pipeline = Pipeline(QUERIES)
    assert (level, (query,)) not in values(pipeline)
    pipeline.totals[query].add(batch(0, {level: 9}))
    pipeline.totals[query].add(batch(1, {level: 4}))
    assert values(pipeline)[level, (query,)] == 4


def test_a_job_that_has_done_nothing_yet_has_its_counters_at_zero() -> None:
    shown = values(Pipeline(QUERIES))
    for name in QUERIES:
        for reason in Reason:
            assert shown["rejected_total", (name, reason)] == 0
        assert shown["query_active", (name,)] == 0
        assert ("progress_age_seconds", (name,)) not in shown
    assert shown["invariant_violations_total", ("segments",)] == 0
    assert ("job_info", ("1.0", "digest", "prefix")) not in shown


def test_the_starts_of_a_checkpoint_are_a_counter() -> None:
    shown = values(busy())
    assert shown["job_starts_total", ()] == 3
    assert shown["job_info", ("1.0", "digest", "prefix")] == 1


def test_batches_are_counted_and_timed_by_phase() -> None:
    pipeline = Pipeline(QUERIES)
    for number in range(3):
        pipeline.totals["segments"].add(batch(number, {}))
    pipeline.totals["segments"].add(batch(3, {}, rows=0))
    shown = values(pipeline)
    assert shown["batches_total", ("segments",)] == 3
    assert shown["records_read_total", ("segments",)] == 15
    assert shown["batch_phase_seconds_total", ("segments", "addBatch")] == pytest.approx(1.2)
    assert shown["batch_phase_seconds_total", ("segments", "getBatch")] == 0
    durations = shown["batch_duration_seconds", ("segments",)]
    assert isinstance(durations, Distribution)
    counts = dict(zip(durations.bounds, durations.cumulative, strict=True))
    assert (counts[0.5], counts[0.75], counts[float("inf")]) == (0, 3, 3)
    assert durations.total == pytest.approx(2.1)
    assert shown["state_memory_bytes", ("segments",)] == 1000
    assert shown["state_disk_bytes", ("segments",)] == 2000


def lag_samples(now: dict[int, Lag], retention_ms: float | None = None) -> dict[Series, float | Distribution]:
    pipeline = Pipeline(QUERIES)
    pipeline.lags = [lag_watch(now, retention_ms)]
    return {series: value for series, value in values(pipeline).items() if series[0].startswith("kafka_")}


def test_a_lag_has_an_age_unless_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    now_ms = int(NOW_S * 1000)
    assert lag_samples({0: Lag(4, now_ms - 2500), 1: Lag(0, None), 2: Lag(5, None), 3: Lag(1, now_ms + 9999)}) == {
        ("kafka_lag_records", (TOPIC, "0")): 4,
        ("kafka_lag_seconds", (TOPIC, "0")): 2.5,
        ("kafka_lag_records", (TOPIC, "1")): 0,
        ("kafka_lag_seconds", (TOPIC, "1")): 0,
        ("kafka_lag_records", (TOPIC, "2")): 5,
        ("kafka_lag_records", (TOPIC, "3")): 1,
        ("kafka_lag_seconds", (TOPIC, "3")): 0,
    }


@pytest.mark.parametrize("retention_ms", [86_400_000, float("inf")])
def test_how_long_a_topic_keeps_its_records_is_shown_also_if_for_ever(retention_ms: float) -> None:
    assert lag_samples({}, retention_ms) == {("kafka_retention_seconds", (TOPIC,)): retention_ms / 1000}


# Whether it goes on.


def heard(**times_s: float | None) -> Pipeline:
    """A pipeline whose queries were last heard of at these times."""
    pipeline = Pipeline(times_s)
    for name, time_s in times_s.items():
        pipeline.totals[name].heard_s = time_s
    return pipeline


def test_a_query_that_told_something_lately_goes_on() -> None:
    pipeline = heard(segments=NOW_S - STALLED_SECONDS, matrix=NOW_S + 5)
    assert pipeline.stalled(NOW_S) == {}
    assert pipeline.sentence(NOW_S) == "ready: all queries make progress"


def test_a_query_that_told_nothing_for_a_minute_stands_still() -> None:
    pipeline = heard(segments=NOW_S - 61.4, matrix=NOW_S)
    assert pipeline.stalled(NOW_S) == {"segments": pytest.approx(61.4)}
    assert pipeline.sentence(NOW_S) == "the query segments has told nothing for 61 s"


def test_a_query_that_never_told_anything_is_not_ready() -> None:
    pipeline = heard(segments=NOW_S - 90, matrix=None)
    assert pipeline.stalled(NOW_S) == {"segments": 90, "matrix": -1}
    told = "the query segments has told nothing for 90 s; the query matrix has told nothing yet"
    assert pipeline.sentence(NOW_S) == told


def test_a_new_job_begins_with_nothing_known() -> None:
    pipeline = busy()
    pipeline.begin()
    assert pipeline.lags == []
    assert set(pipeline.stalled(NOW_S)) == set(QUERIES)
    assert values(pipeline)["records_read_total", ("segments",)] == 0


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Pipeline, str]]:
    pipeline = Pipeline(QUERIES)
    with _serving_job(pipeline, Address("127.0.0.1", 0)) as address:
        yield pipeline, address.url


def ask(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_a_job_is_ready_when_all_its_queries_make_progress_and_its_port_does_not_count(
    served: tuple[Pipeline, str],
) -> None:
    pipeline, url = served
    status, body = ask(f"{url}/-/ready")
    assert status == 503
    facts = msgspec.json.decode(body)
    assert facts["stalled_seconds"] == {"segments": -1, "matrix": -1}
    assert facts["state"].startswith("the query segments has told nothing yet")
    assert ask(f"{url}/-/live")[0] == 200
    pipeline.totals["segments"].note_idle()
    assert ask(f"{url}/-/ready")[0] == 503
    pipeline.totals["matrix"].add(batch(0, {}))
    status, body = ask(f"{url}/-/ready")
    assert (status, msgspec.json.decode(body)["state"]) == (200, "ready: all queries make progress")


def test_a_job_serves_its_metrics_and_nothing_else(served: tuple[Pipeline, str]) -> None:
    _, url = served
    status, body = ask(f"{url}/metrics")
    assert status == 200
    assert b'quorumscope_rejected_total{query="segments",reason="bad_signature"} 0.0' in body
    assert b"process_resident_memory_bytes" in body
    assert ask(f"{url}/")[0] == 404


# What Spark tells.


def event(name: str, run: int) -> Any:
    return SimpleNamespace(name=name, runId=run)


def test_the_listener_tells_each_querys_totals_what_spark_says_of_it() -> None:
    totals = {name: Totals() for name in QUERIES}
    listener = ProgressListener(totals)
    listener.onQueryStarted(event("segments", 1))
    assert (totals["segments"].is_active, totals["matrix"].is_active) == (True, False)
    assert totals["segments"].heard_s is not None
    assert totals["matrix"].heard_s is None
    one = batch(0, {"ops": 3})
    one.name = "segments"
    listener.onQueryProgress(SimpleNamespace(progress=one))
    assert totals["segments"].counts["ops"] == 3
    totals["segments"].heard_s = None
    listener.onQueryIdle(event("", 1))
    assert totals["segments"].heard_s is not None
    listener.onQueryTerminated(event("", 1))
    assert not totals["segments"].is_active


def test_the_listener_leaves_queries_alone_that_are_not_ours() -> None:
    totals = {name: Totals() for name in QUERIES}
    listener = ProgressListener(totals)
    one = batch(0, {"ops": 3})
    one.name = None
    listener.onQueryStarted(event("somebody's", 9))
    listener.onQueryProgress(SimpleNamespace(progress=one))
    listener.onQueryIdle(event("", 9))
    listener.onQueryTerminated(event("", 9))
    assert all(one.heard_s is None and not one.counts for one in totals.values())
