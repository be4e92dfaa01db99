"""The metrics of a past time: as Prometheus takes them, at the right times, and in the end what is so now."""

import re
import subprocess
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dashboards.backfill import OF_THE_MONITOR, Past, Written, write_backfill
from dashboards.board import Record
from dashboards.metrics import METRICS
from state.fold import Topic
from state.metric import PREFIX, Distribution
from state.verdict import Accepted, Known, decode_verdict
from streaming.services import ask_json, start_prometheus
from tests.boardlab import board_of, compacted, records_of, samples_of
from tests.simlab import simulated

STEP_MS = 1000
STORY = "whole-story"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], dict[float, float]]


def past_of(name: str) -> Past:
    """What stands on the topics of a replay in the end."""
    left = compacted(records_of(name))
    verdicts = {(r.key or b"").decode(): r.value for r in left if r.topic == Topic.VERDICTS and r.value is not None}
    return Past(verdicts, [r.value for r in left if r.topic == Topic.MATRIX and r.value is not None])


def backfill(name: str, path: Path, step_ms: int = STEP_MS) -> Written:
    written = write_backfill(simulated(name).config, past_of(name), path, step_ms)
    assert written is not None
    return written


def series_in(path: Path) -> Series:
    """As the client library reads the file, which checks its form.

    It reads the histograms of one time only (of a later time it takes each bucket but the first for a repeated one), so
    it gets the lines of each time apart; that those of a series stand together is checked here.
    """
    *lines, end = path.read_text(encoding="utf-8").splitlines()
    assert end == "# EOF"
    titles, by_time = [], defaultdict(list)
    for line in lines:
        if line.startswith("#"):
            titles.append(line)
        else:
            by_time[line.rpartition(" ")[2]].append((len(titles), line))
    _assert_together([line for line in lines if not line.startswith("#")])
    found: Series = defaultdict(dict)
    for at in by_time.values():
        text = [(number + 1, title) for number, title in enumerate(titles)] + at
        ordered = [line for _, line in sorted(text, key=lambda one: one[0])]
        for family in text_string_to_metric_families("\n".join([*ordered, "# EOF\n"])):
            for sample in family.samples:
                found[sample.name, tuple(sorted(sample.labels.items()))][float(sample.timestamp)] = sample.value
    assert sum(map(len, found.values())) == len(lines) - len(titles)
    return found


def _assert_together(lines: list[str]) -> None:
    series = [re.sub(',le="[^"]*"', "", line).rsplit(" ", 2) for line in lines]
    stretches = [name for name, _ in groupby(name for name, _, _ in series)]
    assert len(stretches) == len(set(stretches))
    for _, of_one in groupby(series, key=itemgetter(0)):
        times = [float(time_s) for _, _, time_s in of_one]
        assert times == sorted(times)


def value_at(series: Series, time_s: float, name: str, **labels: str) -> float | None:
    return series[PREFIX + name, tuple(sorted(labels.items()))].get(time_s)


@pytest.mark.parametrize("name", [STORY, "withheld-story", "gone-for-good", "diverging-replicas"])
def test_at_the_end_it_says_what_an_exporter_says_that_watched_all_of_it(name: str, tmp_path: Path) -> None:
    end_s = backfill(name, tmp_path / "past.om").last_ms / 1000
    ends = {key: values[end_s] for key, values in series_in(tmp_path / "past.om").items() if end_s in values}
    board = board_of(simulated(name).config, sorted(compacted(records_of(name)), key=_done_ms))
    expected = {}
    for (metric, labels), value in samples_of(board).items():
        named = dict(zip(METRICS[metric].labels, labels, strict=True))
        # Neither says when the monitor learnt of something, nor where its pages are.
        if metric.startswith(OF_THE_MONITOR) or metric in ("fork_info", "clock_skew_changed_timestamp_seconds"):
            continue
        for full, more, number in _numbers(metric, value):
            expected[PREFIX + full, tuple(sorted((named | more).items()))] = number
    left_out = {"quorumscope_fork_info", "quorumscope_clock_skew_changed_timestamp_seconds"}
    assert {key: value for key, value in ends.items() if key[0] not in left_out} == expected


def _done_ms(record: Record) -> tuple[int, bytes | None]:
    """Of two branches with one index, the one that came first counts."""
    if record.topic != Topic.VERDICTS or record.value is None:
        return 0, record.key
    verdict = decode_verdict(record.value)
    return verdict.done_ms if isinstance(verdict, Known | Accepted) else 0, record.key


def _numbers(metric: str, value: float | Distribution) -> Iterator[tuple[str, dict[str, str], float]]:
    if not isinstance(value, Distribution):
        yield metric, {}, float(value)
        return
    for bound, count in zip(value.bounds, value.cumulative, strict=True):
        yield f"{metric}_bucket", {"le": "+Inf" if bound == float("inf") else str(float(bound))}, count


def test_no_counter_falls_and_each_step_has_each_series_that_lasts(tmp_path: Path) -> None:
    written = backfill(STORY, tmp_path / "past.om")
    series = series_in(tmp_path / "past.om")
    assert sum(map(len, series.values())) == written.samples
    for (name, labels), values in series.items():
        ordered = [values[time_s] for time_s in sorted(values)]
        if name.endswith(("_total", "_bucket")):
            assert all(one <= other for one, other in pairwise(ordered)), (name, labels)
    lasting = [values for (name, _), values in series.items() if name == "quorumscope_forks_total"]
    assert {len(values) for values in lasting} == {written.steps}


def test_lies_and_splits_stand_at_the_times_of_the_truth(tmp_path: Path) -> None:
    backfill(STORY, tmp_path / "past.om")
    series, truth = series_in(tmp_path / "past.om"), simulated(STORY).truth
    (split,) = truth.splits
    (swarm,) = simulated(STORY).config.swarms
    for fork in truth.forks:
        peer = swarm.authors[bytes.fromhex(fork.author)]
        values = series["quorumscope_forks_total", (("peer", peer), ("swarm", swarm.name))]
        first_s = min(time_s for time_s, value in values.items() if value)
        seen_s = value_at(series, max(values), "last_fork_timestamp_seconds", peer=peer, swarm=swarm.name)
        assert seen_s is not None
        assert seen_s <= first_s < seen_s + STEP_MS / 1000
    sides = series["quorumscope_split_sides", (("swarm", swarm.name),)]
    split_s = [time_s for time_s, value in sides.items() if value > 1]
    assert split_s
    assert 1000 * min(split_s) > split.since_ms
    assert 1000 * max(split_s) < max(r.time_ms for r in simulated(STORY).records)


def test_steps_may_be_longer_and_each_time_is_a_multiple_of_them(tmp_path: Path) -> None:
    fine, coarse = (backfill(STORY, tmp_path / f"{step_ms}.om", step_ms) for step_ms in (STEP_MS, 15_000))
    assert coarse.steps < fine.steps / 10
    found = series_in(tmp_path / "15000.om")
    assert {time_s % 15 for values in found.values() for time_s in values} == {0.0}
    for key, values in found.items():
        same = series_in(tmp_path / "1000.om")[key] if key[0] == "quorumscope_forks_total" else None
        assert same is None or all(same.get(time_s, value) == value for time_s, value in values.items())


def test_of_nothing_no_file_is_written(tmp_path: Path) -> None:
    assert write_backfill(simulated(STORY).config, Past({}, []), tmp_path / "past.om") is None
    assert not list(tmp_path.iterdir())


def test_who_is_interrupted_leaves_no_file(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        assert 0 < done <= total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_backfill(simulated(STORY).config, past_of(STORY), tmp_path / "past.om", on_step=interrupt)
    assert not list(tmp_path.iterdir())


@pytest.mark.programs
def test_prometheus_takes_the_blocks_that_promtool_makes_of_it_and_shows_them_at_their_times(tmp_path: Path) -> None:
    written = backfill(STORY, tmp_path / "past.om")
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "past.om", "blocks"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    with start_prometheus({}, [], None, data=tmp_path / "blocks") as prometheus:
        query = "sum(quorumscope_forks_total) or quorumscope_split_sides"
        bounds = {"start": written.first_ms / 1000, "end": written.last_ms / 1000, "step": STEP_MS / 1000}
        text = urllib.parse.urlencode({"query": query, **bounds})
        answer: Any = ask_json(f"{prometheus.url}/api/v1/query_range?{text}")
    found = {one["metric"].get("__name__", "forks"): one["values"] for one in answer["data"]["result"]}
    series = series_in(tmp_path / "past.om")
    (sides,) = (values for (name, _), values in series.items() if name == "quorumscope_split_sides")
    assert [(time_s, float(value)) for time_s, value in found["quorumscope_split_sides"]] == sorted(sides.items())
    assert [float(found["forks"][at][1]) for at in (0, -1)] == [0, len(simulated(STORY).truth.forks)]
