"""Elders: noops that live on though those who observed them may be gone, such as the tip of a silent peer.

Who observed a noop follows from the vectors of its observers, as long as these are there. So it is kept for elders
only.
"""

from collections.abc import Iterable

import numpy as np

from state.fold import Archive
from state.observers import Observers
from state.pasts import Pasts


class Elders:
    """The elders of a block, with their observers in the archive."""

    def __init__(self, pasts: Pasts, observers: Observers, archive: Archive) -> None:
        self._pasts = pasts
        self._observers = observers
        self._archive = archive
        self._slots: set[int] = set()

    def names(self) -> list[bytes]:
        return sorted(self._pasts.names[slot] for slot in self._slots)

    def flush(self, clock_ms: int, afterlife_ms: int) -> None:
        """Keep the observers of noops that are alive and older than others stay after their lives."""
        pasts, observers = self._pasts, self._observers
        watched = np.fromiter(observers.watch_of, np.int64, len(observers.watch_of))
        old = (pasts.time[watched] < clock_ms - afterlife_ms) & (pasts.life[watched] >= clock_ms)
        elders = set(watched[old].tolist())
        for slot in self._slots - elders:
            self._archive.pop(_name(pasts.names[slot]), None)
        for slot in elders:
            watch = observers.watch_of[slot]
            if slot not in self._slots or observers.seen[watch]:
                both = observers.covered[watch].tobytes() + observers.endorsed[watch].tobytes()
                self._archive[_name(pasts.names[slot])] = both
        self._slots = elders
        observers.seen[:] = False

    def load(self, names: Iterable[bytes]) -> None:
        """Put back what was kept. Requires that the noops are watched."""
        for name in names:
            slot = self._pasts.slot_of[name]
            covered, endorsed = np.frombuffer(self._archive[_name(name)], np.int32).reshape(2, -1)
            watch = self._observers.watch_of[slot]
            # Peers that joined since have observed nothing yet.
            self._observers.covered[watch, : len(covered)] = covered
            self._observers.endorsed[watch, : len(endorsed)] = endorsed
            self._slots.add(slot)


def _name(name: bytes) -> bytes:
    return b"E" + name
