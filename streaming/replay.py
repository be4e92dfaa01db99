"""Replay: the same queries over a range of `.segments`, into topics and a checkpoint of their own.

Rules:
- The bounds are resolved to offsets once and kept in the checkpoint directory, so a replay that was interrupted goes on
  with the range it began with. Other bounds, another target or another configuration are refused there.
- It writes to the topics of a prefix of its own, never to those of a live job, which has a `.segments`.
- The end of the range is the end of the topic to it, for the clock too: so the verdicts are those of a job that had
  read these records and no others, however they are cut into batches (docs/adr/0003-the-clock.md).
- A range that begins at a time is judged alone: what was published before it is not missing (docs/adr/0014-since.md).

A query is told to stop when its partitions are at the end of the range. Spark spreads what a batch reads over the
partitions by what is left in each, so what is read behind the end meanwhile, and left out, is little.
"""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from state.config import Config, ConfigError
from state.connection import Connection
from state.fold import Topic
from streaming.bar import OnProgress
from streaming.bounds import Range, Request, require_held, resolve
from streaming.checkpoint import REPLAY_LABEL, CheckpointError, refuse_job, replace_file
from streaming.follow import Follower
from streaming.job import Settings, open_job
from streaming.lock import locked
from streaming.parts import MissingPartError
from streaming.pipeline import Pipeline
from streaming.position import position_of
from streaming.progress import Totals
from streaming.queries import QUERIES
from streaming.replaydiff import Window
from streaming.shelf import Shelf
from streaming.topics import REQUEST_TIMEOUT_S, Setup, admin_client, existing, plans

FORMAT = 1
POLL_SECONDS = 0.2


class Label(msgspec.Struct, frozen=True):
    """What a replay was begun with, and is gone on with."""

    format: int
    request: Request
    found: Range
    into: str
    config: str


class Target(NamedTuple):
    """What is replayed, and where to."""

    request: Request
    prefix: str
    """The prefix of the live topics, whose segments are read."""
    into: str


def prepare(target: Target, settings: Settings) -> Range:
    """The range of a replay, whose topics are there when this is over.

    ConfigError, CheckpointError or MissingPartError, one sentence, if it cannot be replayed so.
    """
    _refuse_live(target, settings.connection)
    path = settings.checkpoint / REPLAY_LABEL
    with locked(settings.checkpoint), closing(Shelf(settings.connection, _source(target))) as shelf:
        if path.exists():
            found = _read_label(target, settings).found
            require_held(found, position_of(settings.checkpoint, "segments", found.topic).read, shelf.held())
        else:
            refuse_job(settings.checkpoint)
            found = resolve(target.request, shelf.topic, shelf.held(), shelf.offsets_at)
            _refuse_used(target, settings)
            label = Label(FORMAT, target.request, found, target.into, settings.config.digest)
            replace_file(path, msgspec.json.encode(label))
    _make_topics(settings.connection, target.into)
    return found


def run_replay(settings: Settings, pipeline: Pipeline, tell: OnProgress, is_stopped: Callable[[], bool]) -> bool:
    """Read the range with each query to its end, one after the other; whether that is reached, or was before.

    Requires settings with a range, which `prepare` gave.
    """
    found = settings.only
    assert found is not None
    todo = [name for name in settings.queries if not is_done(name, settings)]
    if not todo:
        return True
    if "segments" not in settings.queries and not is_done("segments", settings):
        raise CheckpointError("--queries: the query matrix reads what segments writes: replay segments too, or first")
    with open_job(settings, pipeline) as start:
        for name in todo:
            # A query reads what the one before it wrote; and a short range may be done since the start of Spark.
            query, totals = start([name])[name], pipeline.totals[name]
            if name == "segments":
                totals.ends |= position_of(settings.checkpoint, name, found.topic).read
                _watch_range(query, totals, found, tell, is_stopped)
            else:
                _watch(query, totals, is_stopped)
            if is_stopped():
                return False
    return True


def is_done(name: str, settings: Settings) -> bool:
    """Whether a query has read all that a replay has for it."""
    found, source = settings.only, f"{settings.prefix}.{QUERIES[name].source}"
    assert found is not None
    if name == "segments":
        return found.is_read(position_of(settings.checkpoint, name, found.topic).read)
    if not is_done("segments", settings):
        return False
    with closing(Shelf(settings.connection, source)) as shelf:
        read = position_of(settings.checkpoint, name, source).read
        return all(read.get(partition, low) >= high for partition, (low, high) in shelf.ends().items())


def judged_from(config: Config, request: Request, found: Range) -> Config:
    """The configuration for a range: what was published before it is gone, unless nothing was."""
    if request.start.time_ms is None or not any(found.starts.values()):
        return config
    start = datetime.fromtimestamp(request.start.time_ms / 1000, UTC)
    since = [swarm.since if isinstance(swarm.since, datetime) else start for swarm in config.swarms]
    swarms = (
        msgspec.structs.replace(swarm, since=max(start, before))
        for swarm, before in zip(config.swarms, since, strict=True)
    )
    return Config(tuple(swarms))


def window_of(found: Range, request: Request, connection: Connection) -> Window:
    """The record times that a range shows whole."""
    with closing(Shelf(connection, found.topic)) as shelf:
        ends = shelf.ends()
        later = [p for p, end in found.ends.items() if end < ends[p][1]]
        earlier = [p for p, start in found.starts.items() if start > 0]
        window = Window(whole=not later and not earlier)
        if later:
            window = window._replace(until_ms=_least([shelf.time_at(p, found.ends[p]) for p in later]))
        if earlier and request.start.time_ms is not None:
            window = window._replace(since_ms=request.start.time_ms)
        elif earlier:
            starts = [shelf.time_at(p, found.starts[p]) for p in earlier if found.starts[p] < ends[p][1]]
            window = window._replace(since_ms=max((ms for ms in starts if ms is not None), default=window.since_ms))
    return window


def compacted_verdicts(connection: Connection, prefix: str) -> dict[str, bytes]:
    """What compaction leaves of the verdicts of a prefix: the last of each key, without those withdrawn."""
    left: dict[str, bytes] = {}
    with closing(Follower(connection, f"{prefix}.{Topic.VERDICTS}")) as follower:
        for message in follower.read_to_end():
            key = (message.key() or b"").decode(errors="replace")
            if message.value() is None:
                left.pop(key, None)
            else:
                left[key] = message.value()
    return left


def _watch_range(query: Any, totals: Totals, found: Range, tell: OnProgress, is_stopped: Callable[[], bool]) -> None:
    ended = False
    while not (ended or is_stopped()):
        ended = query.awaitTermination(POLL_SECONDS)
        totals.update(query)
        tell(found.done(totals.ends), found.size)
        if found.is_read(totals.ends):
            query.stop()
            return


def _watch(query: Any, totals: Totals, is_stopped: Callable[[], bool]) -> None:
    ended = False
    while not (ended or is_stopped()):
        ended = query.awaitTermination(POLL_SECONDS)
        totals.update(query)


def _source(target: Target) -> str:
    return f"{target.prefix}.{Topic.SEGMENTS}"


def _refuse_live(target: Target, connection: Connection) -> None:
    if target.into == target.prefix:
        raise ConfigError(f"--into: {target.into} is what is replayed: give a prefix of its own to what comes of it")
    if f"{target.into}.{Topic.SEGMENTS}" in existing(admin_client(connection), connection):
        raise ConfigError(
            f"--into: {target.into} has segments, so a live job writes its verdicts there: give a prefix of its own"
        )


def _refuse_used(target: Target, settings: Settings) -> None:
    """Verdicts of another replay would stand among those of this one."""
    connection = settings.connection
    present = existing(admin_client(connection), connection)
    for plan in _plans(target.into):
        if plan.name in present:
            with closing(Shelf(connection, plan.name)) as shelf:
                if any(high for _, high in shelf.ends().values()):
                    raise ConfigError(
                        f"--into: {plan.name} has records already: to go on with the replay that wrote them give its "
                        f"--checkpoint, else another prefix"
                    )


def _read_label(target: Target, settings: Settings) -> Label:
    path = settings.checkpoint / REPLAY_LABEL
    try:
        label = msgspec.json.decode(path.read_bytes(), type=Label)
    except (msgspec.DecodeError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): start with a new checkpoint directory") from None
    holds = f"{settings.checkpoint} holds a replay of {label.found.topic} {label.request.words()} into {label.into}"
    wanted = (target.request, _source(target), target.into)
    if (label.request, label.found.topic, label.into) != wanted:
        raise CheckpointError(f"{holds}: say the same to go on with it, or give another directory")
    if label.config != settings.config.digest:
        raise CheckpointError(f"{holds} by another configuration: give that one, or another directory")
    return label


def _plans(into: str) -> list[Any]:
    return [plan for plan in plans(Setup(into)) if plan.name != f"{into}.{Topic.SEGMENTS}"]


def _make_topics(connection: Connection, into: str) -> None:
    """A replay has no segments of its own: without that topic its prefix is never taken for a live one."""
    admin = admin_client(connection)
    present = existing(admin, connection)
    absent = [plan for plan in _plans(into) if plan.name not in present]
    new = [NewTopic(plan.name, plan.partitions, Setup().replication, config=plan.settings) for plan in absent]
    for name, future in (admin.create_topics(new) if new else {}).items():
        try:
            future.result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise MissingPartError(f"the topic {name} could not be made: {error.args[0].str()}") from None


def _least(times_ms: list[int | None]) -> int:
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=Window().until_ms)
