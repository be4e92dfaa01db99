"""The streaming job: takes the checkpoint, starts Spark and the queries, and ends in order."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from state.config import Config
from state.connection import Connection
from streaming.bounds import Range
from streaming.checkpoint import count_start, open_label, refuse_replay
from streaming.farstate import agree
from streaming.lag import LagWatch
from streaming.lock import locked
from streaming.pipeline import About, Pipeline
from streaming.position import position_of
from streaming.progress import Totals
from streaming.queries import QUERIES, Plan, start_query
from streaming.session import complaints_to, jvm_pid, outlive_lost_threads, start_session
from streaming.topics import PREFIX_DEFAULT, require_topics

SMALL_ROSTER = 64
"""Up to this many peers one shuffle partition is quickest on two cores; beyond it, one for each core."""

REPORT_SECONDS = 10.0


class Settings(NamedTuple):
    """What an operator chooses about the job."""

    config: Config
    connection: Connection
    checkpoint: Path
    prefix: str = PREFIX_DEFAULT
    master: str = "local[*]"
    shuffle_partitions: int | None = None
    offsets_max: int = 100_000
    """Records a batch reads at most: some six seconds of work on two cores. A batch costs half a second whatever it
    holds, so a backlog is worked off in large steps; still small enough to be repeated after a crash."""
    trigger: str = "1 second"
    available_now: bool = False
    patience_ms: int = 60_000
    """How long Kafka may be silent before the job ends: longer than a broker takes to start again."""
    queries: tuple[str, ...] = tuple(QUERIES)
    """Which queries run here; each can run in an application of its own, with its own checkpoint."""
    spark: Mapping[str, str] = MappingProxyType({})
    """Settings of Spark that override ours."""
    state_uri: str = ""
    """Where Spark keeps offsets and state, if it is not the checkpoint directory."""
    only: Range | None = None
    """For a replay: the range of segments that is read. Its checkpoint is for nothing else."""


Start = Callable[[Iterable[str]], dict[str, Any]]
"""Starts queries by their names."""


@contextmanager
def running(settings: Settings, pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    """The queries of a job, started, by name; stopped in order at the end."""
    with open_job(settings, pipeline) as start:
        yield start(settings.queries)


@contextmanager
def open_job(settings: Settings, pipeline: Pipeline) -> Iterator[Start]:
    """A session on the checkpoint, in which queries can be started; all of them are stopped in order at the end.

    The pipeline hears of all that they do.
    """
    if settings.only is None:
        require_topics(settings.connection, settings.prefix)
        refuse_replay(settings.checkpoint)
    log = settings.checkpoint / "spark.log"
    with locked(settings.checkpoint) as lock, complaints_to(log):
        peers = max(len(swarm.authors) for swarm in settings.config.swarms)
        default = 1 if peers <= SMALL_ROSTER else _cores(settings)
        label = open_label(
            settings.checkpoint, settings.shuffle_partitions, default, settings.config, settings.state_uri
        )
        for name in settings.queries:
            position_of(settings.checkpoint, name, plan_of(settings).source_of(QUERIES[name]))
        session = start_session(settings.master, label.shuffle_partitions, settings.spark, log)
        lock.owned_by(jvm_pid(session))
        if settings.state_uri:
            agree(session, settings.state_uri, settings.checkpoint)
        queries: dict[str, Any] = {}

        def start(names: Iterable[str]) -> dict[str, Any]:
            started = {name: start_query(session, QUERIES[name], plan_of(settings)) for name in names}
            queries.update(started)
            return started

        try:
            with _heard(pipeline, session, settings, count_start(settings.checkpoint)):
                yield start
        finally:
            outlive_lost_threads(session)
            for query in queries.values():
                query.stop()
            session.stop()


@contextmanager
def _heard(pipeline: Pipeline, session: Any, settings: Settings, starts: int) -> Iterator[None]:
    """Let a pipeline hear of a session's queries, and watch how far they are behind."""
    from streaming.listener import ProgressListener

    pipeline.about = About(version("quorumscope"), settings.config.digest, settings.prefix, starts)
    pipeline.lags = [
        LagWatch(settings.connection, plan_of(settings).source_of(QUERIES[name]), totals)
        for name, totals in pipeline.totals.items()
    ]
    listener = ProgressListener(pipeline.totals)
    session.streams.addListener(listener)
    for lag in pipeline.lags:
        lag.start()
    try:
        yield
    finally:
        for lag in pipeline.lags:
            lag.stop()
        session.streams.removeListener(listener)


def run_job(settings: Settings, pipeline: Pipeline, say: Callable[[str], None], is_stopped: Callable[[], bool]) -> None:
    """Run until told to stop, or to the end of the topic; says what is going on in lines of text."""
    # A query that reads to the end of what is there has to wait for the one that writes it.
    stages = [(name,) for name in settings.queries] if settings.available_now else [settings.queries]
    say("starting Spark …")
    with open_job(settings, pipeline) as start:
        for names in stages:
            topics = " and ".join(f"{settings.prefix}.{QUERIES[name].source}" for name in names)
            say(f"reading {topics} on {settings.connection.bootstrap}")
            _watch(start(names), pipeline.totals, say, is_stopped)


def _watch(
    queries: dict[str, Any], totals: Mapping[str, Totals], say: Callable[[str], None], is_stopped: Callable[[], bool]
) -> None:
    """Say what queries do until they end, or until told to stop."""
    reported = time.monotonic()
    while not is_stopped():
        ended = [query for query in queries.values() if query.awaitTermination(0.2)]
        news = [totals[name].update(query) for name, query in queries.items()]
        if any(news) and time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            for name in queries:
                say(summary(name, totals[name]))
        if len(ended) == len(queries):
            break
    for name in queries:
        say(summary(name, totals[name]))


def summary(name: str, totals: Totals) -> str:
    counts = totals.counts
    records, ops = totals.rates()
    if name == "matrix":
        return f"{totals.records:,} reports read: {counts['ticks_judged']:,} ticks judged"
    return (
        f"{totals.records:,} records read: {counts['verified']:,} verified, {totals.rejected:,} rejected, "
        f"{counts['duplicate']:,} duplicate; {records:,.0f} records and {ops:,.0f} ops a second"
    )


def plan_of(settings: Settings) -> Plan:
    """What the queries of a job need."""
    return Plan(
        config=settings.config,
        connection=settings.connection,
        prefix=settings.prefix,
        checkpoint=settings.state_uri.rstrip("/") or str(settings.checkpoint.resolve()),
        offsets_max=settings.offsets_max,
        available_now=settings.available_now,
        trigger=settings.trigger,
        patience_ms=settings.patience_ms,
        only=settings.only,
    )


def _cores(settings: Settings) -> int:
    """How many tasks run at a time: as many as the master's name says, or as executors are asked for."""
    match = re.fullmatch(r"local\[(\d+)\]", settings.master)
    if match:
        return int(match[1])
    asked = settings.spark.get("spark.executor.instances", ""), settings.spark.get("spark.executor.cores", "")
    if not settings.master.startswith("local") and all(number.isdecimal() for number in asked):
        return max(int(asked[0]) * int(asked[1]), 1)
    return os.cpu_count() or 1
