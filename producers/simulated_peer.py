"""A peer of a simulated swarm: what it holds, what it tells its neighbours, and whether it is there at all."""

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

from producers.link import Link
from state.holding import Holding
from state.segment import Segment
from state.signing import SigningKey


class Backup(NamedTuple):
    """The state of a peer at some moment."""

    holding: Holding
    log: list[Segment]


class SimulatedPeer:
    """A peer in memory: what it holds, the log that it relays, and its links."""

    def __init__(self, name: str, key: SigningKey, holding: Holding) -> None:
        self.name = name
        self.key = key
        self.holding = holding
        self.log: list[Segment] = []
        self.links: list[Link] = []
        self.is_online = True
        self.publishes = True
        self.relays = True
        """One that does not tells its neighbours nothing, not even of its own segments."""
        self.skew_ms = 0

    def go_offline(self) -> None:
        self.is_online = False

    def go_online(self) -> None:
        self.is_online = True

    def back_up(self) -> Backup:
        return Backup(deepcopy(self.holding), list(self.log))

    def take(self, segments: Sequence[Segment]) -> None:
        """Receive from a neighbour, and relay what is held now."""
        held = [now for segment in segments for now in self.holding.receive(segment)]
        self.tell(held)

    def tell(self, segments: Sequence[Segment]) -> None:
        if segments and self.relays:
            self.log.extend(segments)
            for link in self.links:
                link.push(self)
