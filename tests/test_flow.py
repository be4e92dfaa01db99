"""The picture of one tick: it is what brute force over sets sees, and it tells the stories apart that it must."""

from dataclasses import dataclass, field, replace
from itertools import product
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.config import Config, parse_config
from state.flow import Flow, Parting, Picture, components, draw_picture, find_sides, make_graph, make_sheet, nodes_of
from state.report import AGE_MAX, Cells, Node, Report, decode_report, encode_report, pack_cells
from state.signing import SigningKey

SWARM = b"\5" * 32
PEERS = sorted(SigningKey(bytes([n]) * 32).public for n in range(1, 7))
A, B, C, D, E, F = PEERS
SPLIT_AFTER_MS = 5000
STEP_MS = 1000
START_MS = 1_700_000_000_000
FRESH, OLD = 100, SPLIT_AFTER_MS
"""How long ago an active node's newest noop came, and a silent one's."""


def flow_config(blocks: int = 1) -> Config:
    roster = "".join(f"          peer-{n}: '{peer.hex()}'\n" for n, peer in enumerate(PEERS))
    return parse_config(
        f"swarms:\n  - id: '{SWARM.hex()}'\n    name: lab\n    blocks: {blocks}\n    epochs:\n"
        f"      - start: 2020-01-01T00:00:00Z\n        split_after: {SPLIT_AFTER_MS}ms\n        roster:\n{roster}"
    )


EPOCH = flow_config().swarms[0].epochs[0]


class Being(NamedTuple):
    """A node as a story tells it; times are ages at the tick."""

    author: bytes
    branch: bytes = b""
    newest_age_ms: int = FRESH
    since_age_ms: int = 100 * SPLIT_AFTER_MS
    index: int = 7

    @property
    def is_active(self) -> bool:
        return self.newest_age_ms < SPLIT_AFTER_MS

    @property
    def is_member(self) -> bool:
        return self.is_active and self.since_age_ms >= SPLIT_AFTER_MS


@dataclass(frozen=True)
class Scene:
    """All that blocks know at a tick; cells are (author's node, observer's node)."""

    beings: list[Being]
    fresh: set[tuple[int, int]]
    lagging: set[tuple[int, int]] = field(default_factory=set)
    contacts: dict[tuple[int, int], int] = field(default_factory=dict)
    intervals_ms: list[int] = field(default_factory=list)
    withheld: dict[bytes, list[int]] = field(default_factory=dict)

    def reports(self, tick_ms: int, *, before_ms: int = 0, blocks: int = 1) -> list[Report]:
        return [self._report(tick_ms, before_ms, block, blocks) for block in range(blocks)]

    def _report(self, tick_ms: int, before_ms: int, block: int, blocks: int) -> Report:
        nodes = [
            Node(one.author, one.branch, one.index, tick_ms - one.newest_age_ms, tick_ms - one.since_age_ms)
            for one in self.beings
        ]
        columns = [at for at, node in enumerate(nodes) if node.author[0] % blocks == block]
        shape = (len(columns), len(nodes))
        cells = Cells(*(np.zeros(shape, kind) for kind in (np.bool_, np.uint8, np.uint8, np.uint8)))
        for row, observer in product(range(shape[0]), range(shape[1])):
            cell = (columns[row], observer)
            cells.fresh[row, observer] = cell in self.fresh
            cells.lags[row, observer] = cell in self.lagging
            cells.contacts[row, observer] = self.contacts.get(cell, AGE_MAX)
        intervals = [self.intervals_ms[at] if self.intervals_ms else STEP_MS for at in columns]
        withheld = [(author, by) for author, by in sorted(self.withheld.items()) if author[0] % blocks == block]
        report = Report(
            SWARM, block, blocks, tick_ms, before_ms, nodes, columns, *pack_cells(cells), intervals, withheld
        )
        return decode_report(encode_report(report))

    def picture(self, tick_ms: int = START_MS, blocks: int = 1) -> Picture:
        return draw_picture([make_sheet(report, EPOCH) for report in self.reports(tick_ms, blocks=blocks)], EPOCH)


def meshes(beings: list[Being], *camps: str, one_way: str = "") -> Scene:
    """Nodes named by letters in their order: all of a camp hear each other; `one_way` "ab cd" says a is heard by b."""
    fresh = {cell for camp in camps for cell in product(map(_number, camp), repeat=2)}
    fresh |= {(_number(link[0]), _number(link[1])) for link in one_way.split()}
    return Scene(beings, fresh)


def _number(letter: str) -> int:
    return "abcdefgh".index(letter)


def peers(count: int) -> list[Being]:
    return [Being(peer) for peer in PEERS[:count]]


# The slow, obviously right answer


def naive_picture(scene: Scene, tick_ms: int) -> Picture:
    beings = scene.beings
    present = {one.author for one in beings if one.is_active}
    silent = {
        author: tick_ms - min(one.newest_age_ms for one in beings if one.author == author)
        for author in {one.author for one in beings} - present
    }
    intervals = sorted(ms for one, ms in zip(beings, scene.intervals_ms, strict=True) if ms and not one.branch)
    median = intervals[(len(intervals) - 1) // 2] if intervals else 0
    if 3 * median > SPLIT_AFTER_MS:
        return Picture(tick_ms, silent, median, None)
    members = {at for at, one in enumerate(beings) if one.is_member}
    if not {at for at in members if not beings[at].branch}:
        return Picture(tick_ms, silent, None, None)
    return Picture(tick_ms, silent, None, _naive_flow(scene, members, tick_ms))


def _naive_flow(scene: Scene, members: set[int], tick_ms: int) -> Flow:
    beings = scene.beings
    paths = {(one, other) for one, other in scene.fresh if {one, other} <= members} | {(at, at) for at in members}
    for through, one, other in product(members, repeat=3):
        if (one, through) in paths and (through, other) in paths:
            paths.add((one, other))
    both_ways = {at: frozenset(o for o in members if {(at, o), (o, at)} <= paths) for at in members}
    named = {
        side: sorted(beings[at].author for at in side if not beings[at].branch) for side in set(both_ways.values())
    }
    sides = sorted((side for side in named if named[side]), key=lambda side: (-len(named[side]), named[side]))
    main = sides[0]

    def leads(one: frozenset[int], other: frozenset[int]) -> bool:
        return any(pair in paths for pair in product(one, other))

    hears = sorted(peer for side in sides[1:] for peer in named[side] if leads(main, side))
    heard = sorted(peer for side in sides[1:] for peer in named[side] if leads(side, main))
    others = [side for side in sides[1:] if not leads(main, side) and not leads(side, main)]
    if not others:
        return Flow(hears, heard, None)
    parted = [main, *sorted(others, key=lambda side: named[side])]
    suspects = set()
    for one, other in product(parted, repeat=2):
        if one == other:
            continue
        authors_here, authors_there = ({beings[at].author for at in side} for side in (one, other))
        forked = {beings[at].author for at in members if beings[at].branch}
        suspects |= {(author, "forked") for author in authors_here & authors_there & forked}
        suspects |= {
            (author, "withheld") for author, by in scene.withheld.items() if set(by) & one and author in authors_there
        }
        for side in sides:
            touches = [leads(side, each) or leads(each, side) for each in (one, other)]
            if all(touches) and side not in parted and set(named[side]) & {*hears, *heard}:
                suspects |= {(author, "one_way") for author in named[side]}
    ages = [
        scene.contacts.get(cell, AGE_MAX)
        for side in others
        for x, y in product(main, side)
        for cell in ((x, y), (y, x))
        if not beings[x].branch and not beings[y].branch
    ]
    links: dict[bytes, int] = {}
    active = {one.author for one in beings if one.is_active}
    for at, one in enumerate(beings):
        covering = [side for side in parted if any((at, x) not in scene.lagging for x in side)]
        if one.author not in active and one.index and len(covering) > 1:
            links[one.author] = max(links.get(one.author, 0), tick_ms - one.newest_age_ms)
    contact_ms = 0 if min(ages) == AGE_MAX else tick_ms - STEP_MS * min(ages)
    return Flow(hears, heard, Parting([named[side] for side in parted], contact_ms, sorted(suspects), links))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Camps of peers and branches with some links cut or added; one is linked one way, some are silent or wake up."""
    newest_ages = st.sampled_from([*[FRESH] * 8, OLD - 1, OLD, 3 * OLD, 5 * OLD, 6 * OLD])
    since_ages = st.sampled_from([*[100 * OLD] * 8, OLD, OLD - 1])
    indexes = st.sampled_from([7, 7, 7, 0])
    beings = []
    for peer in PEERS[: draw(st.integers(1, 6))]:
        branches = draw(st.sampled_from([*[[b""]] * 4, [b"\1"], [b"\1", b"\2"]]))
        beings += [Being(peer, branch, draw(newest_ages), draw(since_ages), draw(indexes)) for branch in branches]
    cells = list(product(range(len(beings)), repeat=2))
    camps = [draw(st.integers(0, 2)) for _ in beings]
    some_cells = st.sets(st.sampled_from(cells), max_size=6)
    fresh = {(y, x) for y, x in cells if camps[y] == camps[x]} ^ draw(some_cells)
    for at in draw(st.sets(st.sampled_from(range(len(beings))), max_size=1)):
        hears_all = draw(st.booleans())
        fresh = {cell for cell in fresh if at not in cell}
        fresh |= {(other, at) if hears_all else (at, other) for other in range(len(beings))}
    named_by = st.lists(st.sampled_from(range(len(beings))), max_size=3, unique=True).map(sorted)
    return Scene(
        beings,
        fresh,
        draw(some_cells),
        draw(st.dictionaries(st.sampled_from(cells), st.integers(0, AGE_MAX), max_size=12)),
        draw(st.lists(st.sampled_from([0, 1000, 1666, 1667]), min_size=len(beings), max_size=len(beings))),
        draw(st.dictionaries(st.sampled_from([one.author for one in beings]), named_by, max_size=2)),
    )


@settings(max_examples=600, deadline=None)
@given(scenes(), st.sampled_from([1, 2, 4]))
def test_a_picture_is_what_brute_force_over_sets_sees_in_any_number_of_blocks(scene: Scene, blocks: int) -> None:
    assert scene.picture(START_MS, blocks) == naive_picture(scene, START_MS)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 12), st.data())
def test_components_are_what_reaches_each_other(size: int, data: st.DataObject) -> None:
    links = data.draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=3 * size))
    fresh = np.zeros((size, size), bool)
    for link in links:
        fresh[link] = True
    paths = links | {(at, at) for at in range(size)}
    for through, one, other in product(range(size), repeat=3):
        if (one, through) in paths and (through, other) in paths:
            paths.add((one, other))
    want = {frozenset(o for o in range(size) if {(at, o), (o, at)} <= paths) for at in range(size)}
    found = components(make_graph(fresh))
    assert len(found) == len(want)
    assert {frozenset(nodes_of(one)) for one in found} == want


@pytest.mark.parametrize("shape", ["whole", "chain", "apart", "ring"])
def test_the_largest_roster_is_judged_in_well_under_a_tick(shape: str) -> None:
    """Some 0.3 s for each of these; a way that goes along every link would take minutes for some of them."""
    size = 4096
    ring = np.roll(np.eye(size, dtype=bool), 1, axis=1)
    makers = {"whole": np.ones((size, size), bool), "chain": np.triu(np.ones((size, size), bool)), "ring": ring}
    fresh = makers.get(shape, np.eye(size, dtype=bool))
    started = perf_counter()
    sides = find_sides(make_graph(fresh), (1 << size) - 1)
    assert perf_counter() - started < 5
    assert sides.main.bit_count() == (size if shape in {"whole", "ring"} else 1)
    assert len(sides.others) == (size - 1 if shape == "apart" else 0)
    assert sides.hears.bit_count() == (size - 1 if shape == "chain" else 0)


# Stories


def flow_of(scene: Scene) -> Flow:
    flow = scene.picture().flow
    assert flow is not None
    return flow


def parting_of(scene: Scene) -> Parting:
    parting = flow_of(scene).parting
    assert parting is not None
    return parting


def test_a_swarm_in_which_all_hear_each_other_over_others_is_whole() -> None:
    assert flow_of(meshes(peers(5), "abc", "cde")) == Flow([], [], None)


def test_two_sides_are_listed_with_the_larger_one_first() -> None:
    assert parting_of(meshes(peers(5), "ab", "cde")).sides == [[C, D, E], [A, B]]


def test_at_a_tie_the_side_with_the_smallest_key_is_the_main_one() -> None:
    assert parting_of(meshes(peers(4), "bd", "ac")).sides == [[A, C], [B, D]]


def test_forked_peers_do_not_make_a_side_larger() -> None:
    beings = [Being(A), Being(B), Being(C, b"\1"), Being(C, b"\2"), Being(D), Being(E)]
    assert parting_of(meshes(beings, "ab", "cdef")).sides == [[A, B], [D, E]]


def test_one_who_hears_both_sides_and_relays_nothing_does_not_hide_the_split() -> None:
    flow = flow_of(meshes(peers(5), "ab", "cd", one_way="ae ce"))
    assert flow.hears == [E]
    assert flow.parting is not None
    assert flow.parting.sides == [[A, B], [C, D]]
    assert flow.parting.suspects == [(E, "one_way")]


def test_one_who_speaks_to_both_sides_and_hears_nobody_does_not_hide_the_split_either() -> None:
    flow = flow_of(meshes(peers(5), "ab", "cd", one_way="ea ec"))
    assert flow.heard == [E]
    assert flow.parting is not None
    assert flow.parting.suspects == [(E, "one_way")]


def test_one_who_hears_the_main_side_only_is_no_suspect() -> None:
    flow = flow_of(meshes(peers(5), "ab", "cd", one_way="ae"))
    assert flow.hears == [E]
    assert flow.parting is not None
    assert flow.parting.suspects == []


def test_one_who_is_heard_and_hears_nobody_is_one_way_and_no_side() -> None:
    assert flow_of(meshes(peers(3), "ab", one_way="ca")) == Flow([], [C], None)


def test_an_orphan_branch_of_a_liar_is_no_side() -> None:
    beings = [Being(A), Being(B), Being(C, b"\1"), Being(C, b"\2")]
    assert flow_of(meshes(beings, "abc", "d")) == Flow([], [], None)


def test_a_path_through_a_liars_branch_is_a_path() -> None:
    beings = [Being(A), Being(B), Being(C, b"\1"), Being(C, b"\2")]
    assert flow_of(meshes(beings, "a", "b", one_way="ac cb bd da")) == Flow([], [], None)


def test_a_liar_with_a_branch_on_each_side_is_a_suspect() -> None:
    beings = [Being(A), Being(B), Being(C, b"\1"), Being(C, b"\2"), Being(D)]
    parting = parting_of(meshes(beings, "abc", "de"))
    assert parting.sides == [[A, B], [D]]
    assert parting.suspects == [(C, "forked")]


def test_one_whose_unpublished_noops_are_named_on_the_other_side_is_a_suspect() -> None:
    whole = meshes(peers(4), "ab", "cd")
    assert parting_of(replace(whole, withheld={A: [2]})).suspects == [(A, "withheld")]
    assert parting_of(replace(whole, withheld={A: [1]})).suspects == []


def test_peers_that_wake_up_after_a_pause_are_not_split() -> None:
    beings = [Being(peer, since_age_ms=SPLIT_AFTER_MS - 1) for peer in PEERS]
    assert meshes(beings).picture() == Picture(START_MS, {}, None, None)
    awake = [*beings[:2], *peers(4)[2:]]
    assert flow_of(meshes(awake, "cd")) == Flow([], [], None)


def test_a_peer_is_silent_only_if_all_its_branches_are() -> None:
    beings = [Being(A), Being(B, b"\1"), Being(B, b"\2", OLD), Being(C, b"\1", OLD), Being(C, b"\2", OLD + 7)]
    assert meshes(beings, "ab").picture().silent == {C: START_MS - OLD}


def test_a_silent_peer_that_both_sides_cover_is_a_link_unless_it_never_said_anything() -> None:
    beings = [Being(A), Being(B), *(Being(peer, newest_age_ms=OLD) for peer in (C, D, E))]
    beings[4] = beings[4]._replace(index=0)
    scene = replace(meshes(beings, "a", "b"), lagging={(3, 1)})
    assert parting_of(scene).links == {C: START_MS - OLD}


def test_the_last_contact_is_the_newest_noop_covered_across_the_border_of_the_main_side() -> None:
    scene = meshes(peers(4), "ab", "c", "d")
    assert parting_of(scene).last_contact_ms == 0
    contacts = {(0, 1): 0, (2, 3): 1, (0, 2): 9, (3, 1): 7}
    assert parting_of(replace(scene, contacts=contacts)).last_contact_ms == START_MS - 7 * STEP_MS


def test_noops_that_are_rare_make_a_tick_undecidable_but_for_silence() -> None:
    beings = [Being(A), Being(B), Being(C, newest_age_ms=OLD)]
    scene = meshes(beings, "a", "b")
    assert replace(scene, intervals_ms=[1666, 1666, 9999]).picture().flow is not None
    assert replace(scene, intervals_ms=[1667, 0, 1667]).picture() == Picture(START_MS, {C: START_MS - OLD}, 1667, None)
