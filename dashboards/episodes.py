"""Episodes of one swarm: splits, silences, one-way links, and times of which nothing can be said.

An episode is written again while it lasts and never after it has ended. So one that is neither open nor among those
that ended lately is new, and is counted.
"""

from collections import Counter, OrderedDict
from typing import TypeVar

from state.verdict import Episode, join, kind_of

ENDED_MAX = 256
"""Ended episodes of a swarm that are remembered, for people who ask what happened."""

_E = TypeVar("_E", bound=Episode)


class Episodes:
    """What is open, what ended lately, and how many there were."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        """By kind: how many there ever were."""
        self._open: dict[str, Episode] = {}
        self._ended: OrderedDict[str, Episode] = OrderedDict()

    def add(self, episode: Episode) -> None:
        """Take in an episode as it was last written."""
        key = episode.key
        held = self._open.get(key) or self._ended.get(key)
        if held is None:
            self.opened[kind_of(episode)] += 1
        else:
            episode = join(held, episode)
        if episode.ended_ms is None:
            self._open[key] = episode
            return
        self._open.pop(key, None)
        self._ended[key] = episode
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def open(self, kind: type[_E]) -> list[_E]:
        """The open ones of a kind, the oldest first."""
        found = [episode for episode in self._open.values() if isinstance(episode, kind)]
        return sorted(found, key=lambda episode: (episode.opened_ms, episode.key))

    def ended(self, kind: type[_E]) -> list[_E]:
        """Those of a kind that ended lately, in the order in which they ended."""
        return [episode for episode in self._ended.values() if isinstance(episode, kind)]
