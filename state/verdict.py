"""Verdicts: findings with a deterministic key, as JSON, and how two of one key join to one.

Kafka's compaction keeps the last record of a key, so each verdict written holds the join of all before it. `join` is
associative, commutative and idempotent, so it does not matter in which order, or how often, the parts were found.
Bytes are lower-case hex digits, times are milliseconds since 1970. The published schema is docs/verdicts.schema.json.
"""

from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from state.limits import BRANCHES_MAX, REFERRERS_MAX


class Signed(msgspec.Struct, frozen=True, order=True):
    """A head with its author's signature: evidence by itself. `seen_ms` is the record time of its earliest copy."""

    id: str
    head: str
    signature: str
    seen_ms: int


class Named(msgspec.Struct, frozen=True, order=True):
    """A noop by its name."""

    author: str
    index: int
    id: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What every verdict says; `config` is the digest of the configuration it was judged by."""

    key: str
    swarm: str
    config: str


class Fork(Verdict, frozen=True, kw_only=True, tag="fork"):
    """Two or more segments of one author claim the same `previous`; the branches are sorted by id.

    At most 64 are listed, those with the least ids; `more` says that there are others.
    """

    author: str
    previous: str
    branches: tuple[Signed, ...]
    more: bool = False


class Equivocation(Verdict, frozen=True, kw_only=True, tag="equivocation"):
    """Two heads of one author with one index: a broken promise, proved by the two signatures alone.

    It may be a lie, a restored backup, or one key used in two places. The pair is the least by (index, id, id).
    """

    author: str
    index: int
    evidence: tuple[Signed, Signed]


class Missing(Verdict, frozen=True, kw_only=True, tag="missing"):
    """A noop that others build on and that nobody has published; withdrawn when it comes.

    `disputed`: another noop of that author and index is held, so there are two stories and one is withheld.
    """

    author: str
    index: int
    id: str
    since_ms: int
    disputed: bool
    referrers: tuple[Named, ...]
    more: bool = False


class BadIndex(Verdict, frozen=True, kw_only=True, tag="bad_index"):
    """A segment whose index is not that of its previous one plus one."""

    author: str
    segment: Signed
    previous: Signed
    index: int
    previous_index: int


class ClockSkew(Verdict, frozen=True, kw_only=True, tag="clock_skew"):
    """A peer's clock is far from record time: ahead by as much as `ahead_ms` once, or behind by at least `behind_ms`
    always. Nothing is judged by that clock, so nothing else depends on it.
    """

    author: str
    ahead_ms: int
    behind_ms: int


class Limit(Verdict, frozen=True, kw_only=True, tag="limit"):
    """An author went over a limit: what depends on this author may be incomplete from here on."""

    author: str
    limit: str
    maximum: int


class Quarantine(Verdict, frozen=True, kw_only=True, tag="quarantine"):
    """A fold failed on its own bug: this key stands still, and its input goes to the dead letters."""

    fold: str
    fold_key: str
    error: str


class Spread(Verdict, frozen=True, kw_only=True):
    """How far a noop, and so every op of its segment, has come by one rule of the epoch of its record time.

    `observers` are the k least peers by (time of their first noop that does it, key), the author being one: the bits
    of a number in hex digits, the first bit for the least key of the epoch's roster. `times_ms` is the sum of their
    times: of two verdicts the one with the lesser sum knows more.
    """

    author: str
    index: int
    id: str
    published_ms: int
    """The record time of the noop."""
    epoch_ms: int
    rule: str
    k: int
    n: int
    observers: str
    times_ms: int


class Known(Spread, frozen=True, kw_only=True, tag="known"):
    """Each of k peers has signed a noop that covers this one; the k-th did at `known_ms`."""

    known_ms: int

    @property
    def done_ms(self) -> int:
        return self.known_ms


class Accepted(Spread, frozen=True, kw_only=True, tag="accepted"):
    """Each of k peers has signed a noop that endorses this one; the k-th did at `accepted_ms`.

    Nothing that conflicts with it can be accepted too unless more than `tolerates` peers lie, the author included.
    """

    accepted_ms: int
    tolerates: int

    @property
    def done_ms(self) -> int:
        return self.accepted_ms


class Believer(msgspec.Struct, frozen=True, order=True):
    author: str
    since_ms: int


class Belief(Verdict, frozen=True, kw_only=True, tag="belief"):
    """Who covers the first noop of a branch, and since when: after a fork, who believed which story.

    A time that lies more than a horizon before the fork showed is given as that moment.
    """

    author: str
    branch: str
    index: int
    believers: tuple[Believer, ...]


class Episode(Verdict, frozen=True, kw_only=True):
    """Something that lasts: it opened at a tick and ends at one, or has not ended (None).

    `updated_ms` is the tick of the last change: of two verdicts the later one knows more.
    """

    opened_ms: int
    ended_ms: int | None
    updated_ms: int


class Suspect(msgspec.Struct, frozen=True, order=True):
    """A peer that may stand between the sides: `forked`, `withheld`, `silent` or `one_way`."""

    author: str
    why: str


class Split(Episode, frozen=True, kw_only=True, tag="split"):
    """Active peers that no knowledge flows between. Each side is sorted; the main side comes first.

    Peers that forked stand on no side: each of their branches may stand on another.
    """

    sides_opening: tuple[tuple[str, ...], ...]
    sides: tuple[tuple[str, ...], ...]
    last_contact_ms: int
    """The newest record time of a noop that was known on another side than its author's; 0 if there is none."""
    suspects: tuple[Suspect, ...]


class Silent(Episode, frozen=True, kw_only=True, tag="silent"):
    """A peer that has published nothing for `split_after`; its newest noop is of `since_ms`."""

    author: str
    since_ms: int


class OneWay(Episode, frozen=True, kw_only=True, tag="one_way"):
    """Knowledge flows one way only between a peer and the main side: it `hears` and is not heard, or it is `heard`."""

    author: str
    direction: str


class Undecidable(Episode, frozen=True, kw_only=True, tag="undecidable"):
    """Noops are too rare to tell a split from a pause: `split_after` is under three median intervals."""

    interval_ms: int
    split_after_ms: int


class Replica(Verdict, frozen=True, kw_only=True, tag="replica"):
    """How a peer's replica of an entity stands to all the events of it that were published, by its newest update.

    `in_step`: it has them all. `behind`: it only has to catch up. `ahead`: it has some that nobody published.
    `diverged`, and `why`: it stands on one `branch` of a fork and lacks another; its `clock` says that it has some that
    nobody published and lacks others; its `digest` is not that of the events that it claims to have.
    `by_clock`: it named no events that are known, so this is told by its stamp, and numbers are estimates; in step and
    behind may be coincidence then, unless a digest settled it.
    Of two verdicts the one with more events, then the one of the later update, then of the earlier times, knows more.
    """

    author: str
    entity: str
    state: str
    why: str
    events: int
    """Of the entity, published by anyone."""
    lacks: int
    """Published events that this replica does not have."""
    extra: int
    """Events of this replica that nobody published."""
    by_clock: bool
    segment: str
    """The id of the segment with the update that this is judged by."""
    index: int
    position: int
    """Of the op in that segment, counted from 0."""
    stated_ms: int
    """Record time of that update."""
    since_ms: int
    """Record time of the earliest published event that it lacks; if it lacks none, or that cannot be told, of that
    update."""


class BadUpdate(Verdict, frozen=True, kw_only=True, tag="bad_update"):
    """An update that cannot be right; of several of one author, entity and reason, the earliest.

    `why`: it is `malformed`; its stamp has other `parameters` than the swarm's; its `stamp` or its `digest` does not
    follow from the events that it builds on.
    """

    author: str
    entity: str
    why: str
    segment: str
    index: int
    position: int
    seen_ms: int
    claimed: str
    expected: str


AnyVerdict = (
    Fork
    | Equivocation
    | Missing
    | BadIndex
    | ClockSkew
    | Limit
    | Quarantine
    | Known
    | Accepted
    | Belief
    | Split
    | Silent
    | OneWay
    | Undecidable
    | Replica
    | BadUpdate
)
KINDS: tuple[type[Verdict], ...] = get_args(AnyVerdict)
_decoder: msgspec.json.Decoder[AnyVerdict] = msgspec.json.Decoder(AnyVerdict)
_V = TypeVar("_V", bound=Verdict)


@cache
def _tag(kind: type[Verdict]) -> str:
    return str(kind.__struct_config__.tag)


def key_of(kind: type[Verdict], *parts: str | int) -> str:
    """The key of a verdict: its kind and what it is about, never how or when it was found."""
    return "/".join((_tag(kind), *map(str, parts)))


def kind_of(verdict: Verdict) -> str:
    return str(verdict.__struct_config__.tag)


def encode_verdict(verdict: Verdict) -> bytes:
    return msgspec.json.encode(verdict)


def decode_verdict(encoded: bytes) -> AnyVerdict:
    """Read a verdict; raises msgspec.DecodeError for anything that is none."""
    return _decoder.decode(encoded)


def versions_of(verdict: Fork | Equivocation) -> tuple[Signed, ...]:
    """The heads of one author that cannot all stand in one log."""
    return verdict.branches if isinstance(verdict, Fork) else verdict.evidence


def json_schema() -> dict[str, Any]:
    return msgspec.json.schema(AnyVerdict)


def join(one: _V, other: _V) -> _V:
    """The verdict that says what both say. Requires the same kind and key."""
    if type(one) is not type(other) or one.key != other.key:
        raise ValueError(f"only verdicts of one key join, got {one.key} and {other.key}")
    facts = _facts(one, other) | {"config": max(one.config, other.config)}
    return msgspec.structs.replace(one, **facts)


def _facts(one: Verdict, other: Verdict) -> dict[str, Any]:
    match one, other:
        case Fork(), Fork():
            branches = _least_signed(one.branches + other.branches)
            more = one.more or other.more or len(branches) > BRANCHES_MAX
            return {"branches": branches[:BRANCHES_MAX], "more": more}
        case Equivocation(), Equivocation():
            index = min(one.index, other.index)
            heads = _least_signed(sum((v.evidence for v in (one, other) if v.index == index), ()))
            return {"index": index, "evidence": heads[:2]}
        case Missing(), Missing():
            referrers = tuple(sorted({*one.referrers, *other.referrers}))
            return {
                "since_ms": min(one.since_ms, other.since_ms),
                "disputed": one.disputed or other.disputed,
                "referrers": referrers[:REFERRERS_MAX],
                "more": one.more or other.more or len(referrers) > REFERRERS_MAX,
            }
        case BadIndex(), BadIndex():
            (segment,) = _least_signed((one.segment, other.segment))
            (previous,) = _least_signed((one.previous, other.previous))
            return {"segment": segment, "previous": previous}
        case ClockSkew(), ClockSkew():
            return {"ahead_ms": max(one.ahead_ms, other.ahead_ms), "behind_ms": min(one.behind_ms, other.behind_ms)}
        case Quarantine(), Quarantine():
            return {"error": min(one.error, other.error)}
        case Spread(), Spread():
            # The least k change one by one to lesser (time, key): the sum falls, or a lesser key sets a higher bit.
            return _of(min(one, other, key=lambda v: (v.times_ms, -int(v.observers, 16), v.published_ms)))
        case Belief(), Belief():
            since: dict[str, int] = {}
            for believer in one.believers + other.believers:
                since[believer.author] = min(since.get(believer.author, believer.since_ms), believer.since_ms)
            return {"believers": tuple(Believer(author, ms) for author, ms in sorted(since.items()))}
        case (Episode(), Episode()) | (Replica(), Replica()):
            return _of(_later(one, other))
        case BadUpdate(), BadUpdate():
            return _of(min(one, other, key=lambda v: (v.seen_ms, v.index, v.position, msgspec.json.encode(_of(v)))))
        case _:
            return {}


def _later(one: Verdict, other: Verdict) -> Verdict:
    """Of two verdicts about something that changes, the one that knows more; of equals, always the same one."""
    knows = _knowledge(one), _knowledge(other)
    if knows[0] != knows[1]:
        return one if knows[0] > knows[1] else other
    return max(one, other, key=lambda verdict: msgspec.json.encode(_of(verdict)))


def _knowledge(verdict: Any) -> tuple[Any, ...]:
    if isinstance(verdict, Episode):
        return (verdict.updated_ms,)
    place = verdict.index, verdict.position, verdict.segment
    return verdict.events, *place, -verdict.stated_ms, -verdict.since_ms


def _of(verdict: Verdict) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in verdict.__struct_fields__ if name not in ("key", "config")}


def _least_signed(heads: tuple[Signed, ...]) -> tuple[Signed, ...]:
    """One for each id, sorted by id: an author can sign one head in several ways, and copies come at several times."""
    by_id: dict[str, Signed] = {}
    for head in heads:
        held = by_id.get(head.id, head)
        signature, seen_ms = min(held.signature, head.signature), min(held.seen_ms, head.seen_ms)
        by_id[head.id] = msgspec.structs.replace(head, signature=signature, seen_ms=seen_ms)
    return tuple(by_id[head_id] for head_id in sorted(by_id))
