"""Verdicts in words, for people."""

from collections.abc import Callable
from typing import Any

from state.config import Config
from state.verdict import (
    Accepted,
    AnyVerdict,
    BadIndex,
    Belief,
    ClockSkew,
    Equivocation,
    Fork,
    Known,
    Limit,
    Missing,
    OneWay,
    Quarantine,
    Silent,
    Split,
    Spread,
    Undecidable,
    Verdict,
)

_Naming = Callable[[str], str]
"""Gives the name of a peer for the hex digits of its key."""

_SUSPICIONS = {
    "forked": "signed a story for each side",
    "withheld": "tells one side a story that it does not publish",
    "silent": "fell silent between them",
    "one_way": "is linked to both one way only",
}


def describe(verdict: AnyVerdict, config: Config) -> str:
    """One sentence that says what a verdict says, with the names of the configuration."""
    swarm = config.swarm(verdict.swarm)
    names = {author.hex(): name for author, name in swarm.authors.items()} if swarm else {}
    return _SENTENCES[type(verdict)](verdict, lambda author: names.get(author, author[:16]))


def _fork(verdict: Fork, name: _Naming) -> str:
    many = f"{len(verdict.branches)}{' or more' if verdict.more else ''}"
    after = f"after segment {verdict.previous[:12]}" if verdict.previous.strip("0") else "at its very beginning"
    return f"{name(verdict.author)} forked its log {after}: {many} branches"


def _equivocation(verdict: Equivocation, name: _Naming) -> str:
    ids = " and ".join(head.id[:12] for head in verdict.evidence)
    return f"{name(verdict.author)} signed two segments with index {verdict.index}: {ids}"


def _missing(verdict: Missing, name: _Naming) -> str:
    who = ", ".join(sorted({name(referrer.author) for referrer in verdict.referrers}))
    disputed = "; another segment stands there, so one story is withheld" if verdict.disputed else ""
    return f"{_segment(verdict, name)}, named by {who}, is missing{disputed}"


def _bad_index(verdict: BadIndex, name: _Naming) -> str:
    return (
        f"{name(verdict.author)} signed index {verdict.index} right after index {verdict.previous_index} "
        f"(segment {verdict.segment.id[:12]})"
    )


def _clock_skew(verdict: ClockSkew, name: _Naming) -> str:
    way, skew_ms = ("ahead", verdict.ahead_ms) if verdict.ahead_ms else ("behind", verdict.behind_ms)
    return f"the clock of {name(verdict.author)} is {skew_ms / 1000:,.0f} s {way}"


def _limit(verdict: Limit, name: _Naming) -> str:
    return f"{name(verdict.author)} went over the limit of {verdict.maximum} {verdict.limit}"


def _quarantine(verdict: Quarantine, _: _Naming) -> str:
    return f"the fold {verdict.fold} failed on key {verdict.fold_key}: {verdict.error}"


def _known(verdict: Known, name: _Naming) -> str:
    return _spread(verdict, name, "known to", verdict.known_ms)


def _accepted(verdict: Accepted, name: _Naming) -> str:
    return _spread(verdict, name, "accepted by", verdict.accepted_ms)


def _spread(verdict: Spread, name: _Naming, done: str, at_ms: int) -> str:
    took = f"{(at_ms - verdict.published_ms) / 1000:.1f} s after it was published"
    return f"{_segment(verdict, name)} is {done} {verdict.k} of {verdict.n} peers ({verdict.rule}), {took}"


def _belief(verdict: Belief, name: _Naming) -> str:
    who = ", ".join(sorted(name(believer.author) for believer in verdict.believers))
    return f"the branch of {name(verdict.author)} that begins with {verdict.branch[:12]} is believed by {who}"


def _split(verdict: Split, name: _Naming) -> str:
    sides = " | ".join(", ".join(sorted(map(name, side))) for side in verdict.sides)
    suspects = "".join(f"; {name(one.author)} {_SUSPICIONS.get(one.why, one.why)}" for one in verdict.suspects)
    if verdict.ended_ms is None:
        return f"the swarm is split: {sides}{suspects}"
    return f"the swarm was split for {_lasted(verdict.opened_ms, verdict.ended_ms)}: {sides}{suspects}"


def _silent(verdict: Silent, name: _Naming) -> str:
    if verdict.ended_ms is None:
        return f"{name(verdict.author)} is silent"
    return f"{name(verdict.author)} was silent for {_lasted(verdict.since_ms, verdict.ended_ms)}"


def _one_way(verdict: OneWay, name: _Naming) -> str:
    way = "hears the others and is not heard" if verdict.direction == "hears" else "is heard and hears nobody"
    over = "" if verdict.ended_ms is None else f", over after {_lasted(verdict.opened_ms, verdict.ended_ms)}"
    return f"{name(verdict.author)} {way}{over}"


def _undecidable(verdict: Undecidable, _: _Naming) -> str:
    over = "" if verdict.ended_ms is None else f", over after {_lasted(verdict.opened_ms, verdict.ended_ms)}"
    return (
        f"whether the swarm is split cannot be told: its peers sign every {verdict.interval_ms / 1000:g} s, "
        f"and split_after is {verdict.split_after_ms / 1000:g} s; set it to three intervals or more{over}"
    )


def _segment(verdict: Missing | Spread, name: _Naming) -> str:
    return f"segment {verdict.index} ({verdict.id[:12]}) of {name(verdict.author)}"


def _lasted(since_ms: int, until_ms: int) -> str:
    return f"{(until_ms - since_ms) / 1000:.0f} s"


_SENTENCES: dict[type[Verdict], Callable[[Any, _Naming], str]] = {
    Fork: _fork,
    Equivocation: _equivocation,
    Missing: _missing,
    BadIndex: _bad_index,
    ClockSkew: _clock_skew,
    Limit: _limit,
    Quarantine: _quarantine,
    Known: _known,
    Accepted: _accepted,
    Belief: _belief,
    Split: _split,
    Silent: _silent,
    OneWay: _one_way,
    Undecidable: _undecidable,
}
