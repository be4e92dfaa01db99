"""Random swarms of few peers, and the slow, obviously right answers about who has what: sets and graph search only.

Nothing here knows of vectors, columns or blocks. The definitions are those of docs/adr/0006.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from itertools import takewhile
from random import Random
from typing import NamedTuple

from state.columns import ColumnsFold
from state.config import Config, Epoch, parse_config
from state.fold import Arrival, Arrivals, Topic
from state.head import NO_PREVIOUS
from state.segment import Ref, Segment, decode_refs
from state.signing import SigningKey
from state.verdict import Accepted, Belief, Believer, Known, Verdict, encode_verdict, key_of
from tests.loglab import START_MS, SWARM, Copy, noop

PEERS = sorted(SigningKey(bytes([n]) * 32).public for n in range(11, 18))


def matrix_config(
    peers: int = 4,
    *,
    horizon: str = "3s",
    split_after: str = "1s",
    blocks: int = 1,
    late_epoch: bool = False,
    rules: str = "[majority, everyone, 2]",
) -> Config:
    """A swarm whose last peer joins, and whose first one leaves, in a second epoch if there is one."""

    def epoch(start: str, members: list[bytes], rules: str) -> str:
        roster = "".join(f"          peer-{PEERS.index(key)}: '{key.hex()}'\n" for key in members)
        settings = f"        split_after: {split_after}\n        rules: {rules}\n"
        return f"      - start: {start}\n{settings}        roster:\n{roster}"

    everyone = PEERS[:peers]
    epochs = epoch("2020-01-01T00:00:00Z", everyone[:-1] if late_epoch else everyone, rules)
    if late_epoch:
        epochs += epoch("2023-11-14T22:13:24Z", everyone[1:], "[majority, 1]")
    return parse_config(
        f"swarms:\n  - id: '{SWARM.hex()}'\n    name: lab\n    grace: 1s\n    horizon: {horizon}\n"
        f"    blocks: {blocks}\n    epochs:\n{epochs}"
    )


def history(chance: Random, peers: int = 4, size: int = 30) -> list[Copy]:
    """Copies of noops: nested forks, lost, withheld and late noops, refs to the newest, to the old and to nothing."""
    made: list[Segment] = []
    copies: list[Copy] = []
    now_ms = START_MS
    forks, losses = chance.choice([0.0, 0.05, 0.25]), chance.choice([0.0, 0.03, 0.15])
    for step in range(chance.randint(1, size)):
        now_ms += chance.choice([10, 100, 100, 300, 300, 900, 900, 5000 if chance.random() < 0.2 else 200])
        author = PEERS[chance.randrange(peers)]
        own = [segment for segment in made if segment.head.author == author]
        parent = own[-1] if own else None
        if own and chance.random() < forks:
            parent = chance.choice([None, *own])
        index, previous = (parent.head.index + 1, parent.id) if parent else (1, NO_PREVIOUS)
        if parent and chance.random() < losses / 4:
            index += 1
        others = [segment for segment in made if segment.head.author != author]
        refs = {s.ref for s in chance.sample(others[-4:], min(len(others[-4:]), chance.randint(0, 3)))}
        refs |= {chance.choice(others).ref} if others and chance.random() < 0.15 else set()
        if chance.random() < losses / 2:
            refs.add(Ref(PEERS[(PEERS.index(author) + 1) % peers], chance.randint(1, 5), sha256(b"%d" % step).digest()))
        segment = noop(author, index, previous, step % 3, refs=sorted(refs), time_ms=now_ms)
        if segment.id in {s.id for s in made}:
            continue
        made.append(segment)
        if chance.random() < losses:
            if chance.random() < 0.5:
                copies.append(Copy(segment, now_ms + chance.choice([500, 2000, 8000])))
            continue
        copies += [Copy(segment, now_ms + chance.choice([0, 20, 80, 400]))]
        if chance.random() < 0.1:
            copies.append(Copy(segment, now_ms + chance.choice([0, 50, 4000])))
    return copies


def batches_of(chance: Random, copies: list[Copy]) -> list[list[Copy]]:
    """The same copies in any order, some several times, cut anywhere."""
    again = chance.choices(copies, k=chance.randint(0, 4)) if copies else []
    shuffled = chance.sample(copies + again, len(copies) + len(again))
    batches: list[list[Copy]] = [[]]
    for copy in shuffled:
        if chance.random() < 0.3:
            batches.append([])
        batches[-1].append(copy)
    return batches


class Found(NamedTuple):
    """What a run over batches left: compacted verdicts, and the reports by key."""

    verdicts: dict[bytes, bytes]
    reports: dict[bytes, bytes]


def run_columns(
    config: Config, batches: list[list[Copy]], *, reopen: bool = True, deep: bool = True, old_at_once: float = 0.5
) -> Found:
    """Run the columns fold; each block is packed and opened again after each batch. The clock is as late as may be."""
    fold = ColumnsFold(config)
    blobs: dict[bytes, bytes] = {}
    machines = {}
    archives: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    found = Found({}, {})
    end_ms = max((copy.time_ms for batch in batches for copy in batch), default=0)
    for at, batch in enumerate(batches):
        unread = [copy.time_ms for later in batches[at + 1 :] for copy in later]
        clock_ms = min(min(unread, default=end_ms + 1) - 1, end_ms)
        routed = defaultdict(list)
        for key, payload in fold.route(Arrivals([Arrival(*copy) for copy in batch], [])):
            routed[key].append(payload)
        for key in fold.all_keys():
            machine = machines.get(key)
            if machine is None or reopen:
                machine = machines[key] = fold.open(key, blobs.get(key), archives[key])
                machine.old_at_once = old_at_once
            outcome = machine.absorb(routed[key], clock_ms)
            problems = list(machine.audit(archives[key])) if deep else machine.check_invariants()
            assert problems == [], problems
            blobs[key] = machine.pack()
            for message in outcome.messages:
                kept = found.reports if message.topic == Topic.MATRIX else found.verdicts
                assert message.value is not None
                assert message.topic != Topic.MATRIX or message.key not in kept, "a tick is reported once"
                kept[message.key] = message.value
    return found


class Graph:
    """All noops that were published, with the earliest record time of each, and what reaches what."""

    def __init__(self, config: Config, copies: Iterable[Copy], until_ms: int | None = None) -> None:
        (self.swarm,) = config.swarms
        self.config = config
        self.held: dict[bytes, Segment] = {}
        self.time: dict[bytes, int] = {}
        for segment, time_ms in copies:
            if until_ms is None or time_ms <= until_ms:
                self.held[segment.id] = segment
                self.time[segment.id] = min(self.time.get(segment.id, time_ms), time_ms)
        self.begins: dict[bytes, tuple[int, tuple[int, bytes]]] = {}
        if self.swarm.since_ms is not None:
            for noop_id in list(self._leave_out(self.swarm.since_ms)):
                del self.held[noop_id]

    def named(self, noop_id: bytes) -> Iterator[Ref]:
        segment = self.held[noop_id]
        if segment.head.previous != NO_PREVIOUS:
            yield Ref(segment.head.author, segment.head.index - 1, segment.head.previous)
        yield from decode_refs(segment.refs)

    def _leave_out(self, since_ms: int) -> Iterator[bytes]:
        """Those that were published before what is judged; notes where each log begins, and after which noop."""
        for noop_id in sorted(self.held, key=self._order):
            head = self.held[noop_id].head
            begins, _ = self.begins.get(head.author, (0, None))
            if self.time[noop_id] < since_ms:
                self.begins[head.author] = max(begins, head.index + 1), self._order(noop_id)
                yield noop_id
            elif not begins:
                self.begins[head.author] = head.index, self._order(noop_id)
            elif head.index < begins:
                yield noop_id

    def leads_nowhere(self, noop_id: bytes, ref: Ref) -> bool:
        """Whether a noop named what was not held then and stands before what is judged."""
        now, target = self._order(noop_id), self.get(ref)
        if self.swarm.since_ms is None or (target is not None and self._order(target) < now):
            return False
        begins, begun = self.begins.get(ref.author, (0, now))
        return not begins or begun > now or ref.index < begins

    def _order(self, noop_id: bytes) -> tuple[int, bytes]:
        return self.time[noop_id], self.held[noop_id].ref.encode()

    def get(self, ref: Ref) -> bytes | None:
        return ref.id if ref.id in self.held and self.held[ref.id].ref == ref else None

    def previous(self, noop_id: bytes) -> bytes | None:
        head = self.held[noop_id].head
        return None if head.index == 1 else self.get(Ref(head.author, head.index - 1, head.previous))

    @cached_property
    def children(self) -> dict[bytes, list[bytes]]:
        found = defaultdict(list)
        for noop_id in self.held:
            previous = self.previous(noop_id)
            if previous is not None:
                found[previous].append(noop_id)
        return found

    def life(self, noop_id: bytes) -> float:
        continued = [self.time[child] for child in self.children.get(noop_id, ())]
        if not continued:
            return float("inf")
        return max(self.time[noop_id], min(continued)) + self.swarm.horizon_ms

    def chain(self, noop_id: bytes | None) -> Iterator[bytes]:
        while noop_id is not None:
            yield noop_id
            noop_id = self.previous(noop_id)

    class Past(NamedTuple):
        covered: frozenset[bytes]
        complete: bool
        blind_ms: float

    def past(self, noop_id: bytes, until_ms: float = float("inf")) -> "Graph.Past":
        """The past of a noop, as it is at a time: without what comes later, or after its life."""
        end_ms = min(until_ms, self.life(noop_id))
        if (noop_id, end_ms) not in self._pasts:
            self._pasts[noop_id, end_ms] = self._search(noop_id, end_ms)
        return self._pasts[noop_id, end_ms]

    @cached_property
    def _pasts(self) -> "dict[tuple[bytes, float], Graph.Past]":
        return {}

    def _search(self, start: bytes, end_ms: float) -> "Graph.Past":
        covered, complete, blind_ms = {start}, True, -1.0
        stack, seen = [start], {start}
        while stack:
            now = stack.pop()
            for ref in self.named(now):
                if self.leads_nowhere(now, ref):
                    continue
                target = self.get(ref)
                if target is None or self.time[target] > end_ms:
                    complete = False
                elif self.time[now] <= self.life(target):
                    covered.add(target)
                    if target not in seen:
                        seen.add(target)
                        stack.append(target)
                else:
                    covered.update(
                        takewhile(lambda below, now=now: self.time[below] <= self.time[now], self.chain(target))
                    )
                    blind_ms = max(blind_ms, self.life(target))
                    complete &= self.past(target).complete
        return Graph.Past(frozenset(covered), complete, blind_ms)

    def conflict(self, one: bytes, other: bytes) -> bool:
        if self.held[one].head.author != self.held[other].head.author:
            return False
        return one not in self.chain(other) and other not in self.chain(one)

    def branch_of(self, noop_id: bytes) -> bytes:
        """The first noop of the unforked stretch that this one is in."""
        first = noop_id
        for below in self.chain(noop_id):
            first = below
            previous = self.previous(below)
            if previous is None or len(self.children[previous]) > 1:
                break
        return first

    def endorses(self, observer: bytes, noop_id: bytes) -> bool:
        past = self.past(observer, self.life(noop_id))
        if noop_id not in past.covered or not past.complete:
            return False
        rivals = [other for other in self.held if self.conflict(other, noop_id)]
        if any(other in past.covered for other in rivals):
            return False
        return not any(
            self.time[self.branch_of(other)] <= past.blind_ms and self._is_fork(other, noop_id) for other in rivals
        )

    def _is_fork(self, one: bytes, other: bytes) -> bool:
        """Whether two noops conflict for sure: what stands above a gap may still come to cover what is below it."""
        roots = [list(self.chain(noop_id))[-1] for noop_id in (one, other)]
        if roots[0] == roots[1] or all(self.held[root].head.index == self._first(root) for root in roots):
            return True
        (start, end), (other_start, other_end) = self._stretch(one), self._stretch(other)
        return start <= other_end and other_start <= end

    def _first(self, noop_id: bytes) -> int:
        """The index that its author's log begins with."""
        return self.begins.get(self.held[noop_id].head.author, (1, None))[0]

    def _stretch(self, noop_id: bytes) -> tuple[int, int]:
        start = end = self.branch_of(noop_id)
        while len(self.children.get(end, ())) == 1:
            (end,) = self.children[end]
        return self.held[start].head.index, self.held[end].head.index

    def first_times(self, noop_id: bytes, *, endorse: bool) -> dict[bytes, int]:
        """When each author first covered or endorsed a noop."""
        found: dict[bytes, int] = {}
        for observer, segment in self.held.items():
            if self.time[observer] > self.life(noop_id):
                continue
            covers = noop_id in self.past(observer, self.life(noop_id)).covered
            if self.endorses(observer, noop_id) if endorse else covers:
                author = segment.head.author
                found[author] = min(found.get(author, self.time[observer]), self.time[observer])
        return found

    # Verdicts

    def verdicts(self) -> dict[bytes, bytes]:
        found: list[Verdict] = [*self._beliefs()]
        for noop_id in self.held:
            epoch = self.swarm.epoch_at(self.time[noop_id])
            if epoch is not None:
                found += self._spread(noop_id, epoch)
        return {verdict.key.encode(): encode_verdict(verdict) for verdict in found}

    def _spread(self, noop_id: bytes, epoch: Epoch) -> Iterator[Known | Accepted]:
        head = self.held[noop_id].head
        for kind in (Known, Accepted):
            times = self.first_times(noop_id, endorse=kind is Accepted)
            others = sorted(
                (time_ms, key) for key, time_ms in times.items() if key in epoch.members and key != head.author
            )
            if head.author not in times or head.author not in epoch.members:
                continue
            for rule in epoch.thresholds:
                chosen = [(times[head.author], head.author), *others[: rule.k - 1]]
                if len(chosen) < rule.k:
                    continue
                keys = {key for _, key in chosen}
                bits = "".join("1" if key in keys else "0" for key in epoch.members)
                at_ms = max(time_ms for time_ms, _ in chosen)
                facts = {"known_ms": at_ms} if kind is Known else {"accepted_ms": at_ms, "tolerates": rule.tolerates}
                yield kind(
                    key=key_of(kind, noop_id.hex(), rule.name, epoch.start_ms),
                    swarm=self.swarm.id,
                    config=self.config.digest,
                    author=head.author.hex(),
                    index=head.index,
                    id=noop_id.hex(),
                    published_ms=self.time[noop_id],
                    epoch_ms=epoch.start_ms,
                    rule=rule.name,
                    k=rule.k,
                    n=rule.n,
                    observers=f"{int(bits, 2):0{-(-len(bits) // 4)}x}",
                    times_ms=sum(time_ms for time_ms, _ in chosen),
                    **facts,
                )

    def _beliefs(self) -> Iterator[Belief]:
        points: dict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
        for noop_id, segment in self.held.items():
            if segment.head.index == 1 or self.previous(noop_id) is not None:
                points[segment.head.author, segment.head.previous].append(noop_id)
        for (author, _), branches in points.items():
            for branch in branches if len(branches) > 1 else ():
                believers = tuple(sorted(self._believers(branch, branches)))
                yield Belief(
                    key=key_of(Belief, branch.hex()),
                    swarm=self.swarm.id,
                    config=self.config.digest,
                    author=author.hex(),
                    branch=branch.hex(),
                    index=self.held[branch].head.index,
                    believers=believers,
                )

    def _shows_ms(self, branch: bytes, branches: list[bytes]) -> int:
        """When the fork shows: there are two continuations, and their `previous` if they have one."""
        previous = self.previous(branch)
        second_ms = sorted(self.time[other] for other in branches)[1]
        return max(second_ms, self.time[previous]) if previous is not None else second_ms

    def _believers(self, branch: bytes, branches: list[bytes]) -> Iterator[Believer]:
        shows_ms = max(self._shows_ms(branch, branches), self.time[branch])
        floor_ms = 0 if shows_ms <= self.life(branch) else shows_ms
        since: dict[bytes, int] = {}
        for noop_id, segment in self.held.items():
            if branch in self.past(noop_id).covered:
                time_ms = max(self.time[noop_id], floor_ms)
                since[segment.head.author] = min(since.get(segment.head.author, time_ms), time_ms)
        for author, time_ms in since.items():
            yield Believer(author.hex(), time_ms)
