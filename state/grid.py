"""The matrix of a tick as people look at it: every node against every other, from the reports of all blocks.

A row is an observer's, a column an author's. A branch of a peer that forked is a node of its own, with a letter.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from state.config import Swarm
from state.report import Node, Report, unpack_cells

TICKS_WAITING_MAX = 64
"""Ticks that some blocks have not reported: more than blocks are ever apart. The oldest are given up beyond this."""


class Grid(NamedTuple):
    """Who has what of whom at a tick."""

    tick_ms: int
    nodes: list[Node]
    lags: NDArray[np.uint8]
    """How many noops of the column's node the row's node does not cover, up to 255."""
    ages: NDArray[np.uint8]
    """How old the oldest of them is, in ticks."""
    fresh: NDArray[np.bool_]

    def active(self, swarm: Swarm) -> NDArray[np.bool_]:
        """Which nodes have published within `split_after` of the tick."""
        epoch = swarm.epoch_at(self.tick_ms) or swarm.epochs[0]
        return np.array([node.newest_ms > self.tick_ms - epoch.split_after_ms for node in self.nodes], np.bool_)

    def among_active(self, swarm: Swarm) -> "Grid":
        """The grid without what silent peers miss or are missed: they would be the worst as long as they are silent."""
        active = self.active(swarm)
        both = active[:, None] & active[None, :]
        return self._replace(lags=np.where(both, self.lags, 0), ages=np.where(both, self.ages, 0))


class GridMaker:
    """Collects the reports of one swarm, and gives a grid for each tick that all blocks have reported."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[int, Report]] = {}
        """By tick and block."""

    def add(self, report: Report) -> Grid | None:
        """Take in a report; gives the grid of its tick if it is the last one of it. Requires one swarm's reports.

        Reports of a tick that do not speak of the same nodes cannot stand together: the later one counts.
        """
        reports = self._waiting.setdefault(report.tick_ms, {})
        if any(other.nodes != report.nodes or other.blocks != report.blocks for other in reports.values()):
            reports.clear()
        reports[report.block] = report
        if len(reports) < report.blocks:
            if len(self._waiting) > TICKS_WAITING_MAX:
                del self._waiting[min(self._waiting)]
            return None
        return join_blocks(list(self._waiting.pop(report.tick_ms).values()))


def join_blocks(reports: list[Report]) -> Grid:
    """The whole matrix of a tick. Requires the reports of all its blocks."""
    nodes = reports[0].nodes
    size = len(nodes)
    lags, ages = np.zeros((size, size), np.uint8), np.zeros((size, size), np.uint8)
    fresh = np.ones((size, size), np.bool_)
    for report in reports:
        cells = unpack_cells(report)
        lags[:, report.columns] = cells.lags.T
        ages[:, report.columns] = cells.ages.T
        fresh[:, report.columns] = cells.fresh.T
    return Grid(reports[0].tick_ms, nodes, lags, ages, fresh)


def branch_letter(position: int) -> str:
    """What the branch at a position is called: a to z, then numbers."""
    return chr(ord("a") + position) if position < 26 else str(position + 1)


def node_letters(nodes: list[Node]) -> list[str]:
    """The letter of each node of a forked peer, in the order of its branches' ids; empty for other peers."""
    branches: dict[bytes, list[bytes]] = {}
    for node in nodes:
        branches.setdefault(node.author, []).append(node.branch)
    return [branch_letter(sorted(branches[node.author]).index(node.branch)) if node.forked else "" for node in nodes]
