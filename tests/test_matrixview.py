"""The matrix as it is drawn: names, marks, and the chapters of the whole story."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from producers.swarm import Settings
from producers.swarmfile import swarm_config
from state.config import Swarm
from state.grid import Grid, branch_letter
from state.report import Node
from streaming.matrixview import CELL_WIDTH_NARROW, legend, matrix_lines, node_names
from tests.loglab import SWARM
from tests.matrixlab import PEERS
from tests.storylab import watched

TICK_MS = 1_700_000_000_000


def swarm_of(*names: str) -> Swarm:
    roster = {name: key.hex() for name, key in zip(names, PEERS, strict=False)}
    start = datetime(2020, 1, 1, tzinfo=UTC)
    return swarm_config("lab", roster, swarm_id=SWARM.hex(), start=start, split_after="5s").swarms[0]


def nodes_of(swarm: Swarm, forked: str = "", silent: str = "") -> list[Node]:
    branches = {name: (b"\1", b"\2") if name == forked else (b"",) for name in swarm.authors.values()}
    ages_ms = {name: 6000 if name == silent else 500 for name in swarm.authors.values()}
    return [
        Node(author, branch, 9, TICK_MS - ages_ms[name], TICK_MS - 60_000)
        for author, name in sorted(swarm.authors.items())
        for branch in branches[name]
    ]


def matrix_of(nodes: list[Node], **cells: Any) -> Grid:
    shape = (len(nodes), len(nodes))
    plain = {"lags": np.zeros(shape, np.uint8), "ages": np.zeros(shape, np.uint8), "fresh": np.ones(shape, bool)}
    return Grid(TICK_MS, nodes, **(plain | cells))


def styles_of(line: Any, mark: str) -> set[str]:
    return {str(span.style) for span in line.spans if line.plain[span.start : span.end].strip() == mark}


def test_names_lose_what_all_begin_with_up_to_a_separator() -> None:
    def short(*names: str) -> list[str]:
        swarm = swarm_of(*names)
        return [name.short for name in node_names(nodes_of(swarm), swarm)]

    assert sorted(short("peer-1", "peer-10", "peer-11")) == ["1", "10", "11"]
    assert sorted(short("alice", "albert")) == ["albert", "alice"]
    assert sorted(short("eu.a", "us.b")) == ["eu.a", "us.b"]


def test_branches_of_a_forked_peer_have_letters() -> None:
    swarm = swarm_of("peer-1", "peer-2")
    names = node_names(nodes_of(swarm, forked="peer-2"), swarm)
    assert sorted(names) == [("peer-1", "1"), ("peer-2 a", "2a"), ("peer-2 b", "2b")]
    assert [branch_letter(at) for at in (0, 25, 26, 63)] == ["a", "z", "27", "64"]


def test_rows_and_columns_stand_in_the_order_of_the_roster() -> None:
    swarm = swarm_of("peer-3", "peer-1", "peer-2")
    head, *rows = matrix_lines(matrix_of(nodes_of(swarm)), swarm)
    assert head.plain.split() == ["3", "1", "2"]
    assert [row.plain.split()[0] for row in rows] == ["peer-3", "peer-1", "peer-2"]
    assert rows[0].plain.split() == ["peer-3", "╲", "·", "·"]


@pytest.mark.parametrize(
    ("lag", "age", "fresh", "mark", "style"),
    [
        (0, 0, True, "·", "green"),
        (1, 1, True, "1", "green"),
        (2, 2, True, "2", "green"),
        (3, 3, True, "3", "yellow"),
        (6, 6, False, "6!", "bold red"),
        (200, 255, False, "99!", "bold red"),
    ],
)
def test_a_cell_says_how_many_noops_are_missed_and_how_long_that_has_been_so(
    lag: int, age: int, fresh: bool, mark: str, style: str
) -> None:
    swarm = swarm_of("peer-1", "peer-2")
    nodes = nodes_of(swarm)
    row, column = (
        next(at for at, node in enumerate(nodes) if swarm.authors[node.author] == name) for name in ("peer-1", "peer-2")
    )
    matrix = matrix_of(nodes)
    matrix.lags[row, column], matrix.ages[row, column], matrix.fresh[row, column] = lag, age, fresh
    line = matrix_lines(matrix, swarm)[1]
    assert line.plain.split() == ["peer-1", "╲", mark]
    assert styles_of(line, mark) == {style}


def test_a_silent_peer_is_dim_and_in_brackets_and_raises_no_alarm() -> None:
    swarm = swarm_of("peer-1", "peer-2")
    nodes = nodes_of(swarm, silent="peer-2")
    shape = (len(nodes), len(nodes))
    matrix = matrix_of(nodes, lags=np.full(shape, 7, np.uint8), fresh=np.zeros(shape, bool))
    _, one, other = matrix_lines(matrix, swarm)
    assert one.plain.split() == ["peer-1", "╲", "7"]
    assert other.plain.split() == ["(peer-2)", "7", "╲"]
    assert styles_of(other, "7") == {"bright_black"}


def table(second: float) -> dict[str, dict[str, str]]:
    """The drawn cells of the whole story, by row and column."""
    story = watched("whole-story")
    matrix = story.scene_at(second).matrix
    assert matrix is not None
    head, *rows = (line.plain for line in matrix_lines(matrix, story.swarm))
    columns = head.split()
    cells = {}
    for row in rows:
        words = row.split()
        cells[" ".join(words[: -len(columns)]).strip("()")] = dict(zip(columns, words[-len(columns) :], strict=True))
    return cells


def alarms(cells: dict[str, dict[str, str]]) -> set[tuple[str, str]]:
    return {(row, column) for row, marks in cells.items() for column, mark in marks.items() if mark.endswith("!")}


def test_an_honest_swarm_has_eight_nodes_and_no_alarm() -> None:
    cells = table(8)
    assert list(cells) == [f"peer-{number}" for number in range(1, 9)]
    assert alarms(cells) == set()


def test_in_the_split_each_side_misses_all_of_the_other_and_nothing_of_its_own() -> None:
    cells = table(38)
    near, far = ("peer-1", "peer-3", "peer-4"), ("peer-6", "peer-7", "peer-8")
    wrong = alarms(cells)
    for side, other in ((near, far), (far, near)):
        for row in side:
            assert {(row, name[-1]) for name in other} <= wrong
            assert {(row, name[-1]) for name in side}.isdisjoint(wrong)
            assert len({(row, "5a"), (row, "5b")} & wrong) == 1


def test_after_healing_only_the_deaf_liar_misses_anything_for_long() -> None:
    assert {row for row, _ in alarms(table(50))} == {"peer-5 a", "peer-5 b"}
    assert alarms(table(59)) == set()


def test_ten_nodes_and_their_legend_have_room_in_half_a_narrow_terminal() -> None:
    story = watched("whole-story")
    matrix = story.scene_at(38).matrix
    assert matrix is not None
    assert len(matrix.nodes) == 10
    lines = [*matrix_lines(matrix, story.swarm, CELL_WIDTH_NARROW), *legend()]
    assert max(line.cell_len for line in lines) <= 40


def test_blocks_make_no_difference_to_the_matrix() -> None:
    whole = watched("whole-story").scene_at(38).matrix
    parts = watched("whole-story", Settings(blocks=3)).scene_at(38).matrix
    assert whole is not None
    assert parts is not None
    assert whole.nodes == parts.nodes
    for one, other in zip(whole[2:], parts[2:], strict=True):
        assert np.array_equal(one, other)
