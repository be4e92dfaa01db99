"""Reads `.matrix` as anyone may, and puts the reports of all blocks of a tick together to one grid."""

import msgspec

from state.connection import Connection
from state.fold import Topic
from state.grid import Grid, GridMaker
from state.report import decode_report
from streaming.follow import Follower


class ReportReader:
    """Follows the reports of one swarm. `unreadable` counts records that are no reports; they are skipped."""

    def __init__(self, connection: Connection, prefix: str, swarm: bytes) -> None:
        self.unreadable = 0
        self._swarm = swarm
        self._follower = Follower(connection, f"{prefix}.{Topic.MATRIX}")
        self._maker = GridMaker()

    def poll(self, seconds: float) -> Grid | None:
        """The newest tick that all blocks have reported since the last call; waits at most `seconds` for a record."""
        newest: Grid | None = None
        for message in self._follower.poll(seconds):
            try:
                report = decode_report(message.value() or b"")
            except msgspec.DecodeError:
                self.unreadable += 1
                continue
            if report.swarm == self._swarm:
                newest = self._maker.add(report) or newest
        return newest

    def close(self) -> None:
        self._follower.close()
