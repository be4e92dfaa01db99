"""How far noops have come, and how long it took: counts and latencies by rule, from the verdicts known and accepted."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

from state.verdict import Accepted, Known, kind_of


class Latency(NamedTuple):
    """Latencies of noops, in milliseconds of event time: from their record to that of the observer that was needed."""

    done: str
    """`known` or `accepted`."""
    rule: str
    noops: int
    p50_ms: int
    p99_ms: int


class Acceptance:
    """Adds up verdicts as they come. One that comes again replaces what it said before."""

    def __init__(self) -> None:
        self._latency_ms: dict[tuple[int, bool, str, str], dict[str, int]] = {}
        """By threshold, known before accepted, and by the key of the verdict."""
        self._seen_after_ms: dict[str, int] = {}

    def add(self, verdict: Known | Accepted, now_ms: int) -> None:
        """Take in a verdict that was read at `now_ms`."""
        done_ms = verdict.done_ms
        group = (verdict.k, isinstance(verdict, Accepted), kind_of(verdict), verdict.rule)
        self._latency_ms.setdefault(group, {})[verdict.key] = done_ms - verdict.published_ms
        self._seen_after_ms.setdefault(verdict.key, now_ms - done_ms)

    def latencies(self) -> Iterator[Latency]:
        """By rule and kind, the rule that asks for the fewest peers first."""
        for (_, _, done, rule), by_key in sorted(self._latency_ms.items()):
            latencies_ms = sorted(by_key.values())
            yield Latency(done, rule, len(by_key), _rank(latencies_ms, 0.5), _rank(latencies_ms, 0.99))

    def seen_after_ms(self) -> int | None:
        """How long after a noop came so far its verdict was read, in the median; None before the first."""
        return _rank(sorted(self._seen_after_ms.values()), 0.5) if self._seen_after_ms else None


def _rank(ascending: Sequence[int], part: float) -> int:
    """The least value that this part of all values does not exceed: one that was measured, not one in between."""
    return ascending[ceil(part * len(ascending)) - 1]
