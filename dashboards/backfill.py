"""What the exporter would have shown, had it watched: its metrics over a time that has passed, as an OpenMetrics file.

`promtool tsdb create-blocks-from openmetrics FILE DIRECTORY` makes blocks of it, which Prometheus serves at their right
times. Verdicts and reports go through the exporter's own board, in the order of the times at which they became so
(`state.hindsight`), and samples are taken at each step. Metrics of the monitor itself are left out: it was not there.
"""

import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

import msgspec
import numpy as np
from prometheus_client.core import Metric as Family

from dashboards.board import Board, Record
from dashboards.exposition import SERIES_BUDGET, SampleCollector, escaped_help, number_text, series_text
from dashboards.metrics import METRICS
from dashboards.samples import Sampler, Scope
from state.config import Config
from state.fold import Topic
from state.hindsight import moments
from state.metric import PREFIX
from state.report import decode_report
from state.verdict import decode_verdict, encode_verdict

STEP_MS = 15_000
"""As often as docs/monitoring.md tells Prometheus to scrape, so that rates of live and of past samples look alike."""

OF_THE_MONITOR = ("exporter_", "verdict_delay_", "lie_undetected_")
"""Metrics whose names begin so tell how the monitor itself did."""

_ROW = struct.Struct("<IIqd")
_ROW_TYPE = np.dtype([("group", "<u4"), ("text", "<u4"), ("step", "<i8"), ("value", "<f8")])


class Past(NamedTuple):
    """What came of a replay: verdicts by key, as compaction leaves them, and reports of ticks."""

    verdicts: Mapping[str, bytes]
    reports: Iterable[bytes]


class Written(NamedTuple):
    """What a file holds. Times are those of the first and the last step."""

    samples: int
    steps: int
    first_ms: int
    last_ms: int


def write_backfill(
    config: Config, past: Past, path: Path, step_ms: int = STEP_MS, on_step: Callable[[int, int], None] | None = None
) -> Written | None:
    """Write the file; None, and no file, if nothing has a time. `on_step` is told how many steps are done, of how many.

    Requires a step of one second or more.
    """
    records = list(_records(config, past))
    times_ms = [record.time_ms for record in records if record.time_ms is not None]
    if not times_ms:
        return None
    first, last = min(times_ms) // step_ms, -(-max(times_ms) // step_ms)
    due = sorted((_at(record, last * step_ms) for record in records), key=attrgetter("time_ms"))
    board = Board(config)
    sampler = Sampler("", Scope())
    collector = SampleCollector(METRICS, lambda: sampler.samples(board), SERIES_BUDGET)
    taken = 0
    with _Series(path, step_ms) as series:
        for step in range(first, last + 1):
            time_ms = step * step_ms
            until = taken
            while until < len(due) and due[until].time_ms <= time_ms:
                until += 1
            board.absorb(due[taken:until])
            taken = until
            for family in collector.collect():
                series.add(family, step)
            if on_step is not None:
                on_step(step - first + 1, last - first + 1)
        return Written(series.samples, last - first + 1, first * step_ms, last * step_ms)


class _Due(NamedTuple):
    topic: str
    key: str
    value: bytes
    time_ms: int | None


def _at(record: _Due, end_ms: int) -> Record:
    """What has no time comes last."""
    return Record(record.topic, record.key.encode(), record.value, end_ms if record.time_ms is None else record.time_ms)


def _records(config: Config, past: Past) -> Iterator[_Due]:
    graces_ms = {swarm.id: swarm.grace_ms for swarm in config.swarms}
    for key, value in sorted(past.verdicts.items()):
        try:
            verdict = decode_verdict(value)
        except msgspec.DecodeError:
            continue
        for time_ms, told in moments(verdict, graces_ms.get(verdict.swarm, 0)):
            yield _Due(Topic.VERDICTS, key, encode_verdict(told), time_ms)
    for report in past.reports:
        yield _Due(Topic.MATRIX, "", report, decode_report(report).tick_ms)


class _Series:
    """The samples of each metric, put together into one file at the end; nothing is left there if something fails.

    OpenMetrics wants the samples of a series together, in the order of time, and they are made step by step. So each
    metric has a file of numbers until then, which is sorted by series; the text of a series is kept once.
    """

    def __init__(self, path: Path, step_ms: int) -> None:
        self.samples = 0
        self._path = path
        self._step_ms = step_ms
        self._metrics: dict[str, _Metric] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.__enter__()
        return self

    def add(self, family: Family, step: int) -> None:
        if family.name.removeprefix(PREFIX).startswith(OF_THE_MONITOR):
            return
        metric = self._metrics.get(family.name)
        if metric is None:
            rows = tempfile.TemporaryFile("w+b", dir=self._path.parent)  # noqa: SIM115  the stack closes it
            metric = self._metrics[family.name] = _Metric(family, self._stack.enter_context(rows))
        metric.add(family, step)
        self.samples += len(family.samples)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if kind is None:
                with self._path.open("w", encoding="utf-8") as whole:
                    for metric in self._metrics.values():
                        whole.writelines(metric.lines(self._step_ms))
                    whole.write("# EOF\n")


class _Metric:
    """The samples of one metric, in the order in which they came."""

    def __init__(self, family: Family, rows: IO[bytes]) -> None:
        self._title = f"# HELP {family.name} {escaped_help(family)}\n# TYPE {family.name} {family.type}\n"
        self._rows = rows
        self._texts: dict[str, int] = {}
        """The series, numbered as they came."""
        self._groups: dict[tuple[str, ...], int] = {}
        """Label values that are one series, or one histogram with all its buckets."""

    def add(self, family: Family, step: int) -> None:
        for sample in family.samples:
            group = tuple(value for label, value in sample.labels.items() if label != "le")
            number = self._groups.setdefault(group, len(self._groups))
            text = self._texts.setdefault(series_text(sample), len(self._texts))
            self._rows.write(_ROW.pack(number, text, step, sample.value))

    def lines(self, step_ms: int) -> Iterator[str]:
        yield self._title
        texts = list(self._texts)
        self._rows.seek(0)
        rows = np.frombuffer(self._rows.read(), _ROW_TYPE)
        for _, text, step, value in rows[np.argsort(rows["group"], kind="stable")].tolist():
            yield f"{texts[text]} {number_text(value)} {step * step_ms / 1000:.3f}\n"
