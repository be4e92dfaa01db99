"""The audit of a checkpoint: is its state sound, are all records accounted for, and were the right verdicts said?

Three questions, none of which trusts the job that wrote it:
- Each key's machine is opened from what Spark's own state reader finds, and reads all that it keeps. Its invariants
  must hold, and no entry of the archive may be left that nothing refers to.
- Of `.segments` each offset that was read must be one record: verified, a duplicate, or rejected.
- The segments are judged anew, without Spark, and the verdicts must be those that stand on the topic.
"""

from collections import Counter, UserDict
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from state.config import Config
from state.connection import Connection
from state.fold import Fold, Topic
from state.folds import make_folds
from state.logs import LogsShard
from state.rejected import RejectedPartition
from streaming.bar import OnProgress
from streaming.bounds import Bound, Range, Request, resolve
from streaming.checkpoint import AGAIN
from streaming.host import Stored
from streaming.plain import judge_range
from streaming.position import begun_from, position_of
from streaming.queries import QUERIES, Query
from streaming.replay import compacted_verdicts, judged_from, window_of
from streaming.replaydiff import Comparison, Window, compare
from streaming.shelf import Shelf

_FINDING_COLUMNS = "fold string, key binary, what string, amount bigint"
"""A row is something counted, or, without an amount, a problem in words."""
_FINDINGS = pa.schema([("fold", pa.string()), ("key", pa.binary()), ("what", pa.string()), ("amount", pa.int64())])

COUNTS = ("verified", "duplicate", "rejected")
"""What a record of `.segments` can be."""
KEPT = ("keys", "entries", "bytes")


class Audit(NamedTuple):
    """What was found in the state of one key, or of a whole query."""

    problems: list[str]
    counts: Counter[str]
    """By COUNTS and KEPT."""


class _Witness(UserDict[bytes, bytes]):
    """An archive that notes which of its entries are read."""

    def __init__(self, entries: Mapping[bytes, bytes]) -> None:
        super().__init__(entries)
        self.names = frozenset(entries)
        self.unread = set(entries)

    def __getitem__(self, name: bytes) -> bytes:
        value = super().__getitem__(name)
        self.unread.discard(name)
        return value


def audit_key(fold: Fold, key: bytes, stored: Stored, entries: Mapping[bytes, bytes]) -> Audit:
    """Audit what is kept for one key of a fold."""
    size = sum(map(len, entries.values()))
    counts = Counter(keys=1, entries=len(entries), bytes=len(stored.blob) + size)
    if stored.version != fold.version:
        return Audit([f"it is of version {stored.version}, and this program reads version {fold.version}"], counts)
    problems = []
    if stored.error:
        problems.append(f"it is in quarantine: {stored.error}")
    if (stored.archive_entries, stored.archive_bytes) != (len(entries), size):
        kept = f"{stored.archive_entries} entries of {stored.archive_bytes} bytes"
        problems.append(f"the archive should hold {kept}, and holds {len(entries)} of {size}")
    archive = _Witness(entries)
    try:
        machine = fold.open(key, stored.blob, archive)
        counts.update(_counted(machine))
        problems += machine.audit(archive.names)
    except Exception as error:  # noqa: BLE001  whatever damaged bytes raise, it is what is wrong with them
        return Audit([*problems, f"it cannot be read: {type(error).__name__}: {error}"[:1000]], counts)
    if archive.unread:
        names = ", ".join(name.hex() for name in sorted(archive.unread)[:3])
        problems.append(f"nothing refers to {len(archive.unread)} entries of the archive: {names}")
    return Audit(problems, counts)


def _counted(machine: object) -> dict[str, int]:
    """The records that a machine counts."""
    match machine:
        case LogsShard():
            return {"verified": machine.state.verified, "duplicate": machine.state.duplicates}
        case RejectedPartition():
            return {"rejected": sum(machine.counts.by_reason.values())}
    return {}


def audit_checkpoint(
    session: Any, checkpoint: Path, prefix: str, config: Config
) -> Iterator[tuple[str, int | None, Audit]]:
    """Audit each query as it was after its newest batch that is done; None and nothing if there is none."""
    from pyspark.errors import PySparkException

    _ = session.streams.active  # without a question about streams the state reader finds no coordinator
    for query in QUERIES.values():
        topic = f"{prefix}.{query.source}"
        at = position_of(checkpoint, query.name, topic)
        if at.done is None:
            yield query.name, None, Audit([], Counter())
            continue
        try:
            found = audit_query(session, checkpoint, query, at.done, config)
        except PySparkException as error:
            found = Audit([f"the state cannot be read: {_first_line(error)}; {AGAIN}"], Counter())
        else:
            if query.source == Topic.SEGMENTS:
                found.problems.extend(_uncounted(at.read, begun_from(checkpoint, query.name, topic), found.counts))
        yield query.name, at.done, found


def _uncounted(read: Mapping[int, int], begun: Mapping[int, int], counts: Counter[str]) -> Iterator[str]:
    """Whether each record that was read is one of those that are counted, and no other one is."""
    offsets = sum(end - begun.get(partition, 0) for partition, end in read.items())
    if offsets != sum(counts[name] for name in COUNTS):
        words = ", ".join(f"{counts[name]:,} {name}" for name in COUNTS)
        yield f"{offsets:,} offsets were read, and the records counted are {words}"


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]


def audit_query(session: Any, checkpoint: Path, query: Query, batch: int, config: Config) -> Audit:
    """Audit all keys of a query as they were after a batch; each where its state is read."""
    from pyspark.sql import functions as f

    reader = session.read.format("statestore").option("path", str(checkpoint / query.name)).option("batchId", batch)
    place = f.col("key.fold").alias("fold"), f.col("key.key").alias("key")
    stored = reader.option("stateVarName", "stored").load().select(*place, "value.*")
    archive = reader.option("stateVarName", "archive").load()
    entries = archive.select(
        *place, f.col("user_map_key.name").alias("name"), f.col("user_map_value.value").alias("value")
    )
    audit = _auditor(msgspec.json.encode(config).decode(), query.folds)
    grouped = stored.groupBy("fold", "key").cogroup(entries.groupBy("fold", "key"))
    total = Audit([], Counter())
    for row in grouped.applyInArrow(audit, _FINDING_COLUMNS).collect():
        if row.amount is None:
            total.problems.append(f"{row.fold} {bytes(row.key).hex()}: {row.what}")
        else:
            total.counts[row.what] += row.amount
    return total._replace(problems=sorted(total.problems))


def _auditor(config_json: str, fold_names: tuple[str, ...]) -> Any:
    def audit(stored: pa.Table, entries: pa.Table) -> pa.Table:
        from streaming.worker import worker_config

        folds = make_folds(fold_names, worker_config(config_json))
        rows = stored.to_pylist()
        place = (stored if rows else entries).slice(0, 1).to_pylist()[0]
        fold, key = place["fold"], place["key"]
        names, values = entries.column("name").to_pylist(), entries.column("value").to_pylist()
        if rows:
            found = audit_key(
                folds[fold], key, Stored(*list(rows[0].values())[2:]), dict(zip(names, values, strict=True))
            )
        else:
            found = Audit([f"{len(names)} entries of an archive belong to no key"], Counter())
        return pa.Table.from_pylist(list(_rows(fold, key, found)), _FINDINGS)

    return audit


def _rows(fold: str, key: bytes, found: Audit) -> Iterator[dict[str, Any]]:
    for problem in found.problems:
        yield {"fold": fold, "key": key, "what": problem, "amount": None}
    for name, amount in found.counts.items():
        yield {"fold": fold, "key": key, "what": name, "amount": amount}


class Scope(NamedTuple):
    """The segments that are judged anew: a part of what a job has read, or all of it."""

    found: Range
    request: Request
    is_from_start: bool
    """Whether the job had read nothing before."""


def scope_of(checkpoint: Path, connection: Connection, prefix: str, request: Request) -> Scope:
    """The part of a range that a job has read. Requires that it has read something; ConfigError if it is no range."""
    topic = f"{prefix}.{Topic.SEGMENTS}"
    read, begun = position_of(checkpoint, "segments", topic).read, begun_from(checkpoint, "segments", topic)
    with closing(Shelf(connection, topic)) as shelf:
        held = {p: one._replace(high=read.get(p, one.low)) for p, one in shelf.held().items()}
        wanted = request
        if request.start == Bound():
            # What expired after the job had read it cannot be judged anew.
            wanted = Request(Bound(offsets={p: max(one.low, begun.get(p, 0)) for p, one in held.items()}), request.end)
        found = resolve(wanted, topic, held, shelf.offsets_at)
    return Scope(found, request, all(found.starts[p] == begun.get(p, 0) for p in held))


def compare_verdicts(config: Config, connection: Connection, prefix: str, scope: Scope, tell: OnProgress) -> Comparison:
    """Judge segments anew, and hold what the job said of them against that."""
    judged = judge_range(judged_from(config, scope.request, scope.found), connection, scope.found, tell)
    window = window_of(scope.found, scope.request, connection)
    if scope.is_from_start:
        # There was nothing before: also where a topic's beginning had expired when the job began.
        window = window._replace(since_ms=Window().since_ms, whole=window.until_ms == Window().until_ms)
    return compare(compacted_verdicts(connection, prefix), judged.verdicts, window, config, "audit")
