"""The clock of a batch: the event time up to which everything has been read.

Each partition that was read says the newest record time read from it and, if there is more to read, the time of the
record that comes next. That holds the clock back: just before it everything has been read. A partition at its end does
not, and one that was not read had nothing to read. When nothing holds it back, the clock is the newest time ever read,
so that the last verdicts do not depend on how the topic was cut into batches (docs/adr/0003-the-clock.md).
"""

from collections.abc import Collection
from typing import NamedTuple

NO_TIME = -1


class Reading(NamedTuple):
    """What was read of one partition in one batch. `unread_ms` is NO_TIME if it was read to its end."""

    partition: int
    newest_ms: int
    unread_ms: int


def newest_of(readings: Collection[Reading], before_ms: int) -> int:
    """The newest time ever read, which was `before_ms` before this batch."""
    return max([before_ms, *(reading.newest_ms for reading in readings)])


def clock_of(readings: Collection[Reading], newest_ms: int) -> int:
    """The clock that these readings allow, where `newest_ms` is the newest time ever read."""
    held_back = (reading.unread_ms - 1 for reading in readings if reading.unread_ms != NO_TIME)
    return min([newest_ms, *held_back])
