"""Where the spans of one log stand: the open one in the blob, the others in the archive, those in use in memory.

A batch writes the spans that it changed, each once. The newest span with heads is *open*: it grows with almost every
batch, so it stays in the blob, which is written anyway; when a newer one opens, it goes to the archive.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec

from state.fold import Archive
from state.limits import SPAN_RUNS_MAX
from state.span import Span, unpack_span

NEVER = (1 << 63) - 1


class SpanState(msgspec.Struct, array_like=True):
    """What the blob keeps of the spans."""

    open_span: int = -1
    open_bytes: bytes = b""
    runs: list[tuple[int, int]] = []
    """The spans that hold heads, as half-open stretches."""
    claimed: dict[int, int] = {}
    """The spans that hold claims, each with the time of the earliest one that was not reported, or NEVER."""


class SpanStore:
    """The spans of one author's log, loaded when they are asked for."""

    def __init__(
        self, swarm: bytes, author: bytes, state: SpanState, archive: Archive, is_before: Callable[[int], bool]
    ) -> None:
        self.state = state
        self._is_before = is_before
        """Whether what stands at an index counts as held, so that a claim to it is not to be reported."""
        self._swarm = swarm
        self._author = author
        self._archive = archive
        self._spans: dict[int, Span] = {}
        self._dirty: set[int] = set()
        self._archived: set[int] = set()
        """Spans that were read from the archive since the last flush."""

    def span(self, number: int) -> Span:
        """The span with this number, kept in memory until `flush`; a new one if there is none."""
        span = self._spans.get(number)
        if span is None:
            span = self._spans[number] = self._load(number)
        return span

    def peek(self, number: int) -> Span:
        """The span with this number, to look at only: a search must not fill the memory."""
        return self._spans.get(number) or self._load(number)

    def knows(self, number: int) -> bool:
        """Whether there is such a span: looking into the archive costs time."""
        return number in self._spans or number in self.state.claimed or self.has_heads(number)

    def numbers(self) -> Iterator[int]:
        """The numbers of the spans that hold heads, the newest first."""
        for start, stop in reversed(self.state.runs):
            yield from range(stop - 1, start - 1, -1)

    def has_heads(self, number: int) -> bool:
        runs = self.state.runs
        at = bisect_right(runs, (number, NEVER)) - 1
        return at >= 0 and number < runs[at][1]

    def open_heads(self, number: int) -> bool:
        """Let a span hold heads; False if there are too many stretches already. Requires that it holds none yet."""
        runs = self.state.runs
        at = bisect_right(runs, (number, NEVER))
        first, last = at, at
        start, stop = number, number + 1
        if at > 0 and runs[at - 1][1] == number:
            first, start = at - 1, runs[at - 1][0]
        if at < len(runs) and runs[at][0] == stop:
            last, stop = at + 1, runs[at][1]
        if first == last and len(runs) >= SPAN_RUNS_MAX:
            return False
        runs[first:last] = [(start, stop)]
        return True

    def touch(self, number: int) -> None:
        """Note that a span in memory was changed."""
        self._dirty.add(number)

    def claimed_up_to(self, passed_ms: int) -> list[int]:
        """The spans with a claim of a time up to `passed_ms` that was not reported."""
        return [number for number, since_ms in self.state.claimed.items() if since_ms <= passed_ms]

    def note_claims(self, first: int, last: int) -> None:
        """Look at the claims of these spans again: which of them count as held has changed."""
        for number in [number for number in self.state.claimed if first <= number <= last]:
            self.span(number)
            self._note_claims(number)

    def flush(self) -> None:
        """Write every changed span, and keep only the open one in memory."""
        for number in self._dirty:
            self._note_claims(number)
        newest = max((number for number in self._dirty if self._spans[number].heads), default=-1)
        if newest > self.state.open_span:
            self._dirty.discard(self.state.open_span)
            self._archive_open()
            self.state.open_span = newest
            if newest in self._archived:  # it stands in the blob from now on, and nowhere else
                del self._archive[self._name(newest)]
        for number in self._dirty:
            packed = self._spans[number].pack()
            if number == self.state.open_span:
                self.state.open_bytes = packed
            else:
                self._archive[self._name(number)] = packed
        self._dirty.clear()
        self._archived.clear()
        self._spans = {number: span for number, span in self._spans.items() if number == self.state.open_span}

    def spill(self) -> None:
        """Move the open span to the archive: the blob has grown too large. Requires that `flush` was called."""
        self._archive_open()
        self.state.open_span, self.state.open_bytes = -1, b""

    def problems(self) -> Iterator[str]:
        """What is wrong with what the blob keeps."""
        runs = self.state.runs
        if any(one[1] >= other[0] for one, other in pairwise(runs)) or len(runs) > SPAN_RUNS_MAX:
            yield "stretches of spans touch, are not sorted, or are too many"
        if self.state.open_span >= 0 and not self.has_heads(self.state.open_span):
            yield f"the open span {self.state.open_span} is in no stretch"

    def _note_claims(self, number: int) -> None:
        claims = self._spans[number].claims
        if claims:
            open_ms = (c.since_ms for key, c in claims.items() if not c.reported and not self._is_before(key.index))
            self.state.claimed[number] = min(open_ms, default=NEVER)
        else:
            self.state.claimed.pop(number, None)

    def _archive_open(self) -> None:
        number = self.state.open_span
        if number >= 0:
            span = self._spans.pop(number, None)
            self._archive[self._name(number)] = span.pack() if span else self.state.open_bytes

    def _name(self, number: int) -> bytes:
        return self._author + number.to_bytes(8)

    def _load(self, number: int) -> Span:
        if not self.knows(number):
            return Span()
        if number == self.state.open_span:
            return unpack_span(self.state.open_bytes, self._swarm, self._author)
        packed = self._archive.get(self._name(number))
        if packed is None:
            return Span()
        self._archived.add(number)
        return unpack_span(packed, self._swarm, self._author)
