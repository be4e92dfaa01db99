"""Swarms whose peers sign real roots: simulated ones, and a small one whose keys the tests have."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import NamedTuple

import msgspec

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from state.config import Config, Epoch, Swarm
from state.head import NO_PREVIOUS
from state.history import History
from state.holding import Holding
from state.segment import Segment, build, encode_op, judge
from state.signing import SigningKey

SCENARIO_NAMES = ("honest", "lying-peer", "lying-bridge", "partition-and-heal", "seed-example")
START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = round(START.timestamp() * 1000)
SWARM_ID = sha256(b"proof lab").digest()
NAMES = ("alice", "bob", "carol", "dave")
KEYS = {name: SigningKey(sha256(name.encode()).digest()) for name in (*NAMES, "mallory")}


class Lab(NamedTuple):
    """A history, and the configuration it is judged by."""

    config: Config
    history: History

    @property
    def swarm(self) -> Swarm:
        return self.config.swarms[0]

    def at(self, name: str, index: int) -> Segment:
        author = self.swarm.author(name)
        assert author is not None
        (segment,) = self.history.at(author, index)
        return segment


@cache
def simulated_lab(name: str) -> Lab:
    """A simulated scenario, with several rules."""
    simulation = SCENARIOS[name].run(Settings(peers=5, duration_ms=30_000))
    (swarm,) = simulation.config.swarms
    epochs = tuple(msgspec.structs.replace(epoch, rules=("majority", "everyone", 1)) for epoch in swarm.epochs)
    config = Config((msgspec.structs.replace(swarm, epochs=epochs),))
    judged = [(judge(record.value, config.authors), record.time_ms) for record in simulation.records]
    return Lab(config, History(swarm.key, [pair for pair in judged if isinstance(pair[0], Segment)]))


def config_of(
    names: Sequence[str] = NAMES,
    *,
    rules: tuple[str | int, ...] = ("majority", "everyone", 1, 2),
    start: datetime = START,
) -> Config:
    roster = {name: KEYS[name].public.hex() for name in names}
    return Config((Swarm(SWARM_ID.hex(), "lab", (Epoch(start=start, roster=roster, rules=rules),)),))


class Peers:
    """Four peers in memory. Each closes segments and is told others'; all that is closed is on the topic."""

    def __init__(self) -> None:
        self.copies: list[tuple[Segment, int]] = []
        self.holdings = {name: Holding(SWARM_ID, KEYS[name].public, refs_max=8) for name in NAMES}
        self.logs: dict[str, list[Segment]] = {name: [] for name in NAMES}

    def close(self, name: str, *, root: bytes | None = None, ops: int = 4) -> Segment:
        """The next segment of a peer. With a `root` of its own choice it lies about what it endorses."""
        encoded = [
            encode_op(f"op {at} of {name}".encode(), b"client-7" if at == 2 else b"") for at in range(1, ops + 1)
        ]
        holding, now_ms = self.holdings[name], START_MS + 1000 * len(self.copies)
        if root is None:
            segment = holding.close(KEYS[name], now_ms, encoded)
        else:
            segment = build(
                KEYS[name],
                swarm=SWARM_ID,
                index=holding.index + 1,
                previous=holding.newest,
                time_ms=now_ms,
                ops=encoded,
                refs=holding._next_refs(),
                root=root,
            )
            holding.advance(segment)
        self.publish(segment, now_ms)
        self.logs[name].append(segment)
        return segment

    def tell(self, name: str, *others: str) -> None:
        """Let a peer hear all that some others have and closed."""
        for segment in self.heard_by(*others):
            self.holdings[name].receive(segment)

    def heard_by(self, *names: str) -> list[Segment]:
        held = [segment for segment, _ in self.copies]
        return [s for s in held if any(s.id in self.holdings[name] for name in names)]

    def publish(self, segment: Segment, time_ms: int) -> None:
        self.copies.append((segment, time_ms))

    def lab(self, config: Config | None = None) -> Lab:
        return Lab(config or config_of(), History(SWARM_ID, self.copies))


def rival(name: str, ops: Sequence[bytes] = (b"another story",)) -> Segment:
    """A second first segment of a peer."""
    return build(
        KEYS[name], swarm=SWARM_ID, index=1, previous=NO_PREVIOUS, time_ms=START_MS, ops=ops, root=sha256(b"").digest()
    )


@cache
def small_lab() -> Lab:
    """Alice closes two segments and dave one; bob entangles all, carol bob's, and dave hears of nothing.

    So bob's line of alice is her second segment, above the first, and carol's way to the first has three hops.
    """
    peers = Peers()
    peers.close("alice")
    peers.close("alice")
    peers.close("dave")
    peers.tell("bob", "alice", "dave")
    peers.close("bob")
    peers.tell("carol", "bob")
    peers.close("carol")
    return peers.lab()
