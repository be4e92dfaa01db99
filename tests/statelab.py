"""`python -m tests.statelab`: what the folds keep in the middle of two runs, written to tests/vectors/states.json.

That file stands for the checkpoints of earlier builds. It is made anew where the version of a fold has gone up, because
checkpoints are refused then, or where the runs are others. If only what a fold keeps has changed, its version must go
up first: else a checkpoint of before is gone on with, and means something else.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from producers.swarm import Settings
from state.fold import Arrivals, Fold, Message, Place, Refusal, Topic
from state.folds import make_folds
from state.report import Report, decode_report
from state.segment import Reason
from streaming.host import Stored
from streaming.plain import PlainHost
from streaming.queries import QUERIES
from tests.storylab import Watched, watched

FILE = Path(__file__).parent / "vectors" / "states.json"
RUNS = {
    "whole-story": Settings(duration_ms=24_000),
    "diverging-replicas": Settings(duration_ms=20_000, peers=4),
}
BEHIND_MS = 3_000
"""So far the clock is behind what was read, so that something waits for it."""


class Kept(msgspec.Struct):
    """What is kept for one key of a fold."""

    run: str
    query: str
    fold: str
    version: int
    key: bytes
    blob: bytes
    archive: list[tuple[bytes, bytes]]

    def stored(self) -> Stored:
        size = sum(len(value) for _, value in self.archive)
        return Stored(self.version, b"", self.blob, "", len(self.archive), size)


class Half(NamedTuple):
    """What one half of a run brings, and up to where it reads."""

    arrivals: Arrivals
    clock_ms: int


def kept_of(name: str) -> list[Kept]:
    """What is kept in the middle of a run, as this program does it."""
    hosts = _hosts(name)
    _say(hosts, halves(name)[0])
    return [
        Kept(name, query, fold, folds[fold].version, key, machine.pack(), sorted(host.archives[fold, key].items()))
        for query, host in hosts.items()
        for folds in (folds_of(name, query),)
        for (fold, key), machine in sorted(host.machines.items(), key=lambda one: one[0])
    ]


def said_by(name: str, kept: list[Kept]) -> dict[bytes, bytes | None]:
    """What is said in the second half of a run, by who goes on from there: the last of each key."""
    hosts = _hosts(name)
    for one in kept:
        archive = hosts[one.query].archives[one.fold, one.key] = dict(one.archive)
        machine = folds_of(name, one.query)[one.fold].open(one.key, one.blob, archive)
        hosts[one.query].machines[one.fold, one.key] = machine
    return {message.key: message.value for message in _say(hosts, halves(name)[1])}


def said_without_a_stop(name: str) -> dict[bytes, bytes | None]:
    hosts = _hosts(name)
    first, second = halves(name)
    _say(hosts, first)
    return {message.key: message.value for message in _say(hosts, second)}


def read() -> list[Kept]:
    return msgspec.json.decode(FILE.read_bytes(), type=list[Kept])


def folds_of(name: str, query: str) -> dict[str, Fold]:
    return make_folds(QUERIES[query].folds, _run(name).simulation.config)


def halves(name: str) -> tuple[Half, Half]:
    """The second half ends where all is read. Of each some records are garbage."""
    arrivals = _run(name).arrivals
    middle, end_ms = len(arrivals) // 2, arrivals[-1].time_ms
    first, second = arrivals[:middle], arrivals[middle:]
    return (
        Half(Arrivals(first, list(_garbage(0))), first[-1].time_ms - BEHIND_MS),
        Half(Arrivals(second, list(_garbage(5))), end_ms),
    )


def _run(name: str) -> Watched:
    return watched(name, RUNS[name])


def _hosts(name: str) -> dict[str, PlainHost]:
    return {query: PlainHost(QUERIES[query], _run(name).simulation.config) for query in QUERIES}


def _say(hosts: dict[str, PlainHost], half: Half) -> list[Message]:
    """What both queries say of a half."""
    said = list(hosts["segments"].absorb(half.arrivals, half.clock_ms))
    reports = list(_reports(said))
    said += hosts["matrix"].absorb(Arrivals([], [], reports), half.clock_ms)
    return said


def _reports(said: list[Message]) -> Iterator[Report]:
    return (decode_report(message.value) for message in said if message.topic == Topic.MATRIX and message.value)


def _garbage(first: int) -> Iterator[Refusal]:
    for offset in range(first, first + 5):
        yield Refusal(Reason.MALFORMED, Place("segments", offset % 2, offset, 0), b"key", b"garbage")


def main() -> None:
    made = [one for name in RUNS for one in kept_of(name)]
    lines = ",\n".join(msgspec.json.encode(one).decode() for one in made)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    by_fold: dict[str, int] = defaultdict(int)
    for one in made:
        by_fold[one.fold] += 1
    print(f"{FILE.name}: {dict(by_fold)}")


if __name__ == "__main__":
    main()
