"""The clock of a batch: the event time up to which everything has been read.

Each partition that was read says the newest record time read from it, and whether it was read to its end. A partition
with more to read holds the clock back; one at its end does not, and one that was not read had nothing to read. When
all are at their end the clock is the newest time of all, so that the last verdicts do not depend on how the topic was
cut into batches (docs/adr/0003-the-clock.md).
"""

from collections.abc import Iterable
from typing import NamedTuple

NO_TIME = -1


class Reading(NamedTuple):
    """What was read of one partition in one batch."""

    partition: int
    newest_ms: int
    at_end: bool


def clock_of(readings: Iterable[Reading]) -> int:
    """The clock that these readings allow; NO_TIME if they say nothing."""
    timed = [reading for reading in readings if reading.newest_ms != NO_TIME]
    behind = [reading.newest_ms for reading in timed if not reading.at_end]
    return min(behind) if behind else max((reading.newest_ms for reading in timed), default=NO_TIME)
