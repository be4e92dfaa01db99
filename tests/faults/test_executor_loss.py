"""Executors are killed in mid run: their tasks go elsewhere, the state is read again, and no verdict changes."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from state.connection import Connection
from streaming.broker import Broker
from tests.faults.faultlab import Stopwatch, Trials, story
from tests.joblab import Deployment, Job

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EXECUTORS = 2
SMALL = ("--offsets-max", "40", "--trigger", "0 seconds")
CLUSTER = ("--master", f"local-cluster[{EXECUTORS},1,1024]", "--shuffle-partitions", "4")


def test_executors_are_killed_in_mid_run(trials: Trials, broker: Broker, tmp_path: Path) -> None:
    given = story(41, blocks=4)
    place = Deployment(Connection(bootstrap=broker.bootstrap), "executors", given.config, tmp_path)
    place.publish(given.records)
    job = place.start(*CLUSTER, *SMALL)
    recover_s = []
    killed: set[int] = set()
    for _ in range(2):
        job.wait_past(place.newest("commits"))
        job.wait_for(lambda: len(executors(job)) == EXECUTORS)
        victim = min(executors(job))
        killed.add(victim)
        os.kill(victim, signal.SIGKILL)
        watch = Stopwatch()
        job.wait_past(place.newest("offsets"))
        recover_s.append(watch.seconds)
    assert len(killed) == 2
    job.stop()
    trials.finish(place)
    trials.settle(place, given, "SIGKILL of an executor of two; the job goes on", len(killed), recover_s)


def executors(job: Job) -> set[int]:
    """The process ids of a job's executors: JVMs that its own JVM has started."""
    parent = job.jvm
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes() and parent == _parent(folder):
                    found.add(int(folder.name))
    return found


def _parent(folder: Path) -> int:
    """Of a process, by its folder in /proc; its name stands in brackets and can hold anything."""
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
