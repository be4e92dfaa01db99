"""How far segments have come, and how long it took: counts and latencies by rule, from the verdicts known and accepted.

There is one such verdict a segment and rule, for ever, so none is kept. Counted are positions of logs (author and
index), each once: the same after a restart, whatever Kafka has compacted. A verdict that comes again can only tell of
an earlier time, so the counts of a latency's buckets never fall; the sum of latencies could, so there is none.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dashboards.positions import Positions
from state.metric import Distribution, Histogram
from state.verdict import Accepted, Known

LATENCY_BOUNDS_S = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600)
"""Gossip takes some noop intervals, of a second or so; the horizon, after which nothing is judged, is minutes."""


class Tally(NamedTuple):
    """What is counted for one rule."""

    rule: str
    segments: int
    latency: Distribution
    newest_ms: int
    """The newest time at which a segment became so."""


class RuleSpread:
    """Counts the segments that became known, or accepted, by one rule."""

    def __init__(self) -> None:
        self.segments = 0
        self.newest_ms = 0
        self.positions: dict[str, Positions] = {}
        """By author."""
        self._latency = Histogram(LATENCY_BOUNDS_S, with_total=False)

    def add(self, verdict: Known | Accepted) -> None:
        self.newest_ms = max(self.newest_ms, verdict.done_ms)
        if self.positions.setdefault(verdict.author, Positions()).add(verdict.index):
            self.segments += 1
            self._latency.observe((verdict.done_ms - verdict.published_ms) / 1000)

    def tally(self, rule: str) -> Tally:
        return Tally(rule, self.segments, self._latency.distribution(), self.newest_ms)


class Spread:
    """The segments of a swarm, by rule. Requires that authors and rules are of the swarm: they are kept for ever."""

    def __init__(self) -> None:
        self._known: dict[str, RuleSpread] = {}
        self._accepted: dict[str, RuleSpread] = {}
        self.delay_ms: int | None = None
        """How long after the newest acceptance its verdict was written; None before the first."""

    def add(self, verdict: Known | Accepted, written_ms: int) -> None:
        """Take in a verdict that was written at a record time."""
        if isinstance(verdict, Known):
            self._known.setdefault(verdict.rule, RuleSpread()).add(verdict)
            return
        accepted = self._accepted.setdefault(verdict.rule, RuleSpread())
        if verdict.accepted_ms >= accepted.newest_ms:
            self.delay_ms = written_ms - verdict.accepted_ms
        accepted.add(verdict)

    def known(self) -> Iterator[Tally]:
        return (spread.tally(rule) for rule, spread in sorted(self._known.items()))

    def accepted(self) -> Iterator[Tally]:
        return (spread.tally(rule) for rule, spread in sorted(self._accepted.items()))

    def accepted_indexes(self, author: str) -> Iterator[tuple[str, int]]:
        """By rule, the newest index of an author's log that is accepted."""
        for rule, spread in sorted(self._accepted.items()):
            if author in spread.positions:
                yield rule, spread.positions[author].newest
