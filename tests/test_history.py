"""The history of a swarm, against an oracle that follows the definitions of the design with plain sets."""

from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from state import merkle
from state.config import Rule
from state.head import NO_PREVIOUS
from state.history import First, Gap, History, Standing, quorum
from state.lines import Lines, fits_root
from state.segment import Ref, Segment, decode_refs, judge
from tests.loglab import AUTHORS, START_MS, SWARM, Copy, histories, noop

Copies = list[Copy]


@st.composite
def woven(draw: st.DrawFn, size: int = 16) -> Copies:
    """Histories with complete pasts, for the most part: forks at any depth, refs to anything, few losses."""
    made: list[Segment] = []
    copies: Copies = []
    for step in range(draw(st.integers(1, size))):
        author = draw(st.sampled_from(AUTHORS))
        own = [segment for segment in made if segment.head.author == author]
        parent = own[-1] if own else None
        if own and draw(st.integers(0, 4)) == 0:
            parent = draw(st.sampled_from([None, *own]))
        index, previous = (parent.head.index + 1, parent.id) if parent else (1, NO_PREVIOUS)
        others = [segment for segment in made if segment.head.author != author]
        refs = {segment.ref for segment in draw(st.lists(st.sampled_from(others), max_size=3))} if others else set()
        segment = noop(author, index, previous, step, refs=sorted(refs))
        made.append(segment)
        if draw(st.integers(0, 19)):
            copies.append(Copy(segment, START_MS + draw(st.integers(0, 50))))
    return copies


ANY_HISTORY = st.one_of(woven(), histories())


class Oracle:
    """The definitions, word by word, by recursion over sets."""

    def __init__(self, copies: Copies) -> None:
        self.noops = {copy.segment.id: copy.segment for copy in copies}
        self.times_ms: dict[bytes, int] = {}
        for segment, time_ms in copies:
            self.times_ms[segment.id] = min(time_ms, self.times_ms.get(segment.id, time_ms))
        self.past = cache(self._past)

    def named(self, r: bytes) -> set[Ref]:
        head = self.noops[r].head
        previous = [Ref(head.author, head.index - 1, head.previous)] if head.previous != NO_PREVIOUS else []
        return {*previous, *decode_refs(self.noops[r].refs)}

    def is_held(self, name: Ref) -> bool:
        return name.id in self.noops and self.noops[name.id].ref == name

    def _past(self, r: bytes) -> frozenset[bytes]:
        """What r covers, itself included."""
        return frozenset([r]).union(*(self.past(name.id) for name in self.named(r) if self.is_held(name)))

    def missing(self, r: bytes) -> set[tuple[bytes, Ref]]:
        return {(s, name) for s in self.past(r) for name in self.named(s) if not self.is_held(name)}

    def log_below(self, r: bytes) -> set[bytes]:
        head = self.noops[r].head
        previous = Ref(head.author, head.index - 1, head.previous)
        return {r} | (self.log_below(previous.id) if self.is_held(previous) else set())

    def conflict(self, a: bytes, b: bytes) -> bool:
        one_author = self.noops[a].head.author == self.noops[b].head.author
        return one_author and a not in self.log_below(b) and b not in self.log_below(a)

    def endorses(self, r: bytes, x: bytes) -> bool:
        past = self.past(r)
        return x in past and not self.missing(r) and not any(self.conflict(x, y) for y in past)

    def first(self, found: list[bytes]) -> dict[bytes, First]:
        firsts: dict[bytes, First] = {}
        for author in {self.noops[r].head.author for r in found}:
            own = [First(self.times_ms[r], r) for r in found if self.noops[r].head.author == author]
            firsts[author] = min(own)
        return firsts

    def lines(self, r: bytes) -> list[Ref]:
        own = self.noops[r].head.author
        endorsed = [self.noops[x].ref for x in self.past(r) if self.endorses(r, x)]
        authors = sorted({ref.author for ref in endorsed} - {own})
        return [max((ref for ref in endorsed if ref.author == a), key=lambda ref: ref.index) for a in authors]

    def distance(self, r: bytes, x: bytes) -> int:
        hops, edge = 0, {r}
        while x not in edge:
            edge = {name.id for s in edge for name in self.named(s) if self.is_held(name)}
            hops += 1
        return hops


def history_of(copies: Copies, *, from_start: bool = True) -> History:
    return History(SWARM, copies, from_start=from_start)


@given(ANY_HISTORY)
@settings(max_examples=150, deadline=None)
def test_who_covers_and_who_endorses_a_noop_is_as_the_definitions_say(copies: Copies) -> None:
    oracle, history = Oracle(copies), history_of(copies)
    for x in oracle.noops:
        standing = Standing(history, x)
        assert standing.covered_by == oracle.first([r for r in oracle.noops if x in oracle.past(r)])
        assert standing.endorsing == {r for r in oracle.noops if oracle.endorses(r, x)}
        assert standing.endorsed_by == oracle.first([r for r in oracle.noops if oracle.endorses(r, x)])


@given(ANY_HISTORY)
@settings(max_examples=100, deadline=None)
def test_a_noop_that_covers_and_does_not_endorse_has_a_reason_that_is_true(copies: Copies) -> None:
    oracle, history = Oracle(copies), history_of(copies)
    for x in oracle.noops:
        standing = Standing(history, x)
        for r in oracle.noops:
            gap, rival = history.gap(r), standing.contradiction(r)
            assert (gap is None) == (not oracle.missing(r))
            assert gap is None or (gap.referrer.id, gap.missing) in oracle.missing(r)
            assert rival is None or (rival.id in oracle.past(r) and oracle.conflict(rival.id, x))
            assert oracle.endorses(r, x) == (x in oracle.past(r) and gap is None and rival is None)


@given(ANY_HISTORY)
@settings(max_examples=100, deadline=None)
def test_the_way_down_is_a_shortest_one_and_each_hop_is_named(copies: Copies) -> None:
    oracle, history = Oracle(copies), history_of(copies)
    for x in oracle.noops:
        standing = Standing(history, x)
        for r in (r for r in oracle.noops if x in oracle.past(r)):
            way = standing.way_from(r)
            assert (way[0].id, way[-1].id, len(way) - 1) == (r, x, oracle.distance(r, x))
            assert all(lower.ref in oracle.named(upper.id) for upper, lower in pairwise(way))


@given(ANY_HISTORY)
@settings(max_examples=150, deadline=None)
def test_the_lines_of_a_noop_are_the_newest_that_it_endorses(copies: Copies) -> None:
    oracle = Oracle(copies)
    lines = Lines(history_of(copies))
    found = {segment.id: lines.lines(segment, past) for segment, past in lines.pasts()}
    assert found == {r: oracle.lines(r) for r in oracle.noops if not oracle.missing(r)}


@given(ANY_HISTORY, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_neither_order_nor_copies_change_an_answer(copies: Copies, chance: Random) -> None:
    shuffled = [*copies, *chance.sample(copies, len(copies) // 2)]
    chance.shuffle(shuffled)
    one, other = history_of(copies), history_of(shuffled)
    assert list(one.segments) == list(other.segments)
    for x in one.segments:
        ours, theirs = Standing(one, x), Standing(other, x)
        assert ours.endorsed_by == theirs.endorsed_by
        assert [ours.way_from(first.id) for first in ours.covered_by.values()] == [
            theirs.way_from(ours.covered_by[author].id) for author in ours.covered_by
        ]
        assert one.gap(x) == other.gap(x)


def test_segments_of_another_swarm_are_left_out() -> None:
    first = noop(AUTHORS[0], 1, NO_PREVIOUS)
    assert not History(bytes(32), [(first, START_MS)]).segments


def test_a_name_with_the_wrong_index_or_author_is_a_name_of_nothing() -> None:
    alice, bob, _ = AUTHORS
    first = noop(alice, 1, NO_PREVIOUS)
    wrong_index = noop(bob, 1, NO_PREVIOUS, refs=[Ref(alice, 2, first.id)])
    wrong_author = noop(bob, 2, first.id)
    history = history_of([Copy(s, START_MS) for s in (first, wrong_index, wrong_author)])
    assert set(Standing(history, first.id).covered_by) == {alice}
    assert history.gap(wrong_index.id) == Gap(wrong_index, Ref(alice, 2, first.id))
    assert history.gap(wrong_author.id) == Gap(wrong_author, Ref(bob, 1, first.id))
    assert history.chain_below(wrong_author.id) == [wrong_author]


def test_the_least_of_several_signatures_stands_for_a_head() -> None:
    first = noop(AUTHORS[0], 1, NO_PREVIOUS)
    copies = [Copy(first._replace(signature=bytes([n]) * 64), START_MS + n) for n in (3, 1, 2)]
    history = history_of(copies)
    assert history.segments[first.id].signature == bytes([1]) * 64
    assert history.times_ms[first.id] == START_MS + 1


def test_what_is_older_than_the_topic_is_not_missing_when_its_beginning_has_expired() -> None:
    alice, bob, carol = AUTHORS
    early = noop(alice, 1, NO_PREVIOUS)
    held = noop(alice, 2, early.id)
    observer = noop(bob, 5, bytes([5]) * 32, refs=[held.ref])
    lost = noop(bob, 7, bytes([7]) * 32, refs=[held.ref, Ref(carol, 1, bytes([1]) * 32)])
    copies = [Copy(s, START_MS) for s in (held, observer, lost)]
    assert not Standing(history_of(copies), held.id).endorsing
    expired = history_of(copies, from_start=False)
    assert Standing(expired, held.id).endorsing == {held.id, observer.id}
    lines = Lines(expired)
    found = {segment.id: lines.lines(segment, past) for segment, past in lines.pasts()}
    assert found == {held.id: [], observer.id: [held.ref]}


def test_beyond_a_gap_nothing_is_called_another_version() -> None:
    alice = AUTHORS[0]
    first = noop(alice, 1, NO_PREVIOUS)
    second = noop(alice, 2, first.id)
    third, rival = noop(alice, 3, second.id), noop(alice, 2, first.id, 1)
    gapped = history_of([Copy(s, START_MS) for s in (first, third)])
    assert not gapped.rivals(first.id)
    assert not gapped.rivals(third.id)
    forked = history_of([Copy(s, START_MS) for s in (first, second, third, rival)])
    assert [segment.id for segment in forked.rivals(third.id)] == [rival.id]
    assert [segment.id for segment in forked.rivals(rival.id)] == [second.id]
    assert not forked.rivals(first.id)


def test_a_shared_previous_tells_another_version_even_if_the_index_is_wrong() -> None:
    first = noop(AUTHORS[0], 1, NO_PREVIOUS)
    second, leap = noop(AUTHORS[0], 2, first.id), noop(AUTHORS[0], 7, first.id)
    history = history_of([Copy(s, START_MS) for s in (first, second, leap)])
    assert history.rivals(second.id) == [leap]
    assert history.chain_below(leap.id) == [leap]


def test_a_peer_that_has_another_version_can_endorse_no_more() -> None:
    alice, bob, carol = AUTHORS
    one, other = noop(alice, 1, NO_PREVIOUS), noop(alice, 1, NO_PREVIOUS, 1)
    observer = noop(bob, 1, NO_PREVIOUS, refs=[other.ref])
    standing = Standing(history_of([Copy(s, START_MS) for s in (one, other, observer)]), one.id)
    assert not standing.can_endorse(bob)
    assert standing.can_endorse(carol)


def test_the_author_counts_even_if_others_came_before_it() -> None:
    alice, bob, carol = AUTHORS
    firsts = {alice: First(9, b"a"), bob: First(1, b"b"), carol: First(1, b"c")}
    found = quorum(firsts, alice, AUTHORS, Rule("2", 2, 3))
    assert found is not None
    assert set(found) == {alice, min(bob, carol)}
    assert quorum(firsts, alice, [alice, bob], Rule("everyone", 3, 3)) is None
    assert quorum(firsts, alice, [bob, carol], Rule("1", 1, 2)) is None
    assert quorum({bob: First(1, b"b")}, alice, AUTHORS, Rule("1", 1, 3)) is None


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_root_that_a_simulated_peer_signed_fits_its_past(name: str) -> None:
    simulation = SCENARIOS[name].run(Settings(peers=max(5, SCENARIOS[name].peers_min), duration_ms=20_000))
    judged = [(judge(record.value, simulation.config.authors), record.time_ms) for record in simulation.records]
    copies = [(segment, time_ms) for segment, time_ms in judged if isinstance(segment, Segment)]
    lines = Lines(History(simulation.config.swarms[0].key, copies))
    unfit = [segment.ref for segment, past in lines.pasts() if not fits_root(segment, lines.lines(segment, past))]
    assert not unfit


def test_the_seeds_example_is_known_as_the_seed_says() -> None:
    simulation = SCENARIOS["seed-example"].run(Settings())
    swarm = simulation.config.swarms[0]
    judged = [(judge(record.value, simulation.config.authors), record.time_ms) for record in simulation.records]
    history = History(swarm.key, [(segment, time_ms) for segment, time_ms in judged if isinstance(segment, Segment)])
    members = swarm.epochs[0].members

    def newest(rule: Rule) -> dict[str, str]:
        known = {}
        for author, log in history.logs.items():
            for segment in log:
                if quorum(Standing(history, segment.id).covered_by, author, members, rule):
                    known[swarm.authors[author]] = f"{(history.times_ms[segment.id] - Settings().start_ms) // 1000}"
        return known

    assert newest(Rule("everyone", 3, 3)) == {"A": "2", "B": "3", "C": "1"}
    assert newest(Rule("majority", 2, 3)) == {"A": "2", "B": "3", "C": "4"}


def test_a_noop_without_lines_signs_the_root_of_the_empty_tree() -> None:
    first = noop(AUTHORS[0], 1, NO_PREVIOUS)
    assert not fits_root(first, [])
    assert fits_root(first._replace(head=first.head._replace(root=merkle.EMPTY_ROOT)), [])
