"""Verdicts in words, for people."""

from state.config import Config
from state.verdict import AnyVerdict, BadIndex, ClockSkew, Equivocation, Fork, Limit, Missing, Quarantine


def describe(verdict: AnyVerdict, config: Config) -> str:
    """One sentence that says what a verdict says, with the names of the configuration."""

    def name(author: str) -> str:
        swarm = config.swarm(verdict.swarm)
        return swarm.authors.get(bytes.fromhex(author), author[:16]) if swarm else author[:16]

    match verdict:
        case Fork():
            many = f"{len(verdict.branches)}{' or more' if verdict.more else ''}"
            after = f"after segment {verdict.previous[:12]}" if int(verdict.previous, 16) else "at its very beginning"
            return f"{name(verdict.author)} forked its log {after}: {many} branches"
        case Equivocation():
            ids = " and ".join(head.id[:12] for head in verdict.evidence)
            return f"{name(verdict.author)} signed two segments with index {verdict.index}: {ids}"
        case Missing():
            who = ", ".join(sorted({name(referrer.author) for referrer in verdict.referrers}))
            disputed = "; another segment stands there, so one story is withheld" if verdict.disputed else ""
            what = f"segment {verdict.index} ({verdict.id[:12]}) of {name(verdict.author)}"
            return f"{what}, named by {who}, is missing{disputed}"
        case BadIndex():
            return (
                f"{name(verdict.author)} signed index {verdict.index} right after index {verdict.previous_index} "
                f"(segment {verdict.segment.id[:12]})"
            )
        case ClockSkew():
            way, skew_ms = ("ahead", verdict.ahead_ms) if verdict.ahead_ms else ("behind", verdict.behind_ms)
            return f"the clock of {name(verdict.author)} is {skew_ms / 1000:,.0f} s {way}"
        case Limit():
            return f"{name(verdict.author)} went over the limit of {verdict.maximum} {verdict.limit}"
        case Quarantine():
            return f"the fold {verdict.fold} failed on key {verdict.fold_key}: {verdict.error}"
