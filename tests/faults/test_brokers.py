"""The broker is killed, and away for half a minute: a patient job goes on, one that is not says so, nothing is lost."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.connection import Connection
from streaming.broker import Broker
from tests.faults.faultlab import MINUTES, Stopwatch, Trials, story
from tests.joblab import Deployment

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SMALL = ("--offsets-max", "20", "--trigger", "0 seconds")
AWAY_SECONDS = 30 if not MINUTES else 50
"""Less than the default patience of a job, which is a minute."""


@pytest.fixture
def mortal() -> Iterator[Broker]:
    """A broker of this test alone."""
    with Broker() as started:
        yield started


def test_the_broker_is_killed_and_comes_back_and_is_away_for_half_a_minute(
    trials: Trials, mortal: Broker, tmp_path: Path
) -> None:
    """One job waits for as long as jobs do by default; another one, which is told to wait for five seconds, ends."""
    given = story(21)
    connection = Connection(bootstrap=mortal.bootstrap)
    patient, hasty = (Deployment(connection, name, given.config, tmp_path) for name in ("patient", "hasty"))
    half = len(given.records) // 2
    for place in (patient, hasty):
        place.publish(given.records[:half])
    job = patient.start(*SMALL)
    recover_s = []

    job.wait_past(1)
    mortal.kill()
    mortal.restart()
    watch = Stopwatch()
    job.wait_past(patient.newest("commits"))
    recover_s.append(watch.seconds)

    other = hasty.start("--patience", "5s")
    other.wait_past(-1)
    mortal.kill()
    watch = Stopwatch()
    _, err = other.process.communicate(timeout=2 * AWAY_SECONDS)
    assert other.process.returncode == 3, err
    assert "nothing is lost" in err
    time.sleep(max(0, AWAY_SECONDS - watch.seconds))
    assert job.process.poll() is None
    mortal.restart()
    watch = Stopwatch()
    for place in (patient, hasty):
        place.publish(given.records[half:])
    job.wait_past(patient.newest("commits"))
    recover_s.append(watch.seconds)
    job.stop()
    for place, name, times, recovered in (
        (patient, f"broker killed; away for {AWAY_SECONDS} s; the job goes on", 2, recover_s),
        (hasty, "broker killed; the job ends with 3 and is started again", 1, []),
    ):
        trials.finish(place)
        trials.settle(place, given, name, times, recovered)
