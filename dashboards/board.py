"""What the exporter has read: every swarm of the configuration, and what could not be read. Scrapes look at this alone.

Records of `.verdicts` and `.matrix` go in, in the order of their topics. What is no verdict, or no report, or says what
cannot be, is counted and skipped: nothing that stands on a topic stops the exporter.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from dashboards import replicas
from dashboards.watch import SwarmWatch
from state.config import Config
from state.fold import Topic
from state.report import decode_report
from state.verdict import (
    Accepted,
    AnyVerdict,
    Equivocation,
    Fork,
    Known,
    Quarantine,
    Replica,
    Verdict,
    decode_verdict,
    versions_of,
)

NUMBER_MAX = 1 << 53
"""Numbers beyond this are no times, indexes or counts; and Prometheus, whose values are floats, could not show them."""


class Record(NamedTuple):
    """A record of one of the two topics, which is named without its prefix."""

    topic: str
    key: bytes | None
    value: bytes | None
    time_ms: int


class _Place(NamedTuple):
    """Where a verdict is kept, to find it again when it is withdrawn."""

    swarm: str
    kind: type[Verdict]
    author: str


class Board:
    """The state of all swarms. `lock` is held while records go in; hold it to read several things at one moment."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.lock = threading.Lock()
        self.watches = {swarm.id: SwarmWatch(swarm) for swarm in config.swarms}
        self.quarantines: dict[str, Quarantine] = {}
        self.last_verdict_ms = 0
        """The newest record time of a verdict."""
        self.unreadable: Counter[str] = Counter({Topic.VERDICTS: 0, Topic.MATRIX: 0})
        self.foreign: Counter[str] = Counter({Topic.VERDICTS: 0, Topic.MATRIX: 0})
        """Records about swarms that are not in the configuration."""
        self._places: dict[str, _Place] = {}

    def absorb(self, records: Iterable[Record]) -> int:
        """Take records in; gives how many there were."""
        # They are waited for before the lock is taken: a scrape must not wait for Kafka.
        come = list(records)
        with self.lock:
            for record in come:
                if record.topic == Topic.VERDICTS:
                    self._add_verdict(record)
                else:
                    self._add_report(record)
        return len(come)

    def _add_verdict(self, record: Record) -> None:
        self.last_verdict_ms = max(self.last_verdict_ms, record.time_ms)
        try:
            key = (record.key or b"").decode()
            if record.value is None:
                self._withdraw(key)
                return
            verdict = decode_verdict(record.value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unreadable[Topic.VERDICTS] += 1
            return
        if verdict.key != key or not _can_be(verdict):
            self.unreadable[Topic.VERDICTS] += 1
        elif isinstance(verdict, Quarantine):
            self.quarantines[key] = verdict
        else:
            self._note(verdict, record.time_ms)

    def _note(self, verdict: AnyVerdict, time_ms: int) -> None:
        watch = self.watches.get(verdict.swarm)
        if watch is None:
            self.foreign[Topic.VERDICTS] += 1
            return
        try:
            author = watch.add(verdict, time_ms)
        except ValueError:  # a verdict that does not join with what stands under its key is none of ours
            self.unreadable[Topic.VERDICTS] += 1
            return
        if author is not None:
            self._places[verdict.key] = _Place(verdict.swarm, type(verdict), author)

    def _withdraw(self, key: str) -> None:
        self.quarantines.pop(key, None)
        replica = replicas.place_of(key)
        if replica is not None and replica.swarm in self.watches:
            self.watches[replica.swarm].replicas.withdraw(replica.author, replica.entity)
        place = self._places.pop(key, None)
        if place is not None:
            self.watches[place.swarm].findings.withdraw(place.kind, place.author, key)

    def _add_report(self, record: Record) -> None:
        try:
            report = decode_report(record.value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unreadable[Topic.MATRIX] += 1
            return
        watch = self.watches.get(report.swarm.hex())
        if watch is None or any(node.author not in watch.swarm.authors for node in report.nodes):
            self.foreign[Topic.MATRIX] += 1
        else:
            watch.add_report(report)


def _can_be(verdict: AnyVerdict) -> bool:
    """Whether what a verdict says can be shown: a later step may rely on it."""
    if isinstance(verdict, Known | Accepted):
        return _is_small((verdict.index, verdict.published_ms, verdict.done_ms))
    if isinstance(verdict, Replica) and not replicas.can_be(verdict):
        return False
    if isinstance(verdict, Fork | Equivocation) and len({version.id for version in versions_of(verdict)}) < 2:
        return False
    return _is_small(msgspec.to_builtins(verdict))


def _is_small(value: Any) -> bool:
    if isinstance(value, int):
        return -NUMBER_MAX <= value <= NUMBER_MAX
    if isinstance(value, dict):
        return all(map(_is_small, value.values()))
    return all(map(_is_small, value)) if isinstance(value, list | tuple) else True
