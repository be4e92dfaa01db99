"""All that the exporter knows of one swarm, from its verdicts and the reports of its ticks."""

from dashboards.episodes import Episodes
from dashboards.findings import Findings
from dashboards.replicas import Replicas
from dashboards.spread import Spread
from state.config import Epoch, Swarm
from state.grid import Grid, GridMaker
from state.report import Report
from state.verdict import Accepted, AnyVerdict, Episode, Known, Quarantine, Replica

OTHER = "other"
"""What is in no roster has this name: labels come from the configuration alone, never from what somebody wrote."""


class SwarmWatch:
    """One swarm as it is now, as far as has been read."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm = swarm
        self.names = {key.hex(): name for key, name in swarm.authors.items()}
        self.findings = Findings()
        self.episodes = Episodes()
        self.spread = Spread()
        self.replicas = Replicas(swarm.id, self.names)
        self.grid: Grid | None = None
        self._grids = GridMaker()
        self._rules = {rule.name for epoch in swarm.epochs for rule in epoch.thresholds}

    @property
    def epoch(self) -> Epoch:
        """The epoch of the newest tick; the last one before there is any."""
        return (self.swarm.epoch_at(self.grid.tick_ms) if self.grid else None) or self.swarm.epochs[-1]

    @property
    def peers(self) -> dict[str, str]:
        """The keys of the roster now, with their names."""
        return {key: name for name, key in self.epoch.roster.items()}

    def name(self, author: str) -> str:
        return self.names.get(author, OTHER)

    def add(self, verdict: AnyVerdict, written_ms: int) -> str | None:
        """Take in a verdict of this swarm; gives the author under which it is kept, None if it is only counted."""
        match verdict:
            case Known() | Accepted():
                if verdict.author in self.names and verdict.rule in self._rules:
                    self.spread.add(verdict, written_ms)
            case Episode():
                self.episodes.add(verdict)
            case Replica():
                self.replicas.add(verdict)
            case Quarantine():
                pass
            case _:
                author = verdict.author if verdict.author in self.names else OTHER
                return author if self.findings.add(author, verdict, written_ms) else None
        return None

    def add_report(self, report: Report) -> None:
        """Take in the report of a block. What is older than the newest tick changes nothing."""
        grid = self._grids.add(report)
        if grid is not None and (self.grid is None or grid.tick_ms > self.grid.tick_ms):
            self.grid = grid
