"""The command `fsck`: whether a checkpoint is sound, every record accounted for, and every verdict right."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from state.config import Config
from state.connection import Connection
from state.fold import Topic
from streaming.bar import reading_progress
from streaming.bounds import Request, request_of
from streaming.options import Bootstrap, KafkaFile, Prefix, Swarms, config_of, connection_of, spark_setting
from streaming.terminal import say
from streaming.topics import PREFIX_DEFAULT

PROBLEM = 1
"""The exit code when something is wrong."""


def fsck(
    swarms: Swarms,
    checkpoint: Annotated[Path, typer.Option(help="Directory of a job's state; a job may run on it meanwhile.")],
    *,
    bootstrap: Bootstrap = None,
    kafka: KafkaFile = None,
    prefix: Prefix = PREFIX_DEFAULT,
    from_time: Annotated[str | None, typer.Option("--from", help="Judge segments of this time or later.")] = None,
    to_time: Annotated[str | None, typer.Option("--to", help="Judge segments before this time.")] = None,
    from_offsets: Annotated[str | None, typer.Option(help="PARTITION:OFFSET,… where to begin.")] = None,
    to_offsets: Annotated[str | None, typer.Option(help="PARTITION:OFFSET,… where to end; not in the range.")] = None,
    verdicts: Annotated[
        bool, typer.Option("--verdicts/--no-verdicts", help="Judge the segments anew, and compare the verdicts.")
    ] = True,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    spark: Annotated[list[str] | None, typer.Option("--conf", help="Spark setting, NAME=VALUE.")] = None,
) -> None:
    """Check the state of a checkpoint, that no record is lost, and the verdicts against the segments; 1 if not well."""
    from streaming.checkpoint import CheckpointError, fitting_label, refuse_far, refuse_replay

    config, connection = config_of(swarms), connection_of(bootstrap, kafka)
    request = request_of(from_time, to_time, from_offsets, to_offsets)
    label = fitting_label(checkpoint, None, config) if checkpoint.is_dir() else None
    if label is None:
        raise CheckpointError(f"{checkpoint} is no checkpoint of quorumscope: give the --checkpoint of a job")
    refuse_far(checkpoint, label)
    refuse_replay(checkpoint)
    say("starting Spark …")
    problems = _look_at_state(checkpoint, config, prefix, master, dict(spark_setting(text) for text in spark or ()))
    if verdicts:
        problems += _look_at_verdicts(checkpoint, config, connection, prefix, request)
    for problem in problems:
        typer.echo(problem)
    if problems:
        say(f"problems: {len(problems):,}")
        sys.exit(PROBLEM)
    say("no problem was found")


def _look_at_state(checkpoint: Path, config: Config, prefix: str, master: str, spark: dict[str, str]) -> list[str]:
    from streaming.fsck import audit_checkpoint
    from streaming.session import start_session

    session = start_session(master, 1, spark, Path(os.devnull))
    problems = []
    try:
        for name, batch, found in audit_checkpoint(session, checkpoint, prefix, config):
            if batch is None:
                say(f"{name}: no batch is done yet")
                continue
            counts = found.counts
            say(
                f"{name}: state after batch {batch}: {counts['keys']:,} keys, {counts['entries']:,} entries "
                f"in archives, {counts['bytes']:,} bytes"
            )
            problems += [f"{name}: {problem}" for problem in found.problems]
    finally:
        session.stop()
    return problems


def _look_at_verdicts(
    checkpoint: Path, config: Config, connection: Connection, prefix: str, request: Request
) -> list[str]:
    from streaming.fsck import compare_verdicts, scope_of
    from streaming.position import position_of

    if not position_of(checkpoint, "segments", f"{prefix}.{Topic.SEGMENTS}").read:
        say("verdicts: no segment was read yet")
        return []
    scope = scope_of(checkpoint, connection, prefix, request)
    say(f"judging {scope.found.size:,} records of {scope.found.topic} anew …")
    with reading_progress(f"judging {scope.found.topic}") as tell:
        compared, left_out, differences = compare_verdicts(config, connection, prefix, scope, tell)
    rest = f"; {left_out:,} that depend on more than the range were not compared" if left_out else ""
    say(f"verdicts: {compared:,} compared, {len(differences):,} differ{rest}")
    return differences
