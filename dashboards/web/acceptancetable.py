"""How far segments come, by rule: how many peers it takes, how many segments came so far, and how fast."""

from collections.abc import Iterator, Mapping

from dashboards.spread import Tally
from dashboards.web.markup import Content, Html
from dashboards.web.snapshot import SwarmSnapshot
from dashboards.web.tables import table
from dashboards.web.timewords import ago

_CAPTION = (
    "Segments that became known, and accepted, by each rule, and how long that took half and 99 % of them, at most. "
    "Counted by Kafka’s clock, from the segment to the signature that made it so."
)
_HEADERS = ("Rule", "Peers needed", "Liars tolerated", "Segments", "Half within", "99 % within", "Newest")


def acceptance_table(swarm: SwarmSnapshot, now_ms: int) -> Html:
    """Two rows for each rule of the epoch."""
    label = f"Acceptance in swarm {swarm.swarm.name}"
    numbers = frozenset(range(1, len(_HEADERS) - 1))
    return table(label, _CAPTION, _HEADERS, list(_rows(swarm, now_ms)), numbers=numbers)


def within_s(tally: Tally, percent: int) -> float | None:
    """The least bound of the buckets within which so many were, an upper bound of the percentile; infinite beyond the
    last one. None if there are no values.
    """
    bounds, cumulative, _ = tally.latency
    total = cumulative[-1]
    if not total:
        return None
    return next(bound for bound, count in zip(bounds, cumulative, strict=True) if 100 * count >= percent * total)


def _rows(swarm: SwarmSnapshot, now_ms: int) -> Iterator[tuple[Content, ...]]:
    for rule in swarm.epoch.thresholds:
        who, needed = f"{rule.name} peers" if rule.name.isdigit() else rule.name, f"{rule.k:,} of {rule.n:,}"
        yield f"known to {who}", needed, "–", *_spread(swarm.known, rule.name, now_ms)
        yield f"accepted by {who}", needed, f"{rule.tolerates:,}", *_spread(swarm.accepted, rule.name, now_ms)


def _spread(tallies: Mapping[str, Tally], rule: str, now_ms: int) -> tuple[str, str, str, str]:
    tally = tallies.get(rule)
    if tally is None:
        return "0", "–", "–", "none yet"
    return f"{tally.segments:,}", _within(tally, 50), _within(tally, 99), ago(tally.newest_ms, now_ms)


def _within(tally: Tally, percent: int) -> str:
    bound_s = within_s(tally, percent)
    if bound_s is None:
        return "–"
    return f"≤ {bound_s:g} s" if bound_s != float("inf") else f"> {tally.latency.bounds[-2]:g} s"
