"""The board at one moment: what pages are made from. The board's lock is held while it is taken, and not after.

All of it is immutable, or replaced and never changed by the board, so a page can take its time.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar, cast

from dashboards.board import Board
from dashboards.findings import Found
from dashboards.health import Health
from dashboards.replicas import Standings
from dashboards.spread import Tally
from dashboards.watch import OTHER, SwarmWatch
from dashboards.web.tables import ROWS_MAX
from state.config import Config, Epoch, Swarm
from state.grid import Grid
from state.verdict import (
    AnyVerdict,
    BadIndex,
    BadUpdate,
    Belief,
    ClockSkew,
    Episode,
    Equivocation,
    Fork,
    Limit,
    Missing,
    OneWay,
    Quarantine,
    Silent,
    Split,
    Undecidable,
    Verdict,
)

FINDING_KINDS: tuple[type[Verdict], ...] = (
    *(Fork, Equivocation, Belief),
    *(Missing, BadIndex, BadUpdate, ClockSkew, Limit),
)

AnyEpisode = Split | Silent | OneWay | Undecidable

_V = TypeVar("_V", bound=Verdict)


class SwarmSnapshot(NamedTuple):
    """One swarm."""

    swarm: Swarm
    epoch: Epoch
    """That of the newest tick."""
    names: Mapping[str, str]
    """Every key that was ever in the roster, with its name."""
    peers: Mapping[str, str]
    """The keys of the roster now, with their names."""
    grid: Grid | None
    known: Mapping[str, Tally]
    """By rule."""
    accepted: Mapping[str, Tally]
    found: Mapping[type[Verdict], list[Found[AnyVerdict]]]
    open: list[AnyEpisode]
    """The oldest first."""
    ended: list[AnyEpisode]
    """The one that ended last first."""
    replicas: Standings
    """Those of the peers of the roster now."""

    def of(self, kind: type[_V]) -> list[Found[_V]]:
        """What is known of a kind, author by author."""
        return cast("list[Found[_V]]", self.found[kind])

    def open_of(self, kind: type[_V]) -> list[_V]:
        return [episode for episode in self.open if isinstance(episode, kind)]

    def name(self, author: str) -> str:
        return self.names.get(author, OTHER)

    @property
    def active(self) -> set[str]:
        """The keys of the peers of the roster that were active at the newest tick."""
        if self.grid is None:
            return set()
        pairs = zip(self.grid.nodes, self.grid.active(self.swarm).tolist(), strict=True)
        return {node.author.hex() for node, is_active in pairs if is_active} & set(self.peers)

    @property
    def silent(self) -> list[str]:
        """The names of the peers of the roster that are silent, in its order."""
        authors = {episode.author for episode in self.open_of(Silent)}
        return [name for author, name in self.peers.items() if author in authors]

    @property
    def sides(self) -> int:
        """1 if it is not split."""
        return max((len(split.sides) for split in self.open_of(Split)), default=1)


class Snapshot(NamedTuple):
    """All swarms, and the exporter itself."""

    config: Config
    health: Health
    swarms: list[SwarmSnapshot]
    quarantines: list[Quarantine]
    unreadable: Mapping[str, int]
    """By topic."""
    foreign: Mapping[str, int]


def take_snapshot(board: Board, health: Health) -> Snapshot:
    """What the board holds now."""
    with board.lock:
        return Snapshot(
            config=board.config,
            health=health,
            swarms=[_swarm(watch) for watch in board.watches.values()],
            quarantines=list(board.quarantines.values()),
            unreadable=dict(board.unreadable),
            foreign=dict(board.foreign),
        )


def _swarm(watch: SwarmWatch) -> SwarmSnapshot:
    ended = cast("list[AnyEpisode]", watch.episodes.ended(Episode))
    return SwarmSnapshot(
        swarm=watch.swarm,
        epoch=watch.epoch,
        names=watch.names,
        peers=watch.peers,
        grid=watch.grid,
        known={tally.rule: tally for tally in watch.spread.known()},
        accepted={tally.rule: tally for tally in watch.spread.accepted()},
        found={kind: _found(watch, kind) for kind in FINDING_KINDS},
        open=cast("list[AnyEpisode]", watch.episodes.open(Episode)),
        ended=sorted(ended, key=lambda episode: (episode.ended_ms or 0, episode.key), reverse=True),
        replicas=watch.replicas.standings(watch.peers, ROWS_MAX),
    )


def _found(watch: SwarmWatch, kind: type[Verdict]) -> list[Found[AnyVerdict]]:
    authors = sorted(watch.findings.authors(kind), key=lambda author: (watch.name(author), author))
    return [cast("Found[AnyVerdict]", one) for author in authors for one in watch.findings.of(kind, author)]
