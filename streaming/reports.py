"""Reads `.matrix` as anyone may, and puts the reports of all blocks of a tick together to one matrix."""

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.connection import Connection
from state.fold import Topic
from state.report import Node, Report, decode_report, unpack_cells
from streaming.follow import Follower


class Matrix(NamedTuple):
    """Who has what of whom at a tick. Cells have a row for each observer and a column for each author."""

    tick_ms: int
    nodes: list[Node]
    lags: NDArray[np.uint8]
    ages: NDArray[np.uint8]
    fresh: NDArray[np.bool_]


class ReportReader:
    """Follows the reports of one swarm. `unreadable` counts records that are no reports; they are skipped."""

    def __init__(self, connection: Connection, prefix: str, swarm: bytes) -> None:
        self.unreadable = 0
        self._swarm = swarm
        self._follower = Follower(connection, f"{prefix}.{Topic.MATRIX}")
        self._waiting: dict[int, dict[int, Report]] = {}
        """By tick and block, those of ticks that some blocks have not reported."""

    def poll(self, seconds: float) -> Matrix | None:
        """The newest tick that all blocks have reported since the last call; waits at most `seconds` for a record."""
        newest: Matrix | None = None
        for message in self._follower.poll(seconds):
            try:
                report = decode_report(message.value() or b"")
            except msgspec.DecodeError:
                self.unreadable += 1
                continue
            if report.swarm != self._swarm:
                continue
            reports = self._waiting.setdefault(report.tick_ms, {})
            reports[report.block] = report
            if len(reports) == report.blocks:
                newest = join_blocks(list(self._waiting.pop(report.tick_ms).values()))
        return newest

    def close(self) -> None:
        self._follower.close()


def join_blocks(reports: list[Report]) -> Matrix:
    """The whole matrix of a tick. Requires the reports of all its blocks."""
    nodes = reports[0].nodes
    size = len(nodes)
    matrix = Matrix(
        reports[0].tick_ms,
        nodes,
        np.zeros((size, size), np.uint8),
        np.zeros((size, size), np.uint8),
        np.ones((size, size), bool),
    )
    for report in reports:
        cells = unpack_cells(report)
        matrix.lags[:, report.columns] = cells.lags.T
        matrix.ages[:, report.columns] = cells.ages.T
        matrix.fresh[:, report.columns] = cells.fresh.T
    return matrix
