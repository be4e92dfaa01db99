"""When what a verdict says became so: what a monitor could have said at each moment, from the verdict that is left.

Rules:
- A verdict is a join of what was found at several moments; each of these, in order, with what held from then on.
- The times are record times, as all times of verdicts. A monitor says it some seconds later.
- What leaves no time is told at the end: limits, quarantines, clocks that are off.
- What was taken back leaves nothing: a missing segment that came, the sides of a split between its opening and its end,
  and how a replica stood before its newest update.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from state.verdict import (
    Accepted,
    BadIndex,
    BadUpdate,
    Belief,
    Episode,
    Equivocation,
    Fork,
    Known,
    Missing,
    Replica,
    Split,
    Verdict,
    versions_of,
)


class Moment(NamedTuple):
    """From `time_ms` on this was so; None if the verdict leaves no time."""

    time_ms: int | None
    verdict: Verdict


def moments(verdict: Verdict, grace_ms: int) -> Iterator[Moment]:
    """What a verdict told, moment by moment; `grace_ms` is how long its swarm waits for a missing segment."""
    match verdict:
        case Known() | Accepted():
            yield Moment(verdict.done_ms, verdict)
        case Fork():
            times_ms = sorted(branch.seen_ms for branch in verdict.branches)
            for time_ms in dict.fromkeys(times_ms[1:]):
                branches = tuple(branch for branch in verdict.branches if branch.seen_ms <= time_ms)
                yield Moment(time_ms, msgspec.structs.replace(verdict, branches=branches))
        case Equivocation():
            yield Moment(max(head.seen_ms for head in versions_of(verdict)), verdict)
        case BadIndex():
            yield Moment(max(verdict.segment.seen_ms, verdict.previous.seen_ms), verdict)
        case Missing():
            yield Moment(verdict.since_ms + grace_ms, verdict)
        case Belief():
            for time_ms in sorted({one.since_ms for one in verdict.believers}):
                believers = tuple(one for one in verdict.believers if one.since_ms <= time_ms)
                yield Moment(time_ms, msgspec.structs.replace(verdict, believers=believers))
        case Episode():
            yield from _episode(verdict)
        case Replica():
            yield Moment(max(verdict.stated_ms, verdict.since_ms), verdict)
        case BadUpdate():
            yield Moment(verdict.seen_ms, verdict)
        case _:
            yield Moment(None, verdict)


def _episode(verdict: Episode) -> Iterator[Moment]:
    opening = msgspec.structs.replace(verdict, ended_ms=None, updated_ms=verdict.opened_ms)
    if isinstance(opening, Split):
        opening = msgspec.structs.replace(opening, sides=opening.sides_opening)
    yield Moment(verdict.opened_ms, opening)
    if verdict.updated_ms > verdict.opened_ms or verdict.ended_ms is not None:
        yield Moment(verdict.updated_ms, verdict)
