"""Draws the matrix for people: a row for each observer, a column for each author, a cell for what the row misses.

A mark is the same on a terminal and in plain text; colour only adds to it. A branch of a peer that forked has a row
and a column of its own, with a letter after the peer's name.
"""

import re
from typing import NamedTuple

from rich.text import Text

from state.config import Swarm
from state.grid import Grid, node_letters
from state.report import AGE_MAX, Node

LATE_TICKS = 2
"""In a healthy swarm what an observer misses is younger than this, with a noop and two hops in a tick."""

CELL_WIDTH = 4
CELL_WIDTH_NARROW = 3

_LAG_SHOWN_MAX = 99
_FRESH, _LATE, _PARTED, _SILENT, _FORKED = "green", "yellow", "bold red", "bright_black", "magenta"


class Name(NamedTuple):
    """How a node is called: in full at its row, short above its column."""

    full: str
    short: str


def node_names(nodes: list[Node], swarm: Swarm) -> list[Name]:
    """The names of nodes; those of a forked peer get letters, in the order of their branches' ids."""
    shared = _shared_prefix(list(swarm.authors.values()))
    called = [(swarm.authors[node.author], letter) for node, letter in zip(nodes, node_letters(nodes), strict=True)]
    return [Name(f"{name} {letter}".rstrip(), name.removeprefix(shared) + letter) for name, letter in called]


def _shared_prefix(names: list[str]) -> str:
    """What all names begin with, up to a separator, so that numbers and words stay whole: `peer-` of `peer-1`."""
    match = re.match(r".*[._-]", names[0])
    return match[0] if match and all(name.startswith(match[0]) and name != match[0] for name in names) else ""


def matrix_lines(matrix: Grid, swarm: Swarm, cell_width: int = CELL_WIDTH) -> list[Text]:
    """A line of names, and a line for each observer, in the order of the roster."""
    silent = (~matrix.active(swarm)).tolist()
    names = node_names(matrix.nodes, swarm)
    places = {name: place for place, name in enumerate(swarm.authors.values())}
    order = sorted(range(len(names)), key=lambda at: (places[swarm.authors[matrix.nodes[at].author]], names[at]))
    labels = [f"({name.full})" if silent[at] else name.full for at, name in enumerate(names)]
    margin = max(map(len, labels))
    head = Text(" " * margin)
    for at in order:
        style = _label_style(matrix.nodes[at], silent=silent[at])
        head.append(names[at].short[: cell_width - 1].rjust(cell_width), style)
    lines = [head]
    for row in order:
        line = Text(labels[row].ljust(margin), _label_style(matrix.nodes[row], silent=silent[row]))
        for column in order:
            line.append_text(_cell(matrix, row, column, cell_width, is_dim=silent[row] or silent[column]))
        lines.append(line)
    return lines


def legend() -> list[Text]:
    """What the marks mean."""
    gap = Text("  ")
    return [
        gap.join([Text("· has all", _FRESH), Text("1 misses one", _FRESH), Text("3 late", _LATE)]),
        gap.join([Text("6! not fresh", _PARTED), Text("a b forked", _FORKED), Text("(silent)", _SILENT)]),
    ]


def _cell(matrix: Grid, row: int, column: int, width: int, *, is_dim: bool) -> Text:
    lag, age = int(matrix.lags[row, column]), int(matrix.ages[row, column])
    is_fresh = bool(matrix.fresh[row, column])
    if row == column:
        return Text("╲".rjust(width), _SILENT)
    mark = "·" if lag == 0 else str(min(lag, _LAG_SHOWN_MAX))
    if is_dim:
        return Text(mark.rjust(width), _SILENT)
    if not is_fresh:
        return Text(f"{mark}!".rjust(width), _PARTED)
    return Text(mark.rjust(width), _LATE if LATE_TICKS < age <= AGE_MAX else _FRESH)


def _label_style(node: Node, *, silent: bool) -> str:
    if silent:
        return _SILENT
    return _FORKED if node.forked else ""
