"""Points of a micro-batch at which a job is killed, told by the files of its checkpoint.

Spark writes `offsets/N` first, then its tasks keep their states (version N + 1) and write to Kafka, and at last it
writes `commits/N`, under another name until it is whole. When a point seems to be reached the JVM is stopped, so that
nothing moves, and looked at again; only then is it killed. Else it goes on, and the next batch is waited for.
"""

import os
import signal
import time
from contextlib import suppress
from enum import StrEnum

from confluent_kafka import Consumer, TopicPartition

from tests.joblab import Deployment, Job

LOOK_SECONDS_MAX = 120.0


class Point(StrEnum):
    PLANNED = "after the offsets were written"
    KEPT = "after the state was committed"
    SAID = "after verdicts were written"
    ENDING = "before the commit log was written"


class Watcher:
    """Looks at one query of a job. Requires `offsets/N` of some batch that is not done when it says where it stands."""

    def __init__(self, place: Deployment, query: str = "segments") -> None:
        self._place = place
        self._folder = place.checkpoint / query
        self._query = query
        self._consumer = Consumer({**place.connection.librdkafka(), "group.id": "watcher"})
        self._said_before: dict[int, int] = {}

    def close(self) -> None:
        self._consumer.close()

    def batch(self) -> int | None:
        """The batch that runs now."""
        begun, done = (self._place.newest(what, self._query) for what in ("offsets", "commits"))
        if begun <= done:
            return None
        if begun not in self._said_before:
            self._said_before[begun] = self._said()
        return begun

    def is_at(self, point: Point) -> bool:
        """Whether the batch that runs now has come to a point, and not further than tells it from the next one."""
        batch = self.batch()
        if batch is None:
            return False
        match point:
            case Point.PLANNED:
                return not any(self._kept(batch))
            case Point.KEPT:
                return all(self._kept(batch))
            case Point.SAID:
                return all(self._kept(batch)) and self._said() > self._said_before[batch]
            case Point.ENDING:
                return self._is_ending(batch)

    def _kept(self, batch: int) -> list[bool]:
        """Of each partition of the state, whether its version after the batch is there."""
        folders = [path for path in (self._folder / "state" / "0").glob("[0-9]*") if path.is_dir()]
        return [any(folder.glob(f"{batch + 1}.*")) for folder in folders]

    def _said(self) -> int:
        place = TopicPartition(self._place.topic("verdicts"), 0)
        return int(self._consumer.get_watermark_offsets(place, timeout=10)[1])

    def _is_ending(self, batch: int) -> bool:
        with suppress(FileNotFoundError):
            names = [path.name for path in (self._folder / "commits").iterdir()]
            return any(name.startswith(f".{batch}.") and name.endswith(".tmp") for name in names)
        return False


def kill_at(job: Job, watcher: Watcher, point: Point, *, after: int) -> int:
    """Kill a job at a point of one of its batches, the first of them beyond `after`; gives that batch."""
    jvm: list[int] = []
    job.wait_for(lambda: bool(jvm) or _note(jvm, job.jvm), pause_s=0.05)
    deadline = time.monotonic() + LOOK_SECONDS_MAX
    while time.monotonic() < deadline:
        assert job.process.poll() is None, job.process.communicate()
        batch = watcher.batch()
        if batch is None or batch <= after or not watcher.is_at(point):
            continue
        os.kill(jvm[0], signal.SIGSTOP)
        if watcher.batch() == batch and watcher.is_at(point):
            job.kill()
            return batch
        os.kill(jvm[0], signal.SIGCONT)
    raise AssertionError(f"no batch was seen {point}")


def _note(jvm: list[int], pid: int | None) -> bool:
    if pid is not None:
        jvm.append(pid)
    return pid is not None
