"""The history of a swarm: the noops held, which of them build on which, and how one noop stands with the peers.

Rules (SPEC: DESIGN, vocabulary), each a function of the set of segments and the record times of their earliest copies:
- A noop *names* others: its `previous`, as its author's noop at its index minus one, and its refs. A name *links* to
  the noop that is held with that author, index and id. If there is none, what it names is *missing*.
- The past of a noop is all that its links lead to. It is complete if no noop in it, nor itself, names what is missing.
- r covers x if x is r or in r's past.
- Two noops of one author conflict if neither covers the other along `previous`.
- r endorses x if r covers x, r's past is complete, and r covers nothing that conflicts with x.
- If the topic has lost its beginning, what is named below the lowest index held of its author is not missing.

All answers about one noop come from a few searches *upwards*, from a noop to those that name it, so each costs at most
one look at every link. A search remembers the next noop on a shortest way down.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from state.config import Rule
from state.head import NO_PREVIOUS
from state.segment import Ref, Segment, decode_refs

Ways = Mapping[bytes, bytes | None]
"""Noops that cover some others, each with the next noop on a shortest way down to one of them; None for these."""


class First(NamedTuple):
    """The first noop of an observer that does something: the least by record time, then id."""

    time_ms: int
    id: bytes


class Gap(NamedTuple):
    """Why a past is not complete: this noop in it names something that is not held."""

    referrer: Segment
    missing: Ref


class History:
    """All noops held of one swarm; those of others are left out. `from_start`: nothing older has expired."""

    def __init__(self, swarm: bytes, copies: Iterable[tuple[Segment, int]], *, from_start: bool = True) -> None:
        self.from_start = from_start
        self.times_ms: dict[bytes, int] = {}
        """The record time of the earliest copy."""
        self.segments = self._distinct(swarm, copies)
        self.logs: dict[bytes, list[Segment]] = defaultdict(list)
        """By author, all branches together, sorted by index and id."""
        for segment in sorted(self.segments.values(), key=lambda held: (held.head.index, held.id)):
            self.logs[segment.head.author].append(segment)
        self.links: dict[bytes, tuple[bytes, ...]] = {}
        self.followers: dict[bytes, list[bytes]] = {noop: [] for noop in self.segments}
        self.missing: dict[bytes, list[Ref]] = {}
        for noop, segment in self.segments.items():
            self._link(noop, segment)
        self.incomplete = self.upwards(self.missing)
        """Every noop whose past is not complete, with the way down to the nearest one that names what is missing."""

    def at(self, author: bytes, index: int) -> list[Segment]:
        """The noops of an author at an index, sorted by id: one, unless it forked or nothing is held there."""
        return [segment for segment in self.logs.get(author, ()) if segment.head.index == index]

    def upwards(self, sources: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """Every noop that covers one of `sources`, with the next one on a shortest way down to the nearest of them."""
        ways: dict[bytes, bytes | None] = dict.fromkeys(sources)
        queue = deque(ways)
        while queue:
            lower = queue.popleft()
            for upper in self.followers[lower]:
                if upper not in ways:
                    ways[upper] = lower
                    queue.append(upper)
        return ways

    def downwards(self, noop: bytes, ways: Ways) -> list[Segment]:
        """The noops on the way from `noop` down to where `ways` lead, both ends included."""
        way: list[Segment] = []
        at: bytes | None = noop
        while at is not None:
            way.append(self.segments[at])
            at = ways[at]
        return way

    def chain_below(self, noop: bytes) -> list[Segment]:
        """The noop and what it covers along `previous`, from the newest to the oldest."""
        chain = []
        at: Segment | None = self.segments[noop]
        while at is not None:
            chain.append(at)
            at = self.previous(at)
        return chain

    def previous(self, segment: Segment) -> Segment | None:
        """The noop that a segment follows, if it is held as its author's at the index below."""
        head = segment.head
        held = self.segments.get(head.previous)
        return held if held is not None and held.ref[:2] == (head.author, head.index - 1) else None

    def rivals(self, noop: bytes) -> list[Segment]:
        """The first noops of the other versions of the log that `noop` is in: with it conflict these, and what follows.

        What stands beyond a gap may be of the same version; only a shared index or a shared `previous` tells. For
        endorsement that is enough: there is no gap in a complete past.
        """
        chain = self.chain_below(noop)
        agreeing = {segment.id for segment in chain} | self._above(noop)
        indexes = {segment.head.index for segment in chain}
        followed = {segment.head.previous for segment in chain}
        differing = {
            segment.id: segment
            for segment in self.logs[chain[0].head.author]
            if segment.id not in agreeing and (segment.head.index in indexes or segment.head.previous in followed)
        }
        before = {segment.id: self.previous(segment) for segment in differing.values()}
        return [
            rival for rival in differing.values() if (lower := before[rival.id]) is None or lower.id not in differing
        ]

    def _above(self, noop: bytes) -> set[bytes]:
        """What covers `noop` along `previous`."""
        author, found, stack = self.segments[noop].head.author, set(), [noop]
        while stack:
            following = [upper for upper in self.followers[stack.pop()] if self.segments[upper].head.author == author]
            found.update(following)
            stack.extend(following)
        return found

    def gap(self, noop: bytes) -> Gap | None:
        """What is missing in the past of a noop, the nearest if there is more; None if the past is complete."""
        if noop not in self.incomplete:
            return None
        referrer = self.downwards(noop, self.incomplete)[-1]
        return Gap(referrer, self.missing[referrer.id][0])

    def first_of_each(self, noops: Iterable[bytes]) -> dict[bytes, First]:
        """By author, the first of these noops."""
        firsts: dict[bytes, First] = {}
        for noop in noops:
            author, first = self.segments[noop].head.author, First(self.times_ms[noop], noop)
            firsts[author] = min(firsts.get(author, first), first)
        return firsts

    def _distinct(self, swarm: bytes, copies: Iterable[tuple[Segment, int]]) -> dict[bytes, Segment]:
        """One segment for each id, sorted by id, so that no answer depends on the order in which copies came.

        An author can sign one head in several ways; the least signature stands for all.
        """
        kept: dict[bytes, Segment] = {}
        for segment, time_ms in copies:
            if segment.head.swarm != swarm:
                continue
            kept[segment.id] = min(kept.get(segment.id, segment), segment, key=lambda copy: copy.signature)
            self.times_ms[segment.id] = min(self.times_ms.get(segment.id, time_ms), time_ms)
        return dict(sorted(kept.items()))

    def _link(self, noop: bytes, segment: Segment) -> None:
        linked = []
        for name in names(segment):
            held = self.segments.get(name.id)
            if held is not None and held.ref == name:
                linked.append(name.id)
                self.followers[name.id].append(noop)
            elif not self._has_expired(name):
                self.missing.setdefault(noop, []).append(name)
        self.links[noop] = tuple(linked)

    def _has_expired(self, name: Ref) -> bool:
        """SPEC: DESIGN, replay: the lowest index held of each author needs no parent; refs below it count as held."""
        log = self.logs.get(name.author)
        return not self.from_start and log is not None and name.index < log[0].head.index


class Standing:
    """How one noop stands with the peers: who covers it, who endorses it, by which noops, and why others do not."""

    def __init__(self, history: History, noop: bytes) -> None:
        self.history = history
        self.noop = history.segments[noop]
        self._covering = history.upwards([noop])
        self.rivals = history.rivals(noop)
        self._contradicted = history.upwards(rival.id for rival in self.rivals)
        self.covered_by = history.first_of_each(self._covering)
        """By observer, its first noop that covers this one."""
        self.endorsing = {r for r in self._covering if r not in self._contradicted and r not in history.incomplete}
        """All noops that endorse this one."""
        self.endorsed_by = history.first_of_each(self.endorsing)
        """By observer, its first noop that endorses this one."""

    def way_from(self, observer: bytes) -> list[Segment]:
        """A shortest way from a noop that covers this one down to it; each names the next as `previous` or as a ref."""
        return self.history.downwards(observer, self._covering)

    def contradiction(self, observer: bytes) -> Segment | None:
        """The rival of this noop that `observer` covers, the nearest if there are several; None if it covers none."""
        return self.history.downwards(observer, self._contradicted)[-1] if observer in self._contradicted else None

    def can_endorse(self, peer: bytes) -> bool:
        """Whether a later noop of a peer can still endorse this one: not once each of its branches covers a rival."""
        log = self.history.logs.get(peer, [])
        followed = {segment.head.previous for segment in log}
        return not log or any(s.id not in self._contradicted for s in log if s.id not in followed)


def names(segment: Segment) -> Iterator[Ref]:
    """The noops that a segment builds on, as its signature names them."""
    if segment.head.previous != NO_PREVIOUS:
        yield Ref(segment.head.author, segment.head.index - 1, segment.head.previous)
    yield from decode_refs(segment.refs)


def in_order(firsts: Mapping[bytes, First], author: bytes, members: Collection[bytes]) -> list[bytes]:
    """The observers of a roster in the order in which they count: the author, then by (time of their first, key)."""
    counting = (observer for observer in firsts if observer in members)
    return sorted(counting, key=lambda observer: (observer != author, firsts[observer].time_ms, observer))


def quorum(
    firsts: Mapping[bytes, First], author: bytes, members: Collection[bytes], rule: Rule
) -> dict[bytes, First] | None:
    """The k observers that make a noop known or accepted by a rule; None while there are fewer.

    SPEC: DESIGN, columns: the k least observers by (time, key), the author being one.
    """
    if author not in firsts or author not in members:
        return None
    counted = in_order(firsts, author, members)[: rule.k]
    return {observer: firsts[observer] for observer in counted} if len(counted) == rule.k else None
