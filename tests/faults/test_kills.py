"""SIGKILL of the job, at each phase of a batch and at any time: nothing lost, nothing twice, no verdict changed."""

import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from state.connection import Connection
from streaming.broker import Broker
from tests.faults.crashpoint import Point, Watcher, kill_at
from tests.faults.faultlab import MINUTES, Stopwatch, Trials, story
from tests.joblab import Deployment, Job

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SMALL = ("--offsets-max", "25", "--trigger", "0 seconds")
KILLS_LONG = 50


def trial(trials: Trials, broker: Broker, folder: Path, points: Sequence[Point | float], seed: int) -> None:
    """A job that is killed at each of these points, or so many seconds after a batch, and started again."""
    given = story(seed)
    place = Deployment(Connection(bootstrap=broker.bootstrap), f"kills-{seed}", given.config, folder)
    place.publish(given.records)
    recover_s: list[float] = []
    with closing(Watcher(place)) as watcher:
        job, killed = place.start(*SMALL), -1
        for point in points:
            if isinstance(point, Point):
                killed = kill_at(job, watcher, point, after=killed)
            else:
                job.wait_past(killed)
                time.sleep(point)
                job.kill(whole=False)
                killed = place.newest("offsets")
            watch = Stopwatch()
            job = place.start(*SMALL)
            job.wait_past(killed - 1)
            recover_s.append(watch.seconds)
        recover_s.append(lose_jvm(job))
    trials.finish(place)
    phases = ", ".join(dict.fromkeys(str(point) if isinstance(point, Point) else "at any time" for point in points))
    phases += "; of its JVM alone"
    trials.settle(place, given, f"SIGKILL of the job: {phases}", len(points) + 1, recover_s)


def lose_jvm(job: Job) -> float:
    """Kill its JVM alone, as a machine that runs out of memory does: the job says so, and the next one goes on."""
    assert job.jvm is not None
    os.kill(job.jvm, signal.SIGKILL)
    watch = Stopwatch()
    _, err = job.process.communicate(timeout=60)
    assert job.process.returncode == 1, err
    assert err.startswith("quorumscope: Spark's process has ended by itself: start again, nothing is lost; ")
    assert err.count("\n") == 1, err
    last = job.deployment.newest("commits")
    again = job.deployment.start(*SMALL)
    again.wait_past(last)
    again.stop()
    return watch.seconds


def test_killed_at_each_phase_of_a_batch_and_at_any_time(trials: Trials, broker: Broker, tmp_path: Path) -> None:
    """Once in the short form; in the long one again and again, in another order each time."""
    watch, kills = Stopwatch(), 0
    for seed in count(1):
        chance = random.Random(seed)
        points = [*Point, *(chance.uniform(0, 2) for _ in range(4 if MINUTES else 1))]
        if seed > 1:
            chance.shuffle(points)
        trial(trials, broker, tmp_path, points, seed)
        kills += len(points)
        if not MINUTES or (kills >= KILLS_LONG and watch.seconds > 60 * MINUTES):
            break
