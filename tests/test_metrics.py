"""Metrics by Prometheus' conventions: names, kinds, labels and help, of the exporter and of the job."""

import re
import subprocess

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dashboards.exposition import SERIES_BUDGET, SampleCollector, make_registry, render
from dashboards.metrics import METRICS
from dashboards.samples import Scope
from state.metric import Distribution, Histogram, Kind, Metric, Sample
from state.verdict import Replica, key_of
from streaming.pipeline import PIPELINE_METRICS, Pipeline
from tests.boardlab import URL, acceptance, board_of, board_samples, large_report, large_swarm, records_of
from tests.make_docs import PAGE, current_page
from tests.pagelab import verdict_record
from tests.simlab import simulated

ALL = [*METRICS.values(), *PIPELINE_METRICS.values()]
START_MS = 1_767_225_600_000
STORY = "whole-story"


def story_samples(name: str = STORY) -> list[Sample]:
    return list(board_samples(board_of(simulated(name).config, records_of(name)), URL, Scope()))


def test_the_page_of_metrics_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == current_page(), "run `python -m tests.make_docs`"


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_names_have_base_units_and_end_as_prometheus_wants_it(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name)
    assert (metric.kind == Kind.COUNTER) == metric.name.endswith("_total")
    assert not re.search(r"_(ms|milliseconds|minutes|hours|kb|mb|percent|count|sum|bucket)(_|$)", metric.name)
    assert metric.help.endswith(".")
    assert len(metric.help) > 10
    assert not {"le", "quantile", "job", "instance", "key", "id"} & set(metric.labels)


def test_no_two_metrics_share_a_name() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)


@pytest.mark.parametrize("name", [STORY, "withheld-story", "diverging-replicas"])
def test_each_sample_has_the_labels_of_its_metric_and_names_only_from_the_roster(name: str) -> None:
    (swarm,) = simulated(name).config.swarms
    peers = {*swarm.authors.values(), "other"}
    for sample in story_samples(name):
        labels = dict(zip(METRICS[sample.metric].labels, sample.labels, strict=True))
        assert labels.get("peer", "other") in peers
        for node in (labels.get("observer"), labels.get("author")):
            assert node is None or node.partition("/")[0] in peers


def test_a_scrape_is_text_that_prometheus_reads_back() -> None:
    samples = story_samples()
    registry = make_registry(SampleCollector(METRICS, lambda: samples, SERIES_BUDGET))
    body = render(registry)
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    read = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    for sample in samples:
        if not isinstance(sample.value, Distribution):
            labels = zip(METRICS[sample.metric].labels, sample.labels, strict=True)
            assert read[f"quorumscope_{sample.metric}", frozenset(labels)] == float(sample.value)
    assert "quorumscope_acceptance_latency_seconds" in families
    assert not any(name.startswith("quorumscope_") and name.endswith(("_sum", "_created")) for name, _ in read)
    assert read["quorumscope_exporter_series_dropped", frozenset()] == 0
    assert "process_start_time_seconds" in families


@pytest.mark.programs
@pytest.mark.parametrize("of", ["exporter", "job"])
def test_promtool_finds_nothing_to_complain_of(of: str) -> None:
    if of == "exporter":
        samples = story_samples()
        collector = SampleCollector(METRICS, lambda: samples, SERIES_BUDGET)
    else:
        collector = SampleCollector(PIPELINE_METRICS, Pipeline(["segments", "matrix"]).samples)
    body = render(make_registry(collector))
    done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_text_is_what_prometheus_own_client_would_write() -> None:
    samples = [*story_samples(), Sample("limits_exceeded", ("a\nb", 'c"d', "e\\f"), float("inf"))]
    registry = make_registry(SampleCollector(METRICS, lambda: samples, SERIES_BUDGET))
    ours, theirs = (
        {line for line in page.decode().splitlines() if "process_" not in line}
        for page in (render(registry), generate_latest(registry))
    )
    assert {meaning(line) for line in ours} == {meaning(line) for line in theirs}


def meaning(line: str) -> tuple[object, ...]:
    """The order of labels and the way a number is written make no difference."""
    found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
    if found is None:
        return (line,)
    return found[1], frozenset(re.findall(r'\w+="(?:[^"\\]|\\.)*"', found[2] or "")), float(found[3])


def test_what_is_no_more_vanishes() -> None:
    samples = [Sample("peers", ("one",), 1), Sample("peers", ("two",), 1)]
    registry = make_registry(SampleCollector(METRICS, lambda: samples, SERIES_BUDGET))
    assert b'swarm="two"' in render(registry)
    samples.pop()
    assert b'swarm="two"' not in render(registry)
    samples.pop()
    assert b"quorumscope_peers" not in render(registry)


def test_a_thousand_peers_do_not_explode() -> None:
    config = large_swarm(1000)
    records = [large_report(config, START_MS), *(acceptance(config, at, START_MS) for at in range(2000))]
    board = board_of(config, records)
    samples = list(board_samples(board, URL, Scope()))
    assert len(samples) < 20_000
    pairs = [sample for sample in samples if sample.metric == "pair_lag_segments"]
    assert len(pairs) == Scope().worst_pairs
    assert len({labels for metric, labels, _ in samples if metric == "peer_index"}) == 1000
    small = list(board_samples(board, URL, Scope(pair_peers_max=1000)))
    assert sum(sample.metric == "pair_lag_segments" for sample in small) == 1000 * 999


def test_replicas_of_a_thousand_peers_have_a_bounded_number_of_series_however_many_entities_there_are() -> None:
    config = large_swarm(1000)
    (swarm,) = config.swarms
    members = [author.hex() for author in swarm.epochs[0].members]
    about = {"swarm": swarm.id, "config": "c" * 64, "segment": "cc" * 32, "why": "branch", "state": "diverged"}
    facts = dict.fromkeys(("events", "lacks", "extra", "index", "position"), 1)
    board = board_of(config, [large_report(config, START_MS)])
    before = len(list(board_samples(board, URL, Scope())))
    board.absorb(
        verdict_record(
            Replica(
                key=key_of(Replica, swarm.id, author, entity),
                **about | facts,
                author=author,
                entity=entity,
                by_clock=False,
                stated_ms=1,
                since_ms=at,
            )
        )
        for at, author in enumerate(members)
        for entity in (f"{at:08x}", "ab" * 8, "cd" * 8)
    )
    samples = list(board_samples(board, URL, Scope()))
    assert len(samples) - before == 1000 * (4 + 1 + 1 + 1 + 4)
    assert len(samples) < SERIES_BUDGET
    assert {one.value for one in samples if one.metric == "entities"} == {1002}


def test_the_worst_pairs_are_the_worst() -> None:
    config = large_swarm(40)
    board = board_of(config, [large_report(config, START_MS)])
    some, every = (
        sorted(
            (sample.value for sample in board_samples(board, URL, scope) if sample.metric == "pair_unseen_seconds"),
            reverse=True,
        )
        for scope in (Scope(32, 50), Scope(40, 50))
    )
    assert some == every[:50]


def test_beyond_the_budget_pairs_go_first_and_are_counted() -> None:
    config = large_swarm(30)
    board = board_of(config, [large_report(config, START_MS)])
    samples = list(board_samples(board, URL, Scope()))
    budget = len(samples) - 100
    body = render(make_registry(SampleCollector(METRICS, lambda: samples, budget))).decode()
    assert "quorumscope_exporter_series_dropped 100.0" in body
    assert f"quorumscope_exporter_series {float(budget)}" in body
    assert f"quorumscope_exporter_series_budget {float(budget)}" in body
    assert body.count("\nquorumscope_peer_index{") == 30
    assert body.count("\nquorumscope_pair_unseen_seconds{") < 30 * 29


def test_a_histogram_counts_each_value_at_its_bound_and_above() -> None:
    histogram = Histogram((1, 2), with_total=True)
    for value in (0.5, 1, 1.5, 7):
        histogram.observe(value)
    assert histogram.distribution() == Distribution((1, 2, float("inf")), (2, 3, 4), 10)
