"""The matrix as a table: a row for each observer, a column for each author, a cell for what the row misses.

A mark stands in each cell, so that nothing is told by colour alone: `0` has all, `3` misses three, `3*` misses
some for longer than is usual, `16!` is parted: no knowledge flows. Of a large roster only the worst pairs are shown.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dashboards.pairs import node_labels, worst_pairs
from dashboards.web.markup import Html, element, joined
from dashboards.web.snapshot import SwarmSnapshot
from dashboards.web.tables import ROWS_MAX, captioned, scrolling, table
from dashboards.web.timewords import lasting, moment
from state.grid import Grid
from state.report import AGE_MAX

PEERS_MAX = 32
"""Rosters up to this size are shown as a grid: what fits a screen."""

NODES_MAX = 64
"""So many rows and columns at most: a peer with many branches has one for each."""

LATE_TICKS = 2
"""In a healthy swarm what an observer misses is younger than this, with a noop and two hops in a tick."""


class _Node(NamedTuple):
    """A row and a column of the table."""

    at: int
    label: str
    active: bool
    forked: bool


def matrix(swarm: SwarmSnapshot, grid: Grid) -> Html:
    """The grid, or the worst pairs of a large roster."""
    if len(swarm.peers) > PEERS_MAX or len(grid.nodes) > NODES_MAX:
        return _worst(swarm, grid)
    nodes = _nodes(swarm, grid)
    head = element("tr", element("th", "Observer", scope="col"), (_column_header(node) for node in nodes))
    rows = (element("tr", _row_header(row), (_cell(grid, row, column) for column in nodes)) for row in nodes)
    caption = joined(
        "Segments that each observer (row) does not have of each author (column), at the tick of ",
        moment(grid.tick_ms),
        ".",
    )
    whole = captioned(caption, element("thead", head), element("tbody", rows), class_="matrix")
    return joined(scrolling(f"Matrix of swarm {swarm.swarm.name}", whole), _legend(nodes))


def mark(lag: int, *, fresh: bool, late: bool) -> str:
    """What stands in a cell."""
    number = f"{lag}+" if lag >= AGE_MAX else str(lag)
    if not fresh:
        return f"{number}!"
    return f"{number}*" if late else number


def _nodes(swarm: SwarmSnapshot, grid: Grid) -> list[_Node]:
    """In the order of the roster, branches by their letters."""
    places = {name: place for place, name in enumerate(swarm.names.values())}
    active = grid.active(swarm.swarm).tolist()
    labels = node_labels(grid, swarm.names)
    nodes = [_Node(at, labels[at], active[at], node.forked) for at, node in enumerate(grid.nodes)]
    return sorted(nodes, key=lambda node: (places[swarm.names[grid.nodes[node.at].author.hex()]], node.label))


def _column_header(node: _Node) -> Html:
    return element("th", element("span", node.label, _state(node)), scope="col", class_=_label_class(node))


def _row_header(node: _Node) -> Html:
    return element("th", node.label, _state(node), scope="row", class_=_label_class(node))


def _state(node: _Node) -> Html | None:
    return None if node.active else element("small", " silent")


def _label_class(node: _Node) -> str | None:
    if not node.active:
        return "silent"
    return "forked" if node.forked else None


def _cell(grid: Grid, row: _Node, column: _Node) -> Html:
    if row.at == column.at:
        return element("td", element("span", "╲", aria_hidden="true"), class_="self")
    lag, fresh = int(grid.lags[row.at, column.at]), bool(grid.fresh[row.at, column.at])
    late = int(grid.ages[row.at, column.at]) > LATE_TICKS
    if not (row.active and column.active):
        return element("td", mark(lag, fresh=True, late=False), class_="silent")
    style = "parted" if not fresh else "late" if late else "fresh" if lag else "all"
    return element("td", mark(lag, fresh=fresh, late=late), class_=style)


def _legend(nodes: Sequence[_Node]) -> Html:
    entries = [
        ("all", "0", "has all"),
        ("fresh", "2", "misses two, as is usual"),
        ("late", "3*", "misses three, for longer than is usual"),
        ("parted", "9!", "parted: no knowledge flows from author to observer"),
        ("silent", "7", "one of the two is silent"),
    ]
    items = [element("li", element("b", text, class_=f"key {style}"), " ", what) for style, text, what in entries]
    if any(node.forked for node in nodes):
        items.append(element("li", element("b", "/a", class_="key forked"), " a branch of a peer that forked"))
    return element("ul", items, class_="legend", aria_label="What the marks of the matrix mean")


def _worst(swarm: SwarmSnapshot, grid: Grid) -> Html:
    tick_ms = swarm.epoch.tick_ms
    rows = [
        (
            pair.observer,
            pair.author,
            mark(pair.lag, fresh=pair.fresh, late=pair.age_ticks > LATE_TICKS),
            f"{'more than ' if pair.age_ticks >= AGE_MAX else ''}{lasting(pair.age_ticks * tick_ms)}",
        )
        for pair in worst_pairs(grid.among_active(swarm.swarm), swarm.names, ROWS_MAX)
    ]
    if not rows:
        return element("p", "Every active peer has every segment of every other.")
    caption = joined(
        "Pairs of active peers in which the observer has missed something of the author for longest, at the tick of ",
        moment(grid.tick_ms),
        ". “!” means that no knowledge flows, “*” that it takes longer than is usual.",
    )
    headers = ("Observer", "Author", "Segments missed", "The oldest for")
    return table(f"Worst pairs of swarm {swarm.swarm.name}", caption, headers, rows, numbers=frozenset({2}))
