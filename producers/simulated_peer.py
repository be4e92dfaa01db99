"""A peer of a simulated swarm: what it holds, what it tells its neighbours, and whether it is there at all."""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import NamedTuple

from producers.link import Link
from producers.replica import Replica
from state.holding import Holding
from state.segment import Segment
from state.signing import SigningKey
from state.update import Update, decode_update


class Backup(NamedTuple):
    """The state of a peer at some moment."""

    holding: Holding
    log: list[Segment]
    replicas: dict[bytes, Replica]


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
        self.replicas: dict[bytes, Replica] = {}
        """Of entities, by their names: the updates in all that it holds reach them."""
        self._unheard: dict[bytes, list[tuple[bytes, Update]]] = {}
        self._plans: list[Callable[[], bytes]] = []

    def go_offline(self) -> None:
        self.is_online = False

    def go_online(self) -> None:
        self.is_online = True

    def back_up(self) -> Backup:
        return Backup(deepcopy(self.holding), list(self.log), deepcopy(self.replicas))

    def plan(self, make_op: Callable[[], bytes]) -> None:
        """Have an op made when the next segment is closed, and put into it: it can tell all that the segment covers."""
        self._plans.append(make_op)

    def carry_out(self) -> list[bytes]:
        """The ops that were planned, made now."""
        plans, self._plans = self._plans, []
        return [make_op() for make_op in plans]

    def stop_hearing(self, entity: bytes) -> None:
        """Let the replica of an entity stand still: what others do to it is kept for later."""
        self._unheard.setdefault(entity, [])

    def hear_again(self, entity: bytes) -> None:
        for author, update in self._unheard.pop(entity, ()):
            self.replicas[entity].receive(author, update)

    def hears(self, entity: bytes) -> bool:
        return entity not in self._unheard

    def take(self, segments: Sequence[Segment]) -> None:
        """Receive from a neighbour, and relay what is held now."""
        held = [now for segment in segments for now in self.holding.receive(segment)]
        if self.replicas:
            self._update(held)
        self.tell(held)

    def tell(self, segments: Sequence[Segment]) -> None:
        if segments and self.relays:
            self.log.extend(segments)
            for link in self.links:
                link.push(self)

    def _update(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            for update in map(decode_update, segment.ops):
                if not isinstance(update, Update) or update.entity not in self.replicas:
                    continue
                if update.entity in self._unheard:
                    self._unheard[update.entity].append((segment.head.author, update))
                else:
                    self.replicas[update.entity].receive(segment.head.author, update)
