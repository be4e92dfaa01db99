"""How a checkpoint stands: what it holds, how far its queries are, what is unread, and what a start would do.

Nothing is changed by looking, and a job may run meanwhile.
"""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from state.config import Config
from state.connection import Connection
from streaming.bounds import time_text
from streaming.checkpoint import REPLAY_LABEL, CheckpointError, Label, fitting_label, refuse_far, starts_of
from streaming.lock import working
from streaming.parts import MissingPartError
from streaming.position import position_of
from streaming.queries import QUERIES
from streaming.shelf import Shelf


class PartitionStatus(msgspec.Struct, frozen=True):
    """A partition that a query reads: up to where, and what is left by what Kafka holds now."""

    partition: int
    read: int
    unread: int = 0
    oldest: str | None = None
    """Record time of the first unread one; None if there is none."""
    expired: int = 0
    """Records that went before they were read."""


class QueryStatus(msgspec.Struct, frozen=True):
    """A query: its newest batch that is done, the one that was begun after it, and its topic."""

    name: str
    topic: str
    batch: int | None
    done: str | None
    begun: int | None
    partitions: list[PartitionStatus]

    @property
    def unread(self) -> int:
        return sum(one.unread for one in self.partitions)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be told of a checkpoint. `on_start` is a sentence, `can_start` says whether it is good news."""

    checkpoint: str
    label: Label | None = None
    """None if there is none yet, or it does not fit this program or the configuration."""
    starts: int
    process: int | None
    """The job that works with it now."""
    queries: list[QueryStatus]
    kafka: str = ""
    """Why nothing is told of what the topics hold; empty if it is."""
    can_start: bool
    on_start: str


def look(checkpoint: Path, config: Config, connection: Connection, prefix: str) -> Status:
    """Look at a checkpoint and at the topics of its queries. Without Kafka the checkpoint alone is told."""
    if not checkpoint.is_dir():
        raise CheckpointError(f"{checkpoint} is no directory: give the --checkpoint of a job")
    label, queries, problem, kafka = None, [], "", ""
    try:
        label = fitting_label(checkpoint, None, config)
        if label is not None:
            refuse_far(checkpoint, label)
        queries = [_by_files(checkpoint, name, prefix) for name in QUERIES]
        queries = [_by_topic(query, connection) for query in queries]
    except CheckpointError as error:
        problem = str(error)
    except MissingPartError as error:
        kafka = str(error)
    process = working(checkpoint)
    problem = _refusal(checkpoint, process) or problem or kafka or _lost(queries)
    return Status(
        checkpoint=str(checkpoint),
        label=label,
        starts=starts_of(checkpoint),
        process=process,
        queries=queries,
        kafka=kafka,
        can_start=not problem,
        on_start=problem or _prospect(label, queries),
    )


def _by_files(checkpoint: Path, name: str, prefix: str) -> QueryStatus:
    topic = f"{prefix}.{QUERIES[name].source}"
    at = position_of(checkpoint, name, topic)
    done = None if at.done is None else time_text(int(at.done_s * 1000))
    return QueryStatus(name, topic, at.done, done, at.begun, [PartitionStatus(*one) for one in sorted(at.read.items())])


def _by_topic(query: QueryStatus, connection: Connection) -> QueryStatus:
    read = {one.partition: one.read for one in query.partitions}
    with closing(Shelf(connection, query.topic)) as shelf:
        ends = sorted(shelf.ends().items())
        partitions = [_partition(shelf, partition, *held, read) for partition, held in ends]
    return msgspec.structs.replace(query, partitions=partitions)


def _partition(shelf: Shelf, partition: int, low: int, high: int, read: Mapping[int, int]) -> PartitionStatus:
    # A partition of which nothing was read is read from where it begins.
    at = read.get(partition, low)
    unread = max(high - max(at, low), 0)
    oldest_ms = shelf.time_at(partition, max(at, low)) if unread else None
    oldest = None if oldest_ms is None else time_text(oldest_ms)
    return PartitionStatus(partition, at, unread, oldest, max(low - at, 0))


def _refusal(checkpoint: Path, process: int | None) -> str:
    """Why another job would be refused now."""
    if (checkpoint / REPLAY_LABEL).exists():
        return "`run` is refused: this is the checkpoint of a replay, which the same `replay` command goes on with"
    return "" if process is None else f"another job is refused while the process {process} works with this checkpoint"


def _lost(queries: list[QueryStatus]) -> str:
    """Why a query would end with an error: it wants to read on where there is nothing any more."""
    for query in queries:
        expired = sum(one.expired for one in query.partitions)
        if expired:
            return (
                f"the query {query.name} ends with an error, because {expired:,} records of {query.topic} expired "
                "before they were read: start with a new checkpoint directory, and `since`, to judge what is left"
            )
    return ""


def _prospect(label: Label | None, queries: list[QueryStatus]) -> str:
    unread = " and ".join(f"{query.unread:,} of {query.topic}" for query in queries)
    if label is None:
        return f"it begins anew, and reads what the topics hold: {unread}"
    again = [f"does batch {query.begun} of {query.name} again, " for query in queries if query.begun is not None]
    return f"it goes on, {''.join(again)}with what is unread: {unread}"


def words(status: Status) -> list[str]:
    """A status as lines of text."""
    lines = [("checkpoint", f"{status.checkpoint}, starts so far: {status.starts:,}")]
    if status.label is not None:
        folds = ", ".join(f"{name} {version}" for name, version in sorted(status.label.folds.items()))
        partitions = status.label.shuffle_partitions
        lines.append(("made with", f"shuffle partitions: {partitions}; versions of folds: {folds}"))
    lines.append(("job", "none works with it" if status.process is None else f"process {status.process}"))
    for query in status.queries:
        done = "no batch is done yet" if query.batch is None else f"batch {query.batch} was done at {query.done}"
        begun = "" if query.begun is None else f"; batch {query.begun} was begun"
        lines.append((query.name, done + begun))
        lines += [("", f"{query.topic}/{one.partition}: {_partition_words(one)}") for one in query.partitions]
    if status.kafka:
        lines.append(("kafka", status.kafka))
    return [f"{title:<11} {text}" for title, text in [*lines, ("on start", status.on_start)]]


def _partition_words(one: PartitionStatus) -> str:
    unread = f", {one.unread:,} unread, the oldest of {one.oldest}" if one.unread else ""
    expired = f"; {one.expired:,} expired before they were read" if one.expired else ""
    return f"read up to {one.read:,}{unread}{expired}"
