"""Verdicts in words, for people."""

from collections.abc import Callable
from typing import Any

from state.config import Config
from state.verdict import (
    Accepted,
    AnyVerdict,
    BadIndex,
    BadUpdate,
    Belief,
    ClockSkew,
    Equivocation,
    Fork,
    Known,
    Limit,
    Missing,
    OneWay,
    Quarantine,
    Replica,
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


_DIVERGENCES = {
    "branch": "stands on one branch of it and lacks another",
    "clock": "has events that nobody published, and lacks others",
    "digest": "does not have the events that it says it has",
}
_FAULTS = {
    "malformed": "is malformed",
    "parameters": "has a stamp of other parameters than the swarm's",
    "stamp": "has a stamp that does not follow from what it builds on",
    "digest": "has a digest that does not follow from what it builds on",
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


def _replica(verdict: Replica, name: _Naming) -> str:
    about = "about " if verdict.by_clock else ""
    lacks, extra = f"{about}{verdict.lacks:,} of {verdict.events:,} events", f"{about}{verdict.extra:,} events"
    states = {
        "in_step": f"is in step, with {verdict.events:,} events",
        "behind": f"is behind by {lacks}",
        "ahead": f"is ahead by {extra} that nobody published",
        "diverged": f"has diverged: it {_DIVERGENCES.get(verdict.why, verdict.why)}"
        + (f" (lacks {lacks})" if verdict.lacks else ""),
    }
    who = f"the replica of {entity_name(verdict.entity)} at {name(verdict.author)}"
    return f"{who} {states.get(verdict.state, verdict.state)}"


def _bad_update(verdict: BadUpdate, name: _Naming) -> str:
    of = f" of {entity_name(verdict.entity)}" if verdict.entity else ""
    which = f"op {verdict.position + 1} of segment {verdict.index} of {name(verdict.author)}, an update{of},"
    told = f": {verdict.claimed}, expected {verdict.expected}" if verdict.expected else f": {verdict.claimed}"
    return f"{which} {_FAULTS.get(verdict.why, verdict.why)}{told}"


def entity_name(entity: str) -> str:
    """An entity's name for people: its text if it is plain printable ASCII, else the first of its hex digits."""
    try:
        text = bytes.fromhex(entity).decode("ascii")
    except ValueError:
        text = ""
    if text and text.isprintable() and text == text.strip():
        return f"'{text}'"
    return f"{entity[:16]}{'…' if len(entity) > 16 else ''}"


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
    Replica: _replica,
    BadUpdate: _bad_update,
}
