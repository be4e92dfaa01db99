"""The matrix of a tick, put together from the reports of its blocks, in whatever order they come."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import permutations
from random import Random

import msgspec
import numpy as np
import pytest

from state.grid import TICKS_WAITING_MAX, Grid, GridMaker, branch_letter, join_blocks, node_letters
from state.report import Cells, Node, Report, decode_report, pack_cells
from tests.loglab import START_MS, SWARM
from tests.matrixlab import PEERS, batches_of, history, matrix_config, run_columns

SPLIT_AFTER_MS = 1000


def node(number: int, branch: bytes = b"", newest_ms: int = START_MS) -> Node:
    return Node(PEERS[number], branch, 5, newest_ms, START_MS - 60_000)


NODES = [node(0), node(1, b"a"), node(1, b"b"), node(2)]


def report(
    block: int, columns: Iterable[int], *, blocks: int = 2, tick_ms: int = START_MS, nodes: list[Node] = NODES
) -> Report:
    """A block's columns. How much observer x lacks of author y is 10 x + y, so each cell is known by its number."""
    columns = list(columns)
    lags = np.array([[10 * row + column for row in range(len(nodes))] for column in columns], np.uint8)
    cells = Cells(lags % 2 == 0, lags, lags // 10, np.zeros_like(lags))
    return Report(
        SWARM,
        block,
        blocks,
        tick_ms,
        0,
        nodes,
        columns,
        *pack_cells(cells),
        intervals_ms=[0] * len(columns),
        withheld=[],
    )


def is_whole(grid: Grid | None) -> bool:
    if grid is None:
        return False
    want = np.add.outer(10 * np.arange(len(grid.nodes)), np.arange(len(grid.nodes)))
    same = [np.array_equal(grid.lags, want), np.array_equal(grid.ages, want // 10)]
    return all(same) and np.array_equal(grid.fresh, want % 2 == 0)


PARTS = [report(0, [0, 2], blocks=3), report(1, [1], blocks=3), report(2, [3], blocks=3)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_grid_is_there_when_all_blocks_have_reported_in_any_order(order: tuple[int, ...]) -> None:
    maker = GridMaker()
    *first, last = (maker.add(PARTS[at]) for at in order)
    assert first == [None, None]
    assert is_whole(last)


def test_a_report_that_comes_again_changes_nothing() -> None:
    maker = GridMaker()
    assert [maker.add(PARTS[at]) for at in (0, 0, 1, 0, 1)] == [None] * 5
    assert is_whole(maker.add(PARTS[2]))
    assert maker.add(PARTS[2]) is None


def test_ticks_are_put_together_apart() -> None:
    maker = GridMaker()
    early, late = ([msgspec.structs.replace(one, tick_ms=tick_ms) for one in PARTS] for tick_ms in (1000, 2000))
    for one, other in zip(early[:2], late[:2], strict=True):
        assert maker.add(one) is None
        assert maker.add(other) is None
    for parts in (late, early):
        grid = maker.add(parts[2])
        assert is_whole(grid)
        assert grid is not None
        assert grid.tick_ms == parts[2].tick_ms


@pytest.mark.parametrize(
    "other",
    [report(0, [0, 1], nodes=[*NODES[:3], node(3)]), report(0, [0, 1], nodes=NODES[:3]), report(0, [0], blocks=3)],
    ids=["other nodes", "fewer nodes", "other blocks"],
)
def test_reports_that_do_not_fit_each_other_are_never_joined_and_the_later_one_counts(other: Report) -> None:
    maker = GridMaker()
    assert maker.add(other) is None
    assert maker.add(report(1, [2, 3])) is None
    assert is_whole(maker.add(report(0, [0, 1])))


def test_reports_that_wait_for_ever_do_not_fill_the_memory_and_do_not_keep_new_ticks_waiting() -> None:
    maker = GridMaker()
    for number in range(3 * TICKS_WAITING_MAX):
        assert maker.add(report(0, [0, 1], tick_ms=number)) is None
        assert len(maker._waiting) <= TICKS_WAITING_MAX
    newest = 3 * TICKS_WAITING_MAX - 1
    assert maker.add(report(1, [2, 3], tick_ms=0)) is None
    assert is_whole(maker.add(report(1, [2, 3], tick_ms=newest)))
    assert is_whole(maker.add(report(1, [2, 3], tick_ms=newest - TICKS_WAITING_MAX // 2)))


@pytest.mark.parametrize("seed", range(12))
def test_the_grid_of_a_tick_does_not_depend_on_the_number_of_blocks(seed: int) -> None:
    copies = history(Random(seed))
    grids = []
    for blocks in (1, 3):
        batches = batches_of(Random(seed), copies)
        maker, found = GridMaker(), {}
        reports = list(run_columns(matrix_config(blocks=blocks), batches, reopen=False, deep=False).reports.values())
        Random(seed).shuffle(reports)
        for encoded in reports:
            grid = maker.add(decode_report(encoded))
            if grid is not None:
                found[grid.tick_ms] = grid
        assert len(reports) == blocks * len(found)
        grids.append(found)
    one, three = grids
    assert one
    assert one.keys() == three.keys()
    for tick_ms, grid in one.items():
        other = three[tick_ms]
        assert grid.nodes == other.nodes
        for cells in ("lags", "ages", "fresh"):
            assert np.array_equal(getattr(grid, cells), getattr(other, cells)), (tick_ms, cells)


def test_a_swarm_without_nodes_has_a_grid_without_cells() -> None:
    grid = join_blocks([report(0, [], nodes=[], blocks=1)])
    assert (grid.nodes, grid.lags.shape) == ([], (0, 0))
    assert grid.active(matrix_config().swarms[0]).tolist() == []


# Who counts, and how nodes are called.


def test_a_node_is_active_for_as_long_as_a_split_takes() -> None:
    (swarm,) = matrix_config().swarms
    ages_ms = [0, SPLIT_AFTER_MS - 1, SPLIT_AFTER_MS, 60_000]
    nodes = [node(at, newest_ms=START_MS - age_ms) for at, age_ms in enumerate(ages_ms)]
    grid = join_blocks([report(0, range(4), blocks=1, nodes=nodes)])
    assert grid.active(swarm).tolist() == [True, True, False, False]


def test_among_the_active_nobody_misses_what_the_silent_have_or_is_missed_by_them() -> None:
    (swarm,) = matrix_config().swarms
    nodes = [node(0), node(1), node(2, newest_ms=START_MS - 60_000), node(3)]
    grid = join_blocks([report(0, range(4), blocks=1, nodes=nodes)])
    among = grid.among_active(swarm)
    want = defaultdict(int, {(row, column): 10 * row + column for row in (0, 1, 3) for column in (0, 1, 3)})
    assert among.lags.tolist() == [[want[row, column] for column in range(4)] for row in range(4)]
    assert among.ages.tolist() == [[want[row, column] // 10 for column in range(4)] for row in range(4)]
    assert among.nodes == nodes
    assert np.array_equal(among.fresh, grid.fresh)
    assert is_whole(grid)


def test_branches_have_letters_in_the_order_of_their_ids_and_peers_that_never_forked_have_none() -> None:
    nodes = [node(0), node(1, b"mm"), node(1, b"aa"), node(1, b"zz"), node(2, b"only one goes on"), node(3)]
    assert node_letters(nodes) == ["", "b", "a", "c", "a", ""]
    assert node_letters([]) == []


def test_letters_go_on_as_numbers_so_that_no_two_branches_share_one() -> None:
    letters = node_letters([node(0, b"%03d" % number) for number in range(64)])
    assert letters[:2] + letters[25:28] == ["a", "b", "z", "27", "28"]
    assert len(set(letters)) == 64
    assert letters == [branch_letter(at) for at in range(64)]
