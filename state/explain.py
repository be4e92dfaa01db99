"""One noop in words: what it is, which peers have it and by which path, who is missing, and what it waits for.

All is said by the definitions of `state.history`, from what stands on the topic, and by the roster and the rules of the
epoch of the noop's record time. Times are record times.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise

from google.protobuf.message import DecodeError

from state import wire_pb2
from state.config import Epoch, Rule, Swarm
from state.history import First, History, Standing, quorum
from state.segment import Segment

NAMES_MAX = 12
"""Names that a line lists before it only counts: a roster can have thousands."""

HOPS_MAX = 8
"""Hops of a path that a line tells; longer ones are told by their ends."""


def explain(history: History, swarm: Swarm, noop: bytes) -> list[str]:
    """Lines that explain a noop of `history`."""
    return list(_Explanation(history, swarm, noop).lines())


class _Explanation:
    def __init__(self, history: History, swarm: Swarm, noop: bytes) -> None:
        self._history = history
        self._swarm = swarm
        self._standing = Standing(history, noop)
        self._noop = self._standing.noop
        self._published_ms = history.times_ms[noop]
        self._epoch = swarm.epoch_at(self._published_ms)

    def lines(self) -> Iterator[str]:
        yield from self._what_it_is()
        if self._epoch is None:
            yield f"it was published before the first epoch of swarm {self._swarm.name}: no roster and no rule judge it"
            return
        peers, start = len(self._epoch.members), _when(self._epoch.start_ms)
        yield f"judged by the rules and the roster of {peers} peers of the epoch that starts {start}"
        yield ""
        for key in sorted(self._epoch.members, key=self._order):
            yield self._about_peer(key)
        yield ""
        for rule in self._epoch.thresholds:
            yield self._about_rule(rule, self._epoch)
        yield from self._about_rivals()

    def _what_it_is(self) -> Iterator[str]:
        head = self._noop.head
        yield f"segment {head.index} of {self._name(head.author)} in swarm {self._swarm.name}, id {self._noop.id.hex()}"
        yield f"published {_when(self._published_ms)}, {self._about_ops()}"
        if not self._history.from_start:
            yield "the topic has lost its beginning: what is older than the oldest segment of a peer is taken as held"
        gap = self._history.gap(self._noop.id)
        if gap is not None:
            yield f"its past is not complete: {self._missing(self._noop)}"

    def _about_ops(self) -> str:
        clients: dict[bytes, list[str]] = defaultdict(list)
        for number, op in enumerate(self._noop.ops, start=1):
            clients[_origin(op)].append(str(number))
        own = len(clients.pop(b"", ()))
        told = [
            f"op{'s' if len(numbers) > 1 else ''} {_listed(numbers)} of {_shown(c)}" for c, numbers in clients.items()
        ]
        count = len(self._noop.ops)
        ops = f"{count} op{'' if count == 1 else 's'}"
        if not told:
            return f"{ops}, none of a client"
        return f"{ops}, {own} of the peer itself, from clients: {'; '.join(told[:NAMES_MAX])}"

    def _order(self, key: bytes) -> tuple[bool, bool, int, str]:
        """The author, then who has it by time, then who does not by name."""
        first = self._standing.covered_by.get(key)
        return key != self._noop.head.author, first is None, first.time_ms if first else 0, self._name(key)

    def _about_peer(self, key: bytes) -> str:
        name, first = self._name(key), self._standing.covered_by.get(key)
        if first is None:
            return f"{name} does not have it; {self._last_heard(key)}"
        has = "signed it" if first.id == self._noop.id else f"has it since {self._after(first)}: {self._path(first)}"
        return f"{name} {has}; {self._about_endorsing(key, first)}"

    def _about_endorsing(self, key: bytes, covers: First) -> str:
        endorses = self._standing.endorsed_by.get(key)
        if endorses == covers:
            return "endorses it"
        if endorses is not None:
            return f"endorses it since {self._after(endorses)}, by its {self._history.segments[endorses.id].head.index}"
        observer = self._history.segments[covers.id]
        if covers.id in self._history.incomplete:
            return f"does not endorse it: {self._missing(observer)}"
        rival = self._standing.contradiction(covers.id)
        assert rival is not None
        return f"does not endorse it: it has another version too, {self._named(rival)}"

    def _missing(self, observer: Segment) -> str:
        gap = self._history.gap(observer.id)
        assert gap is not None
        referrer = "it" if gap.referrer.id == observer.id else self._named(gap.referrer)
        missing = f"index {gap.missing.index} of {self._name(gap.missing.author)} ({gap.missing.id.hex()[:12]})"
        return f"{referrer} builds on {missing}, which is not on the topic"

    def _path(self, first: First) -> str:
        """The way from an observer's first noop down to this one: «carol's 7 entangles bob's 5, which entangles it»."""
        way = _without_middles(self._standing.way_from(first.id))
        if len(way) > HOPS_MAX + 1:
            return f"{self._short(way[0])}, over {len(way) - 2} others, the last {self._short(way[-2])}"
        words = self._short(way[0])
        for upper, lower in pairwise(way):
            verb = "follows" if upper.head.author == lower.head.author else "entangles"
            target = "it" if lower.id == self._noop.id else self._short(lower)
            words += f"{' ' if upper is way[0] else ', which '}{verb} {target}"
        return words

    def _about_rule(self, rule: Rule, epoch: Epoch) -> str:
        by = f"by {rule.name} ({rule.k} of {rule.n}): "
        author = self._noop.head.author
        if author not in epoch.members:
            return by + "neither known nor accepted, because its author is not in the roster of its epoch"
        known = self._spread("known", self._standing.covered_by, rule, epoch)
        if author not in self._standing.endorsed_by:
            return by + known + "; not accepted, because of its own past"
        return by + known + "; " + self._spread("accepted", self._standing.endorsed_by, rule, epoch)

    def _spread(self, done: str, firsts: Mapping[bytes, First], rule: Rule, epoch: Epoch) -> str:
        found = quorum(firsts, self._noop.head.author, epoch.members, rule)
        if found is not None:
            return f"{done} since {self._after(max(found.values()))}"
        others = [key for key in epoch.members if key not in firsts]
        lacking = rule.k - (len(epoch.members) - len(others))
        able = [key for key in others if done == "known" or self._standing.can_endorse(key)]
        if len(able) < lacking:
            return f"it can no longer be {done}: {len(others) - len(able)} peers have another version"
        return f"not {done} yet, it needs {lacking} more of: {_listed(sorted(map(self._name, able)))}"

    def _about_rivals(self) -> Iterator[str]:
        rivals = self._standing.rivals
        if rivals:
            yield ""
            yield f"{self._name(self._noop.head.author)} forked its log; who has which:"
            yield f"  this version: {self._believers(self._standing)}"
        for rival in rivals[:NAMES_MAX]:
            yield f"  {self._named(rival)}: {self._believers(Standing(self._history, rival.id))}"
        if len(rivals) > NAMES_MAX:
            yield f"  and {len(rivals) - NAMES_MAX} more versions"

    def _believers(self, standing: Standing) -> str:
        author = standing.noop.head.author
        names = sorted(self._name(key) for key in standing.covered_by if key != author)
        return _listed(names) or "nobody but its author"

    def _last_heard(self, key: bytes) -> str:
        log = self._history.logs.get(key)
        if not log:
            return "never heard"
        newest = max(log, key=lambda segment: (self._history.times_ms[segment.id], segment.head.index))
        return f"last heard {_when(self._history.times_ms[newest.id])}, index {newest.head.index}"

    def _after(self, first: First) -> str:
        return f"{_when(first.time_ms)} ({(first.time_ms - self._published_ms) / 1000:+.1f} s)"

    def _named(self, segment: Segment) -> str:
        return f"index {segment.head.index} of {self._name(segment.head.author)} ({segment.id.hex()[:12]})"

    def _short(self, segment: Segment) -> str:
        return f"{self._name(segment.head.author)}'s {segment.head.index}"

    def _name(self, key: bytes) -> str:
        return self._swarm.authors.get(key, key.hex()[:16])


def _without_middles(way: list[Segment]) -> list[Segment]:
    """A way with only the ends of each stretch along one log: what stands between follows and is followed."""
    authors = [segment.head.author for segment in way]
    inner = (1 <= at < len(way) - 1 and authors[at - 1] == authors[at] == authors[at + 1] for at in range(len(way)))
    return [segment for segment, is_inner in zip(way, inner, strict=True) if not is_inner]


def _origin(op: bytes) -> bytes:
    """The client that an op names; nothing if it names none, or is no op that we can read."""
    try:
        return wire_pb2.Op.FromString(op).origin
    except DecodeError:
        return b""


def _shown(client: bytes) -> str:
    text = client.decode("ascii", errors="replace")
    return text if text.isprintable() and text.isascii() and len(text) <= 64 else client.hex()[:16]


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def _when(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError):
        return f"at {time_ms} ms"  # a record time beyond the calendar, on a topic with times of the writers' choice
