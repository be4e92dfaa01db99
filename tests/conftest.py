"""What many tests share: one embedded broker and one Spark session for the whole run."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from streaming.broker import Broker
from streaming.session import start_session

# Each Spark of a test lives for some seconds: with the quick compiler alone it takes 15 s of CPU instead of 25.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A started broker. Tests share it: each makes topics with names of its own, and none stops it."""
    with Broker() as started:
        yield started


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session on two cores. Tests share it: each has checkpoints of its own, and none stops it."""
    session = start_session("local[2]", 2)
    yield session
    session.stop()
