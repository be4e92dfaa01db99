"""Bloom clocks: stamps that tell, of two versions of an entity, which one can be in the past of the other.

- A clock has N counters. An event raises k of them by one; which ones is a random function of its id, and repeats
  count, so that each event adds exactly k to the sum of the counters.
- The stamp of an event is the merge (the greater of each two counters) of its parents' stamps, then raised by the
  event. So a counter of a stamp is the most that any one path through the past of the event adds to it.
- Hence a version's stamp is at most (counter by counter) that of any version that holds it: "concurrent" is certain,
  and an ancestor is never missed. "Before" and "equal" can be coincidence; a digest settles what they suggest.
- An author can choose the ids of its events, by trying many. So against a liar no chance below says anything.
- Clocks of different parameters tell nothing about each other: to mix them is an error.
"""

import math
from enum import StrEnum
from functools import lru_cache
from hashlib import shake_128
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from state.binomial import log_upper_tails

COUNTERS_MAX = 65_536
"""256 KiB of counters: more than a stamp in an op (64 KiB) holds, unless most are near the least."""
HASHES_MAX = 16
"""Above 16 an event costs more than it tells: the chance of a coincidence is then 2⁻¹⁶ at the best size."""
COUNTER_MAX = 2**32 - 1
"""Counters are uint32. At a thousand events a second that all raise one counter, it is reached after 50 days."""

_SHARE_MIN = 1e-300
"""No clock has so many counters that one gets a smaller share of the raises; below, floats lose their digits."""

Counters = NDArray[np.uint32]


class Parameters(NamedTuple):
    """The size of a clock: N counters, of which each event raises k."""

    counters: int
    hashes: int

    def problem(self) -> str:
        """What is wrong with them, in words; nothing if they can be used."""
        if not 1 <= self.counters <= COUNTERS_MAX:
            return f"expected 1 to {COUNTERS_MAX} counters, got {self.counters}"
        if not 1 <= self.hashes <= HASHES_MAX:
            return f"expected 1 to {HASHES_MAX} hashes, got {self.hashes}"
        return ""


DEFAULT_PARAMETERS = Parameters(1024, 2)


class Relation(StrEnum):
    """How one clock stands to another. Only "concurrent" is certain."""

    EQUAL = "equal"
    BEFORE = "before"
    AFTER = "after"
    CONCURRENT = "concurrent"


class MixedParametersError(ValueError):
    """Two clocks of different parameters were put together."""


class NotAChainError(ValueError):
    """An event cannot be taken out: the clock is not that of a chain, or does not hold the event."""


class CounterOverflowError(OverflowError):
    """A counter is at its maximum, and another event would raise it."""


@lru_cache(64)
def _index_words(parameters: Parameters) -> tuple[bytes, Struct]:
    """What is hashed before the id of an event, and how the hash is read."""
    prefix = b"quorumscope.bloom.v1\0" + parameters.counters.to_bytes(4) + parameters.hashes.to_bytes(1)
    return prefix, Struct(f">{parameters.hashes}Q")


def indices(event_id: bytes, parameters: Parameters) -> tuple[int, ...]:
    r"""The k counters that an event raises, independent of each other; the same one may stand there twice.

    SHAKE-128("quorumscope.bloom.v1\0" ‖ N u32 ‖ k u8 ‖ id), read as k big-endian u64, each modulo N. That prefers low
    indices by less than N / 2⁶⁴, which no clock can show.
    """
    prefix, words = _index_words(parameters)
    counters = parameters.counters
    return tuple([word % counters for word in words.unpack(shake_128(prefix + event_id).digest(words.size))])


class Clock:
    """A Bloom clock; it never changes. `chain_events` is how many events it holds if they are known to form a chain.

    Requires N counters that nobody else writes to; they become read-only.
    """

    __slots__ = ("chain_events", "counters", "parameters")

    def __init__(self, parameters: Parameters, counters: Counters, chain_events: int | None = None) -> None:
        counters.setflags(False)  # type: ignore[call-arg]  # given by name it takes twice as long
        self.parameters: Final = parameters
        self.counters: Final = counters
        self.chain_events: Final = chain_events

    @classmethod
    def zero(cls, parameters: Parameters = DEFAULT_PARAMETERS) -> "Clock":
        """The clock of no events."""
        if problem := parameters.problem():
            raise ValueError(problem)
        return cls(parameters, np.zeros(parameters.counters, np.uint32), 0)

    @property
    def total(self) -> int:
        """The sum of the counters: k for each event of a chain, at most k for each event of any version."""
        if self.chain_events is not None:
            return self.chain_events * self.parameters.hashes
        return int(self.counters.sum(dtype=np.uint64))

    def after(self, event_id: bytes) -> "Clock":
        """The stamp of an event whose parents' merged stamp this is."""
        counters = self.counters.copy()
        for index in indices(event_id, self.parameters):
            raised = counters.item(index) + 1
            if raised > COUNTER_MAX:
                raise CounterOverflowError(f"counter {index} is at its maximum, {COUNTER_MAX}")
            counters[index] = raised
        chain_events = self.chain_events
        return Clock(self.parameters, counters, None if chain_events is None else chain_events + 1)

    def without(self, event_id: bytes) -> "Clock":
        """The clock without an event. Sound only on a chain, and only if the event is one of it: that its counters are
        there is checked, but does not show it.
        """
        if self.chain_events is None:
            raise NotAChainError("the clock is a merge: a counter may stand for events of several branches")
        counters = self.counters.copy()
        for index in indices(event_id, self.parameters):
            if not counters.item(index):
                raise NotAChainError(f"the clock does not hold the event: counter {index} is too low")
            counters[index] -= 1
        return Clock(self.parameters, counters, self.chain_events - 1)

    def merge(self, other: "Clock") -> "Clock":
        """The stamp of the events of both. It is that of a chain only if one of them is empty, or both are one object:
        clocks that are merely equal may hold different events.
        """
        if other.parameters is not self.parameters:
            _require_same(self, other)
        if other is self or other.chain_events == 0:
            return self
        return other if self.chain_events == 0 else Clock(self.parameters, np.maximum(self.counters, other.counters))

    def relation(self, other: "Clock") -> Relation:
        """How this clock stands to the other, counter by counter."""
        if other.parameters is not self.parameters:
            _require_same(self, other)
        ours, theirs = self.counters, other.counters
        over = ours > theirs
        under = ours < theirs
        # the place of the greatest of some flags is found in half the time of asking whether any is set
        if over.item(over.argmax()):
            return Relation.CONCURRENT if under.item(under.argmax()) else Relation.AFTER
        return Relation.BEFORE if under.item(under.argmax()) else Relation.EQUAL

    def compare(self, other: "Clock") -> "Comparison":
        """The relation, with the chance that it is a coincidence."""
        relation = self.relation(other)
        return Comparison(relation, other, self) if relation is Relation.AFTER else Comparison(relation, self, other)

    def distance(self, other: "Clock") -> int:
        """The sum of the differences of the counters: of a stamp and a later one, what their totals differ by."""
        if other.parameters is not self.parameters:
            _require_same(self, other)
        apart = np.maximum(self.counters, other.counters) - np.minimum(self.counters, other.counters)
        return int(apart.sum(dtype=np.uint64))

    def common_bound(self, other: "Clock") -> "Clock":
        """The lesser of each two counters. The stamp of every common ancestor is at most this, but this need not be the
        stamp of any version.
        """
        if other.parameters is not self.parameters:
            _require_same(self, other)
        if other is self or self.chain_events == 0:
            return self
        return other if other.chain_events == 0 else Clock(self.parameters, np.minimum(self.counters, other.counters))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clock):
            return NotImplemented
        return self.parameters == other.parameters and self.counters.tobytes() == other.counters.tobytes()

    def __hash__(self) -> int:
        return crc32(self.counters.tobytes())

    def __repr__(self) -> str:
        chain = "" if self.chain_events is None else f", a chain of {self.chain_events}"
        return f"Clock({self.parameters.counters} × {self.parameters.hashes}, total {self.total}{chain})"


def _require_same(one: Clock, other: Clock) -> None:
    if one.parameters != other.parameters:
        ours, theirs = tuple(one.parameters), tuple(other.parameters)
        raise MixedParametersError(f"clocks of different parameters cannot be put together: {ours} and {theirs}")


class Comparison(NamedTuple):
    """A relation, and two published estimates of the chance that a "before", "after" or "equal" is a coincidence.

    Both ask how likely a clock whose counters add up to those of the larger one, |B|, covers the smaller one, A, if its
    raises fell at random and had nothing to do with A. So neither is a posterior: whether *this* relation is a
    coincidence depends also on how often versions that lack something are compared. Nor is either a limit: what A and B
    have in common is covered for certain, so where that is much, they are far too low (docs/bloom-clocks.md has
    measured it). The chance of a "concurrent" is 0; an empty A is covered by chance 1.
    """

    relation: Relation
    smaller: Clock
    larger: Clock

    @property
    def ramabaja(self) -> float:
        """(1 - (1 - 1/N)^|B|)^|A|: each of A's raises falls on a counter of B that is not zero, however high."""
        if self.relation is Relation.CONCURRENT:
            return 0.0
        raises = self.smaller.total
        return math.exp(raises * self._log_covered(np.ones(1, np.uint32)).item()) if raises else 1.0

    @property
    def misra(self) -> float:
        """Kshemkalyani and Misra: the product over counters of P(Binomial(|B|, 1/N) ≥ A[i]). It takes A as it is, and
        the counters of B for independent of each other; it is never above the other estimate.
        """
        if self.relation is Relation.CONCURRENT:
            return 0.0
        heights, counts = np.unique(self.smaller.counters, return_counts=True)
        return math.exp((counts * self._log_covered(heights)).sum())

    def _log_covered(self, heights: Counters) -> NDArray[np.float64]:
        """The logarithms of the chances that a counter of B is at least so high."""
        return log_upper_tails(heights, self.larger.total, 1 / self.larger.parameters.counters)


class EventCount(NamedTuple):
    """How many events one version holds and another lacks; `most` is None if there is no limit to it."""

    least: int
    estimate: int
    most: int | None


def events_between(earlier: Clock, later: Clock, branches_max: int | None = None) -> EventCount:
    """How many events the later version holds and the earlier one lacks: exact of two points of one chain.

    - `least` is true of any two versions: merged or not, an event adds at most k to the total.
    - A merge hides events: of branches with x and y events of their own at most min(x, y), on average ≤ k·x·y / N.
      `estimate` looks also at how many counters are still zero, which merges do not change; if none is, it is `least`.
    - `most` needs a limit: if never more than `branches_max` events are concurrent, so many chains cover the version,
      and none of them is longer than its total / k. Requires 1 or more. What seems to be before is taken for that.
    """
    joined, hashes = earlier.merge(later), later.parameters.hashes
    least = estimate = _ceiling(joined.total - earlier.total, hashes)
    zeros_before, zeros_after = (int(np.count_nonzero(clock.counters == 0)) for clock in (earlier, joined))
    if 0 < zeros_after < zeros_before:
        per_event = hashes * math.log1p(-1 / later.parameters.counters)
        estimate = max(least, round(math.log(zeros_after / zeros_before) / per_event))
    chains = branches_max if later.chain_events is None else 1
    if chains is None:
        return EventCount(least, estimate, None)
    common = _ceiling(earlier.total, hashes) if joined == later else 0
    most = max(least, chains * (later.total // hashes) - common)
    return EventCount(least, min(estimate, most), most)


def _ceiling(raises: int, hashes: int) -> int:
    return -(-raises // hashes)


def recommend(*, concurrent_events: int, chance_max: float, lacking_events: int = 1) -> Parameters:
    """The smallest clock that takes a version which lacks something for a later one with at most this chance.

    - Let A hold a chain of d = `lacking_events` events that B lacks, and B hold g = `concurrent_events` that are not in
      the past of the first of these. If nothing is known, d is 1, and g is all that B holds.
    - A merge never adds: a counter of B is at most what that past gives it, plus the raises by those g events. One of A
      is at least what that past gives it, plus the raises by those d. So A seems to be before B only if the k·g raises
      cover the k·d raises, counter by counter; the past that they share does not matter, however long.
    - One raise is covered with chance q = 1 - (1 - 1/N)^(k·g), and all of them with at most q^(k·d), because counters
      that share a fixed number of raises are negatively associated.
    - For each k that gives the least N. The fewest counters win, then the fewest hashes.
    """
    if not (0 < chance_max < 1 and concurrent_events >= 0 and lacking_events >= 1):
        raise ValueError("expected 0 < chance_max < 1, concurrent_events ≥ 0 and lacking_events ≥ 1")
    sizes = []
    for hashes in range(1, HASHES_MAX + 1):
        missed = -math.expm1(math.log(chance_max) / (hashes * lacking_events))
        log_untouched = math.log(missed) / (hashes * max(concurrent_events, 1))
        sizes.append(Parameters(math.ceil(1 / max(-math.expm1(log_untouched), _SHARE_MIN)), hashes))
    best = min(sizes)
    if best.counters > COUNTERS_MAX:
        raise ValueError(f"expected a chance that {COUNTERS_MAX} counters reach, got {chance_max}")
    return best
