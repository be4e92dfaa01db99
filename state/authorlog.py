"""One author's log: every head it signed, on all branches, and what follows from them.

Rules (SPEC: DESIGN, logs), each a function of the set of heads and refs and of the clock, never of their order:
- A head is *regular* if its `previous` is held at its index minus one (or its index is 1); else it is *odd*.
- Two heads with one index are an equivocation. Two heads with one `previous` and one index are a fork.
- An odd head is judged when the clock is a grace past its record time. If its `previous` is held at another index,
  its index is bad, and it is one more branch of the fork at `previous`. If it is held nowhere, `previous` is missing.
- A ref to a noop that is not held is a claim; when the clock is a grace past its earliest referrer, it is missing.
- What was missing and comes is withdrawn. Nothing else is ever taken back.
- A head over a limit is dropped, and a verdict says which limit.
- Where the configuration says `since`, a log begins with the lowest index of which a copy was written from then on, and
  while there is none it has not begun. What is below counts as held, and the head that it begins with is regular.
"""

from collections.abc import Iterable, Iterator

import msgspec

from state.fold import Archive
from state.limits import BRANCHES_MAX, CLAIMS_MAX, SPAN_RUNS_MAX, SPAN_SEGMENTS_MAX, UNRESOLVED_MAX
from state.span import Claim, ClaimKey, Kept, Span, span_of
from state.spanstore import SpanState, SpanStore

SCAN_SPANS_MAX = 4096
"""Spans that are searched for a `previous` that is not where it should be: 262,144 segments, about two seconds."""

INDEX_END = 1 << 64
"""Behind every index."""

LIMITS = {
    "branches": BRANCHES_MAX,
    "unresolved": UNRESOLVED_MAX,
    "span": SPAN_SEGMENTS_MAX,
    "runs": SPAN_RUNS_MAX,
    "scan": SCAN_SPANS_MAX,
}


class Odd(msgspec.Struct, array_like=True):
    """A head whose `previous` is not held at its index minus one. `found` is the index where it is held, or 0."""

    index: int
    id: bytes
    seen_ms: int
    found: int = 0
    judged: bool = False
    reported: bool = False


class LogState(msgspec.Struct, array_like=True):
    """What the blob keeps of a log."""

    heads: int = 0
    spans: SpanState = msgspec.field(default_factory=SpanState)
    odd: dict[bytes, list[Odd]] = {}
    forks: dict[bytes, list[int]] = {}
    """By `previous`: the indexes at which two or more heads claim it."""
    branches: int = 1
    equivocation: int = 0
    """The least index with two heads, or 0."""
    ahead_ms: int | None = None
    behind_ms: int | None = None
    skewed: bool = False
    over: list[str] = []
    """Names of the limits that were hit."""
    begins: int = 0
    """Where the configuration says `since`: the index that the log begins with, or 0."""


class Changes:
    """What a batch has changed about a log, to be said once when the batch is over."""

    def __init__(self) -> None:
        self.forks: set[bytes] = set()
        self.missing: set[ClaimKey] = set()
        self.withdrawn: set[ClaimKey] = set()
        self.bad_indexes: set[tuple[int, bytes]] = set()
        self.equivocation = False
        self.skew = False
        self.over: set[str] = set()
        self.overclaimers: set[bytes] = set()


class AuthorLog:
    """One author's log. `claims_of` counts the open claims that each peer has made within the shard."""

    def __init__(
        self,
        swarm: bytes,
        author: bytes,
        state: LogState,
        archive: Archive,
        claims_of: dict[bytes, int],
        *,
        since: bool = False,
    ) -> None:
        self.swarm = swarm
        self.author = author
        self.state = state
        self.changes = Changes()
        self._since = since
        self._spans = SpanStore(swarm, author, state.spans, archive, self.is_before)
        self._claims_of = claims_of

    # What is held

    def is_before(self, index: int) -> bool:
        """Whether what stands at an index was published before what is judged, and so counts as held."""
        return self._since and (not self.state.begins or index < self.state.begins)

    def holds(self, index: int, head_id: bytes) -> bool:
        span = self._span_at(index)
        return span is not None and span.holds(index, head_id)

    def claimants(self, index: int, previous: bytes) -> list[Kept]:
        """The heads at `index` that claim `previous`."""
        span = self._span_at(index)
        return span.at(index, previous) if span else []

    def heads_at(self, index: int) -> list[Kept]:
        span = self._span_at(index)
        return span.by_index.get(index, []) if span else []

    def claim(self, key: ClaimKey) -> Claim | None:
        span = self._span_at(key.index)
        return span.claims.get(key) if span else None

    def kept(self, index: int, head_id: bytes) -> Kept:
        return self._spans.span(span_of(index)).heads[head_id]

    def _span_at(self, index: int) -> Span | None:
        number = span_of(index)
        return self._spans.span(number) if self._spans.knows(number) else None

    # What comes

    def add_head(self, kept: Kept) -> bool:
        """Take in a head; False if it was held before (then its earliest time and least signature stay)."""
        number = span_of(kept.index)
        span = self._spans.span(number)
        held = span.heads.get(kept.id)
        if held is not None:
            self._merge(number, held, kept)
            return False
        previous = kept.previous
        regular = self._is_regular(kept)
        siblings = kept.index in span.by_index
        branches = bool(previous in self.state.odd or (siblings and span.at(kept.index, previous)))
        if not self._fits(number, span, regular=regular, branches=branches):
            return True
        span.add(kept)
        self._spans.touch(number)
        self.state.heads += 1
        if siblings:
            self._add_sibling(kept, span)
        if not regular:
            self._add_odd(kept)
        if previous in self.state.forks or previous in self.state.odd:
            self.changes.forks.add(previous)
        if kept.id in self.state.odd:
            self._add_parent(kept)
        if span.claims or self.state.odd:
            self._settle_claims(kept, span)
        self._note_skew(kept.time_ms, kept.seen_ms)
        return True

    def begin_at(self, index: int) -> None:
        """A copy of a head at this index was written when all is there. Requires `since`.

        If the log began with a higher one, or had not begun, what was below that has to have a parent now.
        """
        state = self.state
        before = state.begins or INDEX_END
        if index >= before:
            return
        state.begins = index
        for number in [n for n in self._spans.numbers() if span_of(index) <= n <= span_of(before)]:
            for kept in list(self._spans.span(number).heads.values()):
                if index < kept.index <= before and not self._is_regular(kept):
                    self._add_odd(kept)
        self._spans.note_claims(span_of(index), span_of(before))

    def add_ref(self, index: int, noop_id: bytes, referrer: bytes, seen_ms: int) -> None:
        """Take in that `referrer` (an encoded Ref) names a noop of this author."""
        if index < 1 or self.holds(index, noop_id):
            return
        number, key = span_of(index), ClaimKey(index, noop_id)
        span = self._spans.span(number)
        claim = span.claims.get(key)
        if claim is None:
            payer = referrer[:32]
            if self._claims_of.get(payer, 0) >= CLAIMS_MAX:
                self.changes.overclaimers.add(payer)
                return
            self._claims_of[payer] = self._claims_of.get(payer, 0) + 1
            claim = span.claims[key] = Claim(payer, seen_ms)
        if claim.add(referrer, seen_ms):
            self._spans.touch(number)
            self.changes.missing.add(key)

    def judge(self, passed_ms: int) -> bool:
        """Judge the odd heads and claims of a time up to `passed_ms`, whose grace is over; whether there were any."""
        due = [
            (previous, odd)
            for previous, odds in self.state.odd.items()
            for odd in odds
            if not odd.judged and odd.seen_ms <= passed_ms
        ]
        if due:
            self._judge_odd(due)
        claimed = self._spans.claimed_up_to(passed_ms)
        for number in claimed:
            for key, claim in self._spans.span(number).claims.items():
                if not claim.reported and claim.since_ms <= passed_ms and not self.is_before(key.index):
                    self.changes.missing.add(key)
        return bool(due or claimed)

    # What must always hold

    def problems(self) -> Iterator[str]:
        """What is wrong with what the blob keeps."""
        yield from self._spans.problems()
        if self.state.branches > BRANCHES_MAX:
            yield f"{self.state.branches} branches are over the limit"
        if self.state.forks and not self.state.equivocation:
            yield "a fork at one index without an equivocation"

    def problems_in_spans(self, claims: dict[bytes, int]) -> Iterator[str]:
        """What is wrong with the spans, all of which this reads; adds up in `claims` who pays for how many."""
        state = self.state
        for previous, odds in state.odd.items():
            for odd in odds:
                if not self.holds(odd.index, odd.id) or self.holds(odd.index - 1, previous):
                    yield f"the head at {odd.index} is not held, or is not odd"
        for previous, indexes in state.forks.items():
            if any(len(self.claimants(index, previous)) < 2 for index in indexes):
                yield "a fork has fewer than two branches"
        if state.equivocation and len(self.heads_at(state.equivocation)) < 2:
            yield f"the equivocation at {state.equivocation} has fewer than two heads"
        claimed = state.spans.claimed
        spans = {number: self._spans.span(number) for number in {*self._spans.numbers(), *claimed}}
        if sum(len(span.heads) for span in spans.values()) != state.heads:
            yield f"the spans do not hold {state.heads} heads"
        for number, span in spans.items():
            if bool(span.claims) != (number in claimed):
                yield f"span {number} and the list of claimed spans disagree"
            for key, claim in span.claims.items():
                claims[claim.payer] = claims.get(claim.payer, 0) + 1
                if span.holds(key.index, key.id):
                    yield f"the claim at {key.index} is held"

    # What is kept for the next batch

    def report(self, key: ClaimKey) -> Claim:
        """Note that a verdict says that this claim is missing. Requires that there is such a claim."""
        claim = self._spans.span(span_of(key.index)).claims[key]
        if not claim.reported:
            claim.reported = True
            self._spans.touch(span_of(key.index))
        return claim

    def flush(self) -> None:
        """The batch is over and its changes are said: write what was changed."""
        self.changes = Changes()
        self._spans.flush()

    def spill(self) -> None:
        """Make the blob smaller. Requires that `flush` was called."""
        self._spans.spill()

    # How a head changes what is known

    def _fits(self, number: int, span: Span, *, regular: bool, branches: bool) -> bool:
        """Whether one more head is within the limits; if so it is counted."""
        state = self.state
        if branches and state.branches >= BRANCHES_MAX:
            return self._hit("branches")
        if not regular and sum(map(len, state.odd.values())) >= UNRESOLVED_MAX:
            return self._hit("unresolved")
        if len(span.heads) >= SPAN_SEGMENTS_MAX:
            return self._hit("span")
        if not self._spans.has_heads(number) and not self._spans.open_heads(number):
            return self._hit("runs")
        state.branches += branches
        return True

    def _is_regular(self, kept: Kept) -> bool:
        before = kept.index - 1
        return kept.index == 1 or self.is_before(before) or self.holds(before, kept.previous)

    def _add_odd(self, kept: Kept) -> None:
        self.state.odd.setdefault(kept.previous, []).append(Odd(kept.index, kept.id, kept.seen_ms))

    def _add_sibling(self, kept: Kept, span: Span) -> None:
        """Another head has the same index: an equivocation, and a fork if it has the same `previous` too."""
        if not self.state.equivocation or kept.index <= self.state.equivocation:
            self.state.equivocation = kept.index
            self.changes.equivocation = True
        previous = kept.previous
        if len(span.at(kept.index, previous)) > 1:
            indexes = self.state.forks.setdefault(previous, [])
            if kept.index not in indexes:
                indexes.append(kept.index)

    def _add_parent(self, kept: Kept) -> None:
        """Odd heads claim this one as `previous`: at the next index they are regular now, elsewhere they are bad."""
        self.changes.forks.add(kept.id)
        odds = self.state.odd.pop(kept.id)
        for odd in odds:
            odd.found = kept.index
            if odd.reported:
                self.changes.withdrawn.add(ClaimKey(odd.index - 1, kept.id))
                self.changes.missing.add(ClaimKey(odd.index - 1, kept.id))
            if odd.judged and odd.index != kept.index + 1:
                self.changes.bad_indexes.add((odd.index, odd.id))
        remaining = [odd for odd in odds if odd.index != kept.index + 1]
        if remaining:
            self.state.odd[kept.id] = remaining

    def _settle_claims(self, kept: Kept, span: Span) -> None:
        """A claim to this head is settled; claims to another head at its index are disputed now."""
        key = ClaimKey(kept.index, kept.id)
        claim = span.claims.pop(key, None)
        if claim is not None:
            self._claims_of[claim.payer] -= 1
            if not self._claims_of[claim.payer]:
                del self._claims_of[claim.payer]
            if claim.reported:
                self.changes.withdrawn.add(key)
                self.changes.missing.add(key)
        self.changes.missing |= {other for other in span.claims if other.index == kept.index}
        self.changes.missing |= {
            ClaimKey(kept.index, previous)
            for previous, odds in self.state.odd.items()
            if any(odd.judged and odd.index == kept.index + 1 for odd in odds)
        }

    def _merge(self, number: int, held: Kept, copy: Kept) -> None:
        """Another copy of a head that is held: keep the earliest record time and the least signature."""
        if copy.seen_ms >= held.seen_ms and copy.signature >= held.signature:
            return
        held.seen_ms = min(held.seen_ms, copy.seen_ms)
        held.signature = min(held.signature, copy.signature)
        self._spans.touch(number)
        self._note_skew(held.time_ms, held.seen_ms)
        state, previous = self.state, held.previous
        self.changes.equivocation |= held.index == state.equivocation
        if previous in state.forks or previous in state.odd:
            self.changes.forks.add(previous)
        for odd in state.odd.get(previous, ()):
            if odd.id == held.id:
                odd.seen_ms = held.seen_ms
                self._note_judged(previous, odd)
        for odd in state.odd.get(held.id, ()):
            self._note_judged(held.id, odd)

    def _note_judged(self, previous: bytes, odd: Odd) -> None:
        if odd.judged and odd.found:
            self.changes.bad_indexes.add((odd.index, odd.id))
        elif odd.judged:
            self.changes.missing.add(ClaimKey(odd.index - 1, previous))

    def _judge_odd(self, due: list[tuple[bytes, Odd]]) -> None:
        found = self._find({previous for previous, odd in due if not odd.found})
        for previous, odd in due:
            odd.judged = True
            odd.found = odd.found or found.get(previous, 0)
            self.changes.forks.add(previous)
            self._note_judged(previous, odd)

    def _find(self, wanted: Iterable[bytes]) -> dict[bytes, int]:
        """The indexes of those of `wanted` that are held anywhere in the log."""
        found: dict[bytes, int] = {}
        missing = set(wanted)
        for searched, number in enumerate(self._spans.numbers()):
            if not missing:
                break
            if searched == SCAN_SPANS_MAX:
                self._hit("scan")
                break
            heads = self._spans.peek(number).heads
            found |= {head_id: heads[head_id].index for head_id in missing & heads.keys()}
            missing -= found.keys()
        return found

    def _note_skew(self, time_ms: int, seen_ms: int) -> None:
        state, ahead = self.state, time_ms - seen_ms
        if state.ahead_ms is None or ahead > state.ahead_ms:
            state.ahead_ms = ahead
            self.changes.skew = True
        if state.behind_ms is None or -ahead < state.behind_ms:
            state.behind_ms = -ahead
            self.changes.skew = True

    def _hit(self, limit: str) -> bool:
        if limit not in self.state.over:
            self.state.over.append(limit)
            self.changes.over.add(limit)
        return False
