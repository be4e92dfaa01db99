"""The bounds of a replay: what an operator asks for, by time or by offsets, and the offsets that this comes to.

Rules:
- A range is one stretch of each partition: from the first record at or after a time, up to the first one at or after
  another time, which is not in it. Offsets say the same directly. What is not said is as far as Kafka holds records.
- Offsets are resolved once and kept, so a replay that goes on has the range it began with, whatever was written since.
- A range of which records have expired is refused, with the oldest time that is still held whole.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from state.config import ConfigError

_TIME_WANTED = "a time with its zone, such as 2026-01-01T00:00:00Z"
_OFFSETS = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*")


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """One end of a range: a time, or an offset for each partition; neither is as far as there are records."""

    time_ms: int | None = None
    offsets: dict[int, int] | None = None

    def words(self, otherwise: str) -> str:
        if self.time_ms is not None:
            return time_text(self.time_ms)
        if self.offsets is not None:
            return ",".join(f"{partition}:{offset}" for partition, offset in sorted(self.offsets.items()))
        return otherwise


class Request(msgspec.Struct, frozen=True):
    """The range that an operator asks for."""

    start: Bound = Bound()
    end: Bound = Bound()

    def words(self) -> str:
        return f"from {self.start.words('the beginning')} to {self.end.words('the end')}"


class Range(msgspec.Struct, frozen=True):
    """A stretch of each partition of a topic: from its start up to, but not including, its end."""

    topic: str
    starts: dict[int, int]
    ends: dict[int, int]

    @property
    def size(self) -> int:
        """How many offsets it has. Some may be no records: what compaction removed, or marks of transactions."""
        return sum(end - self.starts[partition] for partition, end in self.ends.items())

    def done(self, read: Mapping[int, int]) -> int:
        """How many of its offsets are read, where `read` says up to where each partition is."""
        return sum(
            min(max(read.get(partition, start), start), self.ends[partition]) - start
            for partition, start in self.starts.items()
        )

    def is_read(self, read: Mapping[int, int]) -> bool:
        return self.done(read) == self.size


class Held(NamedTuple):
    """What Kafka holds of a partition: offsets from `low` up to `high`; `oldest_ms` is the time of the first record."""

    low: int
    high: int
    oldest_ms: int | None


OffsetsAt = Callable[[int], Mapping[int, int | None]]
"""For each partition the first offset of a record at or after a time; None if there is none."""


def request_of(from_time: str | None, to_time: str | None, from_offsets: str | None, to_offsets: str | None) -> Request:
    """The range that the options ask for; ConfigError names the option that is wrong."""
    return Request(
        _bound(from_time, from_offsets, "--from"),
        _bound(to_time, to_offsets, "--to"),
    )


def resolve(request: Request, topic: str, held: Mapping[int, Held], offsets_at: OffsetsAt) -> Range:
    """The offsets of a range. ConfigError, one sentence, if it is no range, is empty, or has expired."""
    starts = _offsets(request.start, {p: one.low for p, one in held.items()}, held, offsets_at, "--from-offsets")
    ends = _offsets(request.end, {p: one.high for p, one in held.items()}, held, offsets_at, "--to-offsets")
    _refuse_expired(request.start, topic, starts, held)
    for partition, one in sorted(held.items()):
        start, end = starts[partition], ends[partition]
        if end > one.high:
            raise ConfigError(f"--to-offsets: partition {partition} of {topic} ends at {one.high}, got {end}")
        if start > end:
            raise ConfigError(f"the range ends before it begins: in partition {partition} from {start} to {end}")
    found = Range(topic, starts, ends)
    if not found.size:
        raise ConfigError(f"the range is empty: {topic} has no record {request.words()}")
    return found


def require_held(found: Range, read: Mapping[int, int], held: Mapping[int, Held]) -> None:
    """ConfigError if records of a range that are not read yet have expired meanwhile."""
    waiting = {p: max(start, read.get(p, start)) for p, start in found.starts.items()}
    unread = {p: at for p, at in waiting.items() if at < found.ends[p]}
    gone = sorted(p for p in unread if p not in held or held[p].low > unread[p])
    if gone:
        raise ConfigError(
            f"{found.topic} no longer holds all of the range: in partition {gone[0]} the records before "
            f"{_oldest_words(gone, held)} expired before they were read; replay what is left with a new --checkpoint"
        )


def time_text(time_ms: int) -> str:
    """A record time, as it can be given to `--from` again."""
    at = datetime.fromtimestamp(time_ms // 1000, UTC)
    part = f".{time_ms % 1000:03}" if time_ms % 1000 else ""
    return f"{at:%Y-%m-%dT%H:%M:%S}{part}Z"


def _bound(time: str | None, offsets: str | None, option: str) -> Bound:
    if time is not None and offsets is not None:
        raise ConfigError(f"give {option} or {option}-offsets, not both")
    if offsets is not None:
        return Bound(offsets=_parse_offsets(offsets, f"{option}-offsets"))
    return Bound(time_ms=None if time is None else _parse_time(time, option))


def _parse_time(text: str, option: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option}: expected {_TIME_WANTED}, got {text!r}") from None
    if time.tzinfo is None:
        raise ConfigError(f"{option}: expected {_TIME_WANTED}, got {text!r} without a zone")
    return round(time.timestamp() * 1000)


def _parse_offsets(text: str, option: str) -> dict[int, int]:
    if _OFFSETS.fullmatch(text) is None:
        raise ConfigError(f"{option}: expected PARTITION:OFFSET,…, such as 0:120,1:98, got {text!r}")
    pairs = [part.split(":") for part in text.split(",")]
    offsets = {int(partition): int(offset) for partition, offset in pairs}
    if len(offsets) < len(pairs):
        raise ConfigError(f"{option}: expected each partition once, got {text!r}")
    return offsets


def _offsets(
    bound: Bound, otherwise: dict[int, int], held: Mapping[int, Held], offsets_at: OffsetsAt, option: str
) -> dict[int, int]:
    if bound.time_ms is not None:
        at = offsets_at(bound.time_ms)
        return {p: one.high if (offset := at.get(p)) is None else offset for p, one in held.items()}
    if bound.offsets is None:
        return otherwise
    if bound.offsets.keys() != held.keys():
        partitions = ", ".join(map(str, sorted(held)))
        raise ConfigError(f"{option}: expected an offset for each partition ({partitions}), got {bound.words('')}")
    return bound.offsets


def _refuse_expired(start: Bound, topic: str, starts: Mapping[int, int], held: Mapping[int, Held]) -> None:
    """Of a partition that is empty now nothing can be told: what it held had expired as the topic is set up."""
    gone = [p for p, one in held.items() if starts[p] < one.low]
    if start.time_ms is not None:
        gone = [p for p, one in held.items() if one.low > 0 and (one.oldest_ms or 0) > start.time_ms]
    if gone:
        raise ConfigError(
            f"{topic} no longer holds all records {start.words('')}: the oldest time that it holds whole is "
            f"{_oldest_words(gone, held)}; begin there with --from, or later"
        )


def _oldest_words(gone: list[int], held: Mapping[int, Held]) -> str:
    times_ms = [one.oldest_ms for p in gone if (one := held.get(p)) and one.oldest_ms is not None]
    return time_text(max(times_ms)) if times_ms else "now"
