"""How far a query is behind its topic: unread records of each partition, and the age of the oldest.

Spark commits no offsets to Kafka, so nobody else can tell. The broker is asked, not Spark's progress: a query that
hangs reports none, and that is when it matters.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import NamedTuple

from state.connection import Connection
from streaming.parts import MissingPartError
from streaming.peek import Peeker
from streaming.progress import Totals
from streaming.topics import retention_ms

ASK_SECONDS = 5.0
"""How often the broker is asked."""

STOP_SECONDS_MAX = 1.0
"""How long the end of a question is waited for: a broker that is dead would hold up the end of the job."""

RETENTION_SECONDS = 300.0
"""How often it is asked how long a topic keeps its records: hardly anybody changes that."""


class Lag(NamedTuple):
    """What of a partition is unread."""

    records: int
    oldest_ms: int | None
    """The time of the oldest of them; None if there are none, or it could not be read."""


class LagWatch:
    """Asks for one topic, in a thread of its own. `now` and `retention_ms` are what was answered last."""

    def __init__(self, connection: Connection, topic: str, totals: Totals) -> None:
        self.topic = topic
        self.now: Mapping[int, Lag] = {}
        self.retention_ms: float | None = None
        self._connection = connection
        self._totals = totals
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lag of {topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask no more. A question that waits for an answer is not waited for."""
        self._stopped.set()
        self._thread.join(STOP_SECONDS_MAX)

    def _run(self) -> None:
        asked = -RETENTION_SECONDS
        with closing(Peeker.to(self._connection, self.topic)) as peeker:
            while not self._stopped.wait(ASK_SECONDS):
                self.now = measure(peeker.end, peeker.time_at, self._totals.ends, self.now)
                if time.monotonic() - asked > RETENTION_SECONDS:
                    asked = time.monotonic()
                    try:
                        self.retention_ms = retention_ms(self._connection, self.topic)
                    except MissingPartError:
                        continue


def measure(
    end: Callable[[int], int | None],
    time_at: Callable[[int, int], int | None],
    read: Mapping[int, int],
    before: Mapping[int, Lag],
) -> dict[int, Lag]:
    """The lag of each partition that is `read` up to an offset; as it was before where no broker answers."""
    found: dict[int, Lag] = {}
    for partition, offset in dict(read).items():
        last = end(partition)
        if last is None:
            if partition in before:
                found[partition] = before[partition]
        elif last <= offset:
            found[partition] = Lag(0, None)
        else:
            found[partition] = Lag(last - offset, time_at(partition, offset))
    return found
