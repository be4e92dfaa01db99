"""What the changes of one author's log say, as verdicts: each in full, as it stands at the clock."""

from collections.abc import Iterator

from state.authorlog import LIMITS, AuthorLog, Odd
from state.limits import BRANCHES_MAX, CLAIMS_MAX, CLOCK_SKEW_MS_MAX, REFERRERS_MAX
from state.segment import Ref, decode_refs
from state.span import ClaimKey, Kept
from state.verdict import BadIndex, ClockSkew, Equivocation, Fork, Limit, Missing, Named, Signed, Verdict, key_of

Finding = tuple[str, Verdict | None]
"""A verdict under its key; None withdraws it."""

_SKEW_MS_SHOWN_MAX = (1 << 53) - 1
"""A peer's clock can say anything up to 2⁶⁴ ms; JSON readers agree on integers up to 2⁵³."""


class Findings:
    """Reads the changes of a log and says them. `passed_ms` is the clock less the grace."""

    def __init__(self, log: AuthorLog, config: str, passed_ms: int) -> None:
        self._log = log
        self._passed_ms = passed_ms
        self._author = log.author.hex()
        self._about = {"swarm": log.swarm.hex(), "config": config}

    def all(self) -> Iterator[Finding]:
        changes = self._log.changes
        for previous in sorted(changes.forks):
            yield from self._fork(previous)
        if changes.equivocation:
            yield self._equivocation()
        for index, head_id in sorted(changes.bad_indexes):
            yield self._bad_index(index, head_id)
        for claim in sorted(changes.missing):
            yield from self._missing(claim)
        if changes.skew:
            yield from self._clock_skew()
        for limit in sorted(changes.over):
            yield self._limit(self._author, limit, LIMITS[limit])
        for payer in sorted(changes.overclaimers):
            yield self._limit(payer.hex(), "claims", CLAIMS_MAX)

    def _key(self, kind: type[Verdict], *parts: str | int) -> str:
        return key_of(kind, self._about["swarm"], *parts)

    def _fork(self, previous: bytes) -> Iterator[Finding]:
        """SPEC: DESIGN, logs: two or more segments claim the same `previous`; branches sorted by id."""
        log = self._log
        indexes = set(log.state.forks.get(previous, ()))
        judged = [odd for odd in log.state.odd.get(previous, ()) if odd.judged]
        indexes |= {odd.index for odd in judged}
        indexes |= {odd.found + 1 for odd in judged if odd.found}
        branches = sorted((kept for index in indexes for kept in log.claimants(index, previous)), key=lambda k: k.id)
        if len(branches) < 2:
            return
        key = self._key(Fork, self._author, previous.hex())
        yield (
            key,
            Fork(
                key=key,
                author=self._author,
                previous=previous.hex(),
                branches=tuple(map(_signed, branches[:BRANCHES_MAX])),
                more=len(branches) > BRANCHES_MAX,
                **self._about,
            ),
        )

    def _equivocation(self) -> Finding:
        index = self._log.state.equivocation
        heads = sorted(self._log.heads_at(index), key=lambda kept: kept.id)
        key = self._key(Equivocation, self._author)
        evidence = (_signed(heads[0]), _signed(heads[1]))
        return key, Equivocation(key=key, author=self._author, index=index, evidence=evidence, **self._about)

    def _bad_index(self, index: int, head_id: bytes) -> Finding:
        log = self._log
        segment = log.kept(index, head_id)
        odd = next(odd for odd in log.state.odd[segment.previous] if odd.id == head_id)
        previous = log.kept(odd.found, segment.previous)
        key = self._key(BadIndex, self._author, head_id.hex())
        return key, BadIndex(
            key=key,
            author=self._author,
            segment=_signed(segment),
            previous=_signed(previous),
            index=index,
            previous_index=odd.found,
            **self._about,
        )

    def _missing(self, claimed: ClaimKey) -> Iterator[Finding]:
        """SPEC: DESIGN, verdicts: it waits until the clock is a grace past it, and is withdrawn when it comes."""
        log = self._log
        key = self._key(Missing, self._author, claimed.index, claimed.id.hex())
        claim = log.claim(claimed)
        if claim is not None and (claim.since_ms > self._passed_ms or log.is_before(claimed.index)):
            claim = None
        odds = [odd for odd in log.state.odd.get(claimed.id, ()) if self._waits_for(odd, claimed.index)]
        if claim is None and not odds:
            if claimed in log.changes.withdrawn:
                yield key, None
            return
        times_ms = [odd.seen_ms for odd in odds]
        names = {Ref(log.author, odd.index, odd.id).encode() for odd in odds}
        if claim is not None:
            log.report(claimed)
            times_ms.append(claim.since_ms)
            names |= set(claim.referrers)
        for odd in odds:
            odd.reported = True
        referrers = decode_refs(b"".join(sorted(names)[:REFERRERS_MAX]))
        yield (
            key,
            Missing(
                key=key,
                author=self._author,
                index=claimed.index,
                id=claimed.id.hex(),
                since_ms=min(times_ms),
                disputed=bool(log.heads_at(claimed.index)),
                referrers=tuple(Named(ref.author.hex(), ref.index, ref.id.hex()) for ref in referrers),
                more=len(names) > REFERRERS_MAX,
                **self._about,
            ),
        )

    @staticmethod
    def _waits_for(odd: Odd, index: int) -> bool:
        """Whether an odd head's `previous`, at `index`, is held nowhere."""
        return odd.judged and not odd.found and odd.index == index + 1

    def _clock_skew(self) -> Iterator[Finding]:
        state = self._log.state
        ahead_ms, behind_ms = (
            min(skew_ms, _SKEW_MS_SHOWN_MAX) if skew_ms is not None and skew_ms > CLOCK_SKEW_MS_MAX else 0
            for skew_ms in (state.ahead_ms, state.behind_ms)
        )
        key = self._key(ClockSkew, self._author)
        if ahead_ms or behind_ms:
            state.skewed = True
            yield key, ClockSkew(key=key, author=self._author, ahead_ms=ahead_ms, behind_ms=behind_ms, **self._about)
        elif state.skewed:
            state.skewed = False
            yield key, None

    def _limit(self, author: str, limit: str, maximum: int) -> Finding:
        key = self._key(Limit, author, limit)
        return key, Limit(key=key, author=author, limit=limit, maximum=maximum, **self._about)


def _signed(kept: Kept) -> Signed:
    return Signed(kept.id.hex(), kept.head.hex(), kept.signature.hex(), kept.seen_ms)
