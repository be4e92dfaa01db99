"""SIGKILL of the job, at each phase of a batch and at any time: nothing lost, nothing twice, no verdict changed."""

import random
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
from tests.joblab import Deployment

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
        job.stop()
    trials.finish(place)
    phases = ", ".join(dict.fromkeys(str(point) if isinstance(point, Point) else "at any time" for point in points))
    trials.settle(place, given, f"SIGKILL of the job: {phases}", len(points), recover_s)


def test_killed_at_each_phase_of_a_batch(trials: Trials, broker: Broker, tmp_path: Path) -> None:
    trial(trials, broker, tmp_path, [*Point], seed=1)


@pytest.mark.skipif(not MINUTES, reason="the long form, `make soak`")
def test_killed_again_and_again_at_each_phase_and_at_any_time(trials: Trials, broker: Broker, tmp_path: Path) -> None:
    watch, kills = Stopwatch(), 0
    for seed in count(2):
        if kills >= KILLS_LONG and watch.seconds > 60 * MINUTES:
            break
        chance = random.Random(seed)
        points = [*Point, *(chance.uniform(0, 2) for _ in range(4))]
        chance.shuffle(points)
        trial(trials, broker, tmp_path, points, seed)
        kills += len(points)
