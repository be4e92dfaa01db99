"""What a peer holds, against an oracle that follows the definitions by graph search over everything there is."""

from hashlib import sha256
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from state.head import NO_PREVIOUS
from state.holding import Holding
from state.segment import Ref, Segment, build, decode_refs
from state.signing import SigningKey

SWARM = bytes(range(32))
KEYS = [SigningKey(bytes([i]) * 32) for i in range(1, 5)]
OWN = KEYS[0]
ROOT = bytes(32)
REFS_MAX = 64


class Oracle:
    """All noops ever made, which of them the peer was given, and the definitions of the design, word by word."""

    def __init__(self) -> None:
        self.noops: dict[bytes, Segment] = {}
        self.given: set[bytes] = set()

    def add(self, segment: Segment) -> None:
        self.noops[segment.id] = segment

    def named_parents(self, noop: bytes) -> set[Ref]:
        segment = self.noops[noop]
        head = segment.head
        previous = [Ref(head.author, head.index - 1, head.previous)] if head.previous != NO_PREVIOUS else []
        return {*previous, *decode_refs(segment.refs)}

    def held(self) -> set[bytes]:
        """The least set: own noops, and given ones all of whose parents are in it under their true names."""
        held: set[bytes] = set()
        while True:
            more = {noop for noop in self.given - held if self._is_complete(noop, held)}
            if not more:
                return held
            held |= more

    def _is_complete(self, noop: bytes, held: set[bytes]) -> bool:
        return all(parent.id in held and self.noops[parent.id].ref == parent for parent in self.named_parents(noop))

    def covered_by(self, noop: bytes) -> set[bytes]:
        """The noop and its past."""
        reached, stack = set(), [noop]
        while stack:
            now = stack.pop()
            if now != NO_PREVIOUS and now not in reached:
                reached.add(now)
                stack.extend(parent.id for parent in self.named_parents(now))
        return reached

    def log_up_to(self, noop: bytes) -> set[bytes]:
        """The noop and what it covers along `previous`."""
        chain = set()
        while noop != NO_PREVIOUS:
            chain.add(noop)
            noop = self.noops[noop].head.previous
        return chain

    def conflict(self, a: bytes, b: bytes) -> bool:
        return a not in self.log_up_to(b) and b not in self.log_up_to(a)

    def maximal(self, newest: bytes) -> set[bytes]:
        """The held noops of others that are not covered by `newest`, nor by another of them."""
        fresh = {noop for noop in self.held() - self.covered_by(newest) if self.noops[noop].head.author != OWN.public}
        return {noop for noop in fresh if not any(noop in self.covered_by(other) for other in fresh - {noop})}

    def endorsed(self, newest: bytes) -> dict[bytes, Ref]:
        """Of each other author, the newest covered noop that no covered noop of that author conflicts with."""
        lines = {}
        for author in (key.public for key in KEYS[1:]):
            covered = {noop for noop in self.covered_by(newest) if self.noops[noop].head.author == author}
            undisputed = [a for a in covered if not any(self.conflict(a, b) for b in covered)]
            if undisputed:
                lines[author] = max((self.noops[noop].ref for noop in undisputed), key=lambda ref: ref.index)
        return lines

    def root(self, newest: bytes) -> bytes:
        return merkle_root(sorted(line.encode() for line in self.endorsed(newest).values()))


def merkle_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, as it stands."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return sha256(b"\x01" + merkle_root(leaves[:k]) + merkle_root(leaves[k:])).digest()


class Make(NamedTuple):
    """Another peer signs a noop: after any of its own (so forks, nested too), with any refs, true or misnamed."""

    author: int
    previous: int
    refs: list[int]
    misnamed: bool


class Give(NamedTuple):
    """The peer is given any noop there is: late, early, twice, or never."""

    which: int


class GiveAll(NamedTuple):
    """The peer is given all there is, the newest first: everything waits for the oldest."""


class Close(NamedTuple):
    """The peer closes a segment."""


Step = Make | Give | GiveAll | Close

near, anywhere = st.integers(0, 3), st.integers(0, 30)
gossip = st.builds(Make, st.integers(1, 3), near, st.lists(anywhere, max_size=4), st.sampled_from([False] * 9 + [True]))
lies = st.builds(Make, st.just(1), near, st.just([]), st.just(value=False))
"""One author forks its log again and again and entangles nobody, so that all of it is soon held."""
gives = st.builds(Give, anywhere)
scripts = st.lists(st.one_of(gossip, lies, gives, st.builds(GiveAll), st.builds(Close)), max_size=50)


class World:
    """Runs a script on a Holding and on the oracle."""

    def __init__(self, refs_max: int = REFS_MAX) -> None:
        self.oracle = Oracle()
        self.holding = Holding(SWARM, OWN.public, refs_max)
        self.made: list[Segment] = []

    def run(self, script: list[Step]) -> None:
        for step in script:
            match step:
                case Make():
                    self.make(step)
                case Give(which):
                    self.give(which)
                case GiveAll():
                    for which in range(len(self.made)):
                        self.give(which)
                case Close():
                    self.close()

    def make(self, step: Make) -> None:
        key = KEYS[step.author]
        # Nearness to the newest is drawn, so that small numbers make long logs and large ones deep forks.
        own = [None, *(segment for segment in self.made if segment.head.author == key.public)]
        previous = own[-1 - step.previous % len(own)]
        others = [segment.ref for segment in self.oracle.noops.values() if segment.head.author != key.public]
        refs = {others[-1 - at % len(others)] for at in step.refs} if others else set()
        if step.misnamed and refs:
            wrong = min(refs)
            refs = refs - {wrong} | {wrong._replace(index=wrong.index + 1)}
        segment = build(
            key,
            swarm=SWARM,
            index=previous.head.index + 1 if previous else 1,
            previous=previous.id if previous else NO_PREVIOUS,
            time_ms=len(self.made),
            ops=[],
            refs=refs,
            root=ROOT,
        )
        self.made.append(segment)
        self.oracle.add(segment)

    def give(self, which: int) -> None:
        if self.made:
            segment = self.made[-1 - which % len(self.made)]
            before = self.oracle.held()
            self.oracle.given.add(segment.id)
            newly = self.holding.receive(segment)
            assert len(newly) == len({each.id for each in newly})
            assert {each.id for each in newly} == self.oracle.held() - before
            for position, each in enumerate(newly):
                known = before | {other.id for other in newly[:position]}
                assert {parent.id for parent in self.oracle.named_parents(each.id)} <= known

    def close(self) -> Segment:
        previous = self.holding.newest
        segment = self.holding.close(OWN, 0, [])
        maximal = self.oracle.maximal(previous)
        refs = {ref.id for ref in decode_refs(segment.refs)}
        assert refs == maximal if len(maximal) <= self.holding.refs_max else refs < maximal
        assert len(refs) == min(len(maximal), self.holding.refs_max)
        self.oracle.add(segment)
        self.oracle.given.add(segment.id)
        assert segment.head.root == self.oracle.root(segment.id)
        return segment


@settings(max_examples=1500, deadline=None)
@given(scripts)
def test_a_noop_entangles_exactly_the_maximal_held_noops_and_endorses_by_the_definition(
    script: list[Step],
) -> None:
    world = World()
    world.run(script)
    newest = world.close()
    assert world.oracle.covered_by(newest.id) == world.oracle.held()
    assert world.holding.fresh == 0
    endorsed = world.oracle.endorsed(newest.id)
    assert {key.public: world.holding.endorses(key.public) for key in KEYS[1:]} == {
        key.public: endorsed.get(key.public) for key in KEYS[1:]
    }


@settings(max_examples=200, deadline=None)
@given(scripts, st.integers(1, 2))
def test_with_more_to_entangle_than_fits_a_noop_the_next_ones_take_the_rest(script: list[Step], refs_max: int) -> None:
    world = World(refs_max)
    world.run(script)
    for _ in range(len(world.made) + 1):
        newest = world.close()
    assert world.oracle.covered_by(newest.id) == world.oracle.held()


@settings(max_examples=200, deadline=None)
@given(scripts, st.randoms(use_true_random=False))
def test_the_order_in_which_segments_come_changes_nothing_of_the_next_noop(script: list[Step], random: object) -> None:
    world = World()
    world.run(script)
    given_ids = [segment for segment in world.made if segment.id in world.oracle.given]
    shuffled = list(given_ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = Holding(SWARM, OWN.public, REFS_MAX)
    own = [segment for segment in world.oracle.noops.values() if segment.head.author == OWN.public]
    for segment in own:
        _catch_up(other, world.oracle, segment, given_ids)
        other.advance(segment)
    for segment in shuffled:
        other.receive(segment)
    assert other.close(OWN, 0, []) == world.holding.close(OWN, 0, [])


def _catch_up(holding: Holding, oracle: Oracle, own: Segment, segments: list[Segment]) -> None:
    """Give what an own noop covers: it was held when that noop was signed."""
    past = oracle.covered_by(own.id)
    for segment in segments:
        if segment.id in past:
            holding.receive(segment)


@settings(max_examples=100, deadline=None)
@given(scripts)
def test_own_segments_given_back_by_others_are_ignored(script: list[Step]) -> None:
    world = World()
    world.run(script)
    own = world.close()
    assert world.holding.receive(own) == []
    assert world.holding.newest == own.id
