"""The command `replay`: what happened, judged again, into topics of its own."""

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from state.config import Config, ConfigError
from state.connection import Connection
from state.fold import Topic
from state.verdict import decode_verdict, kind_of
from streaming.bar import OnProgress, reading_progress
from streaming.bounds import Range, request_of
from streaming.follow import Follower
from streaming.options import (
    Bootstrap,
    KafkaFile,
    Prefix,
    Swarms,
    config_of,
    connection_of,
    duration_ms,
    query_names,
    spark_setting,
)
from streaming.replaydiff import compare
from streaming.terminal import say, stopped_by_signal
from streaming.topics import PREFIX_DEFAULT

if TYPE_CHECKING:
    from streaming.job import Settings
    from streaming.replay import Target

QUERIES_ALL = "segments,matrix"

DIFFERENCE = 1
"""The exit code when a replay says otherwise than the live job."""

METRICS_STEP_MS_MIN = 1000
"""Below a second Prometheus would not scrape either."""


WriteMetrics = Callable[[Config, Mapping[str, bytes], Iterable[bytes], Path, int, OnProgress], str]
"""Writes metrics of verdicts and reports to a file, with so many milliseconds between samples; says what it wrote."""


def replay_command(write: WriteMetrics) -> Callable[..., None]:
    """The command, with what makes metrics of its verdicts."""

    def replay(
        swarms: Swarms,
        into: Annotated[str, typer.Option(help="Prefix of the topics to write to; made if need be, never a live one.")],
        checkpoint: Annotated[Path, typer.Option(help="Directory of its state; the same one goes on from there.")],
        *,
        from_time: Annotated[str | None, typer.Option("--from", help="Records of this time or later.")] = None,
        to_time: Annotated[str | None, typer.Option("--to", help="Records before this time.")] = None,
        from_offsets: Annotated[str | None, typer.Option(help="PARTITION:OFFSET,… where to begin.")] = None,
        to_offsets: Annotated[
            str | None, typer.Option(help="PARTITION:OFFSET,… where to end; not in the range.")
        ] = None,
        diff: Annotated[bool, typer.Option("--diff", help="Compare with the live verdicts; 1 if they differ.")] = False,
        metrics: Annotated[
            Path | None, typer.Option(help="OpenMetrics file to write, of which promtool makes blocks for Prometheus.")
        ] = None,
        metrics_step: Annotated[str, typer.Option(help="Time between two samples in that file.")] = "15s",
        bootstrap: Bootstrap = None,
        kafka: KafkaFile = None,
        prefix: Prefix = PREFIX_DEFAULT,
        queries: Annotated[str, typer.Option(help="Which queries run, separated by commas.")] = QUERIES_ALL,
        master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
        shuffle_partitions: Annotated[
            int | None, typer.Option(min=1, help="Fixed when the checkpoint is made.")
        ] = None,
        offsets_max: Annotated[int, typer.Option(min=1, help="Records that a batch reads at most.")] = 100_000,
        patience: Annotated[str, typer.Option(help="How long Kafka may be silent before it ends.")] = "60s",
        spark: Annotated[list[str] | None, typer.Option("--conf", help="Spark setting, NAME=VALUE.")] = None,
    ) -> None:
        """Judge again what was published, all of it or a range, and write the verdicts to topics of their own."""
        from streaming.job import Settings
        from streaming.replay import Target, judged_from, prepare

        step_ms, names = _metrics_step_ms(metrics, metrics_step), query_names(queries)
        if diff and set(names) != set(query_names(QUERIES_ALL)):
            raise ConfigError("--diff: it compares what all queries say: leave out --queries")
        target = Target(request_of(from_time, to_time, from_offsets, to_offsets), prefix, into)
        settings = Settings(
            config=config_of(swarms),
            connection=connection_of(bootstrap, kafka),
            checkpoint=checkpoint,
            prefix=into,
            master=master,
            shuffle_partitions=shuffle_partitions,
            offsets_max=offsets_max,
            available_now=True,
            patience_ms=duration_ms(patience, "--patience"),
            queries=names,
            spark=dict(spark_setting(text) for text in spark or ()),
        )
        found = prepare(target, settings)
        config = judged_from(settings.config, target.request, found)
        _run(settings._replace(config=config, only=found), found)
        if metrics is not None:
            _write_metrics(write, settings, metrics, step_ms)
        if diff and not _is_identical(settings.config, settings.connection, target, found):
            sys.exit(DIFFERENCE)

    return replay


def _metrics_step_ms(path: Path | None, step: str) -> int:
    """The step of a file of metrics. What is wrong with it is told before hours of work, not after."""
    step_ms = duration_ms(step, "--metrics-step")
    if step_ms < METRICS_STEP_MS_MIN:
        raise ConfigError(f"--metrics-step: expected a second or more, got {step}")
    if path is not None and not path.absolute().parent.is_dir():
        raise ConfigError(f"--metrics: there is no folder {path.absolute().parent}: make it first")
    return step_ms


def _write_metrics(write: WriteMetrics, settings: "Settings", path: Path, step_ms: int) -> None:
    from streaming.replay import compacted_verdicts

    verdicts = compacted_verdicts(settings.connection, settings.prefix)
    with (
        closing(Follower(settings.connection, f"{settings.prefix}.{Topic.MATRIX}")) as matrix,
        reading_progress(f"writing {path}", "steps written") as tell,
    ):
        reports = (message.value() or b"" for message in matrix.read_to_end())
        try:
            say(write(settings.config, verdicts, reports, path, step_ms, tell))
        except OSError as error:
            raise ConfigError(f"--metrics: {path} cannot be written: {error.strerror}") from None


def _run(settings: "Settings", found: Range) -> None:
    """Run the queries, with a bar or lines of text; ends the program if it was stopped before the end."""
    from streaming.failure import explained
    from streaming.job import summary
    from streaming.pipeline import Pipeline
    from streaming.position import position_of
    from streaming.replay import run_replay

    started = time.monotonic()
    pipeline = Pipeline(settings.queries)
    before = found.done(position_of(settings.checkpoint, "segments", found.topic).read)
    going_on = f", of which {before:,} are read" if before else ""
    say(f"replaying {found.size:,} records of {found.topic}{going_on} into {settings.prefix}; starting Spark …")
    progress = reading_progress(f"replaying {found.topic}")
    with stopped_by_signal() as stopped, progress as tell, explained(settings):
        is_done = run_replay(settings, pipeline, tell, stopped.is_set)
    for name in settings.queries:
        say(summary(name, pipeline.totals[name]))
    if not is_done:
        read = found.done(position_of(settings.checkpoint, "segments", found.topic).read)
        say(f"stopped after {read:,} of {found.size:,} records: the same command goes on from there")
        sys.exit(128 + signal.SIGINT)
    say(f"verdicts on {settings.prefix}.verdicts: {_kinds(settings)}")
    say(f"done in {time.monotonic() - started:.0f} s")


def _kinds(settings: "Settings") -> str:
    from streaming.replay import compacted_verdicts

    verdicts = compacted_verdicts(settings.connection, settings.prefix).values()
    kinds = Counter(kind_of(decode_verdict(verdict)) for verdict in verdicts)
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()) or "none"


def _is_identical(config: Config, connection: Connection, target: "Target", found: Range) -> bool:
    """Compare with the live verdicts, and say each difference; whether there are none."""
    from streaming.replay import compacted_verdicts, window_of

    window = window_of(found, target.request, connection)
    live, replayed = (compacted_verdicts(connection, prefix) for prefix in (target.prefix, target.into))
    compared, left_out, differences = compare(live, replayed, window, config)
    for difference in differences:
        typer.echo(difference)
    what = "the whole topic" if window.whole else "this range alone"
    rest = f"; {left_out:,} that depend on more than the range were not compared" if left_out else ""
    if differences:
        say(f"{len(differences):,} of {compared:,} verdicts about {what} differ from the live ones{rest}")
    else:
        say(f"identical to the live ones: {compared:,} verdicts about {what}{rest}")
    return not differences
