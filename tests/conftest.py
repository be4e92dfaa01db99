"""What many tests share: one embedded broker for the whole run."""

from collections.abc import Iterator

import pytest

from streaming.broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A started broker. Tests share it: each makes topics with names of its own, and none stops it."""
    with Broker() as started:
        yield started
