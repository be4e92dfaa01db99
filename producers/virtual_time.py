"""Virtual time: actions wait in a queue and run by their times, those of one moment in the order they were put in."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Action = Callable[[], object]


class VirtualTime:
    """A clock that jumps from one action to the next; nothing waits for the wall clock."""

    def __init__(self, start_ms: int) -> None:
        self.now_ms = start_ms
        self._order = count()
        self._queue: list[tuple[int, int, Action]] = []

    def at(self, time_ms: int, action: Action) -> None:
        """Run `action` at a time; one that has passed already is now."""
        heappush(self._queue, (max(time_ms, self.now_ms), next(self._order), action))

    def after(self, delay_ms: int, action: Action) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run(self, until_ms: int) -> None:
        """Let time pass up to and including `until_ms`."""
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, action = heappop(self._queue)
            action()
        self.now_ms = max(self.now_ms, until_ms)
