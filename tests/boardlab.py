"""What stands on the topics that the exporter reads, for simulated runs and for swarms of any size."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from dashboards.board import Board, Record
from dashboards.metrics import METRICS
from dashboards.samples import Sampler, Scope
from producers.load import matrix_load
from producers.swarm import Settings
from state.config import Config
from state.fold import Topic
from state.metric import Distribution, Kind, Sample
from state.report import Cells, Node, Report, encode_report, pack_cells, report_key
from state.verdict import Accepted, encode_verdict, key_of
from tests.simlab import SHAPES
from tests.storylab import watched

URL = "http://127.0.0.1:9464"


@cache
def records_of(name: str, settings: Settings = SHAPES[0]) -> list[Record]:
    """All records of both topics, in the order in which they were written."""
    run = watched(name, settings)
    found = []
    for moment in run.moments:
        time_ms = run.start_ms + moment.at_ms
        for key, verdict in moment.updates:
            value = None if verdict is None else encode_verdict(verdict)
            found.append(Record(Topic.VERDICTS, key.encode(), value, time_ms))
        for report in moment.reports:
            key = report_key(report.swarm, report.block, report.tick_ms)
            found.append(Record(Topic.MATRIX, key, encode_report(report), time_ms))
    return found


def compacted(records: list[Record]) -> list[Record]:
    """What Kafka's compaction leaves: the last record of each key, where it stands."""
    last = {(record.topic, record.key): at for at, record in enumerate(records)}
    return [record for at, record in enumerate(records) if last[record.topic, record.key] == at]


def board_of(config: Config, records: list[Record]) -> Board:
    board = Board(config)
    board.absorb(records)
    return board


def board_samples(board: Board, url: str, scope: Scope) -> Iterator[Sample]:
    return Sampler(url, scope).samples(board)


def samples_of(board: Board, scope: Scope | None = None) -> dict[tuple[str, tuple[str, ...]], float | Distribution]:
    """The samples by name and labels; each is there once."""
    samples = list(board_samples(board, URL, scope or Scope()))
    found = {(sample.metric, sample.labels): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def counters(board: Board) -> Iterator[tuple[tuple[str, tuple[str, ...]], float]]:
    """All that must never fall: counters, and the buckets of histograms."""
    for (name, labels), value in samples_of(board).items():
        if isinstance(value, Distribution):
            yield from (((name, (*labels, str(at))), count) for at, count in enumerate(value.cumulative))
        elif METRICS[name].kind == Kind.COUNTER:
            yield (name, labels), value


def large_swarm(peers: int) -> Config:
    return matrix_load(1, peers, 0, 1).config


def large_report(config: Config, tick_ms: int) -> Record:
    """A report of one block, in which each peer lacks something of most others."""
    (swarm,) = config.swarms
    nodes = [Node(author, b"", 100, tick_ms - 100, tick_ms - 50_000) for author in sorted(swarm.authors)]
    size = len(nodes)
    numbers = np.add.outer(np.arange(size), 3 * np.arange(size))
    cells = Cells(
        fresh=numbers % 50 != 0,
        lags=(numbers % 7).astype(np.uint8),
        ages=(numbers % 5).astype(np.uint8),
        contacts=np.zeros((size, size), np.uint8),
    )
    fresh, lags, ages, contacts = pack_cells(cells)
    report = Report(
        swarm.key, 0, 1, tick_ms, 0, nodes, list(range(size)), fresh, lags, ages, contacts, [1000] * size, []
    )
    return Record(Topic.MATRIX, report_key(swarm.key, 0, tick_ms), encode_report(report), tick_ms)


def acceptance(config: Config, number: int, time_ms: int) -> Record:
    """The number-th acceptance of a large swarm: all peers in turn, each log from its beginning."""
    (swarm,) = config.swarms
    members = swarm.epochs[0].members
    (rule,) = swarm.epochs[0].thresholds
    identity = f"{number:064x}"
    verdict = Accepted(
        key=key_of(Accepted, identity, rule.name, 0),
        swarm=swarm.id,
        config="c" * 64,
        author=members[number % len(members)].hex(),
        index=1 + number // len(members),
        id=identity,
        published_ms=time_ms - 900,
        epoch_ms=0,
        rule=rule.name,
        k=rule.k,
        n=rule.n,
        observers="f" * (rule.n // 4),
        times_ms=rule.k * time_ms,
        accepted_ms=time_ms,
        tolerates=rule.tolerates,
    )
    return Record(Topic.VERDICTS, verdict.key.encode(), encode_verdict(verdict), time_ms)


def by_label(samples: list[Sample], metric: str) -> dict[tuple[str, ...], float]:
    return {
        one.labels: one.value for one in samples if one.metric == metric and not isinstance(one.value, Distribution)
    }
