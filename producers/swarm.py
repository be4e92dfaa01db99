"""A simulated swarm in virtual time: peers that work, relay and entangle, and the topic that they publish to.

Rules:
- All chance comes from one seeded generator and all time is virtual: the same settings give the same bytes.
- A peer closes a segment at intervals, tells its neighbours, and a moment later publishes it: what it publishes is
  its own log only, what it tells is everything it holds.
- Record time is virtual time at publication. A peer's own clock may be off.
- A liar is one key with two faces: two peers that share a name, a key and a past, and from then on nothing.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from random import Random
from typing import NamedTuple

import msgspec

from producers.link import Link, Quality
from producers.simulated_peer import Backup, SimulatedPeer
from producers.simulation import Record, StoryLine
from producers.virtual_time import Action, VirtualTime
from state.config import BLOCKS_MAX, HORIZON_MS_MAX, SPLIT_AFTER_MS_MIN, Config, Epoch, Swarm, parse_duration_ms
from state.holding import Holding
from state.limits import ROSTER_MAX
from state.segment import Reason, Segment, encode_op
from state.signing import SigningKey

EPOCH_START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = round(EPOCH_START.timestamp() * 1000)
PEERS_MIN = 3
"""A story of two sides needs a peer on each and one between."""
GRACES_MIN = 4
"""A run lasts at least this many graces: one is its tail, in which what is missing is found to be so."""
INTERVALS_MIN = 20
"""A story needs some segments of each peer before anything happens, and some after."""
LOSS_MAX = 0.5
"""Beyond this, links are down rather than lossy, and nothing converges in the time of a run."""
PUBLISH_MS = (20, 80)
"""How long a segment takes from its author to the broker."""
CLIENTS_A_PEER = 3
_NAMED_RULES = ("majority", "everyone")
_RULES_WANTED = "majority, everyone or a number of peers from 1 to"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be chosen about a run; a scenario gives the rest."""

    seed: int = 1
    peers: int = 8
    duration_ms: int = 60_000
    interval_ms: int = 1_000
    """Between two segments of a peer, on average."""
    ops: int = 5
    """In a segment, on average or nearly so."""
    grace: str = "5s"
    split_after: str = "5s"
    horizon: str = "5m"
    rules: tuple[str | int, ...] = ("majority", "everyone")
    blocks: int = 0
    start_ms: int = START_MS
    """When the run starts. For a run in real time this is now, so that the peers' clocks are right."""
    quality: Quality = Quality()

    def __post_init__(self) -> None:
        limits = [
            (PEERS_MIN <= self.peers <= ROSTER_MAX, f"peers: want {PEERS_MIN} to {ROSTER_MAX}, got {self.peers}"),
            (self.interval_ms >= 1, f"interval: want at least 1 ms, got {self.interval_ms} ms"),
            (
                self.duration_ms >= INTERVALS_MIN * self.interval_ms,
                f"duration: want {INTERVALS_MIN} intervals of {self.interval_ms} ms or more, got {self.duration_ms} ms",
            ),
            (0 <= self.quality.loss <= LOSS_MAX, f"loss: want 0 to {LOSS_MAX}, got {self.quality.loss}"),
            (1 <= self.ops <= 1_000, f"ops a segment: want 1 to 1000, got {self.ops}"),
            (self.start_ms >= START_MS, f"start: want {EPOCH_START.isoformat()} or later, got {self.start_ms} ms"),
            (
                self.duration_ms >= GRACES_MIN * self.grace_ms,
                f"duration: want at least {GRACES_MIN} times the grace of {self.grace}, got {self.duration_ms} ms",
            ),
            (
                SPLIT_AFTER_MS_MIN <= self.split_after_ms <= self.horizon_ms,
                f"split_after: want {SPLIT_AFTER_MS_MIN}ms to the horizon of {self.horizon}, got {self.split_after}",
            ),
            (
                self.horizon_ms <= HORIZON_MS_MAX,
                f"horizon: want at most {HORIZON_MS_MAX // 86_400_000}d, got {self.horizon}",
            ),
            (all(map(self._is_rule, self.rules)), f"rules: want {_RULES_WANTED} {self.peers}, got {self.rules}"),
            (len(set(self.rules)) == len(self.rules), f"rules: want each once, got {self.rules}"),
            (0 <= self.blocks <= BLOCKS_MAX, f"blocks: want 0 to {BLOCKS_MAX}, got {self.blocks}"),
        ]
        for holds, problem in limits:
            if not holds:
                raise ValueError(problem)

    @property
    def grace_ms(self) -> int:
        return _duration_ms("grace", self.grace)

    @property
    def split_after_ms(self) -> int:
        return _duration_ms("split_after", self.split_after)

    @property
    def horizon_ms(self) -> int:
        return _duration_ms("horizon", self.horizon)

    def part_ms(self, part: float) -> int:
        """The moment at which this part of the run is over."""
        return self.start_ms + round(part * self.duration_ms)

    @property
    def quiet_ms(self) -> int:
        """From here on nothing new goes missing, so that the run's end is a grace later for all that did."""
        return self.start_ms + max(
            self.duration_ms // 2, self.duration_ms - self.grace_ms - 3 * self.interval_ms - 2_000
        )

    def _is_rule(self, rule: str | int) -> bool:
        return rule in _NAMED_RULES if isinstance(rule, str) else 1 <= rule <= self.peers


class Publication(NamedTuple):
    """A record, and what its publisher knows about it: the segment that it is, or why it must be rejected."""

    record: Record
    segment: Segment | None
    reason: Reason | None


class Note(NamedTuple):
    """What only the author of an update knows: the events of the version it speaks of, and what is wrong with it."""

    events: frozenset[bytes]
    wrong: str = ""


class SimulatedSwarm:
    """The world of a scenario: it makes the peers, lets time pass and keeps what was published."""

    def __init__(self, settings: Settings, names: Sequence[str] | None = None) -> None:
        self.settings = settings
        self.chance = Random(settings.seed)  # noqa: S311  a simulation must be repeatable; no secret comes from it
        self.time = VirtualTime(settings.start_ms)
        self.swarm = self.derive("swarm")
        self.published: list[Publication] = []
        self.story: list[StoryLine] = []
        names = names or [f"peer-{number}" for number in range(1, settings.peers + 1)]
        self.peers = [self._make_peer(name, len(names)) for name in names]
        self.rosters: list[tuple[int, Sequence[SimulatedPeer]]] = [(START_MS, self.peers)]
        """The epochs of the configuration: when each starts, and who belongs to the swarm then."""
        self._clients = {peer.name: self._make_clients(peer.name) for peer in self.peers}
        self._working: list[SimulatedPeer] = []
        self._published_ms: dict[bytes, int] = {}
        self.sent: set[bytes] = set()
        """The ids of all segments that are on the topic or on the way there."""
        self.notes: dict[tuple[bytes, bytes], Note] = {}
        """By author and op, on the updates of a scenario that has any."""

    @property
    def config(self) -> Config:
        settings = self.settings
        epochs = tuple(self._epoch(start_ms, peers) for start_ms, peers in self.rosters)
        swarm = Swarm(
            id=self.swarm.hex(),
            name="simulated",
            epochs=epochs,
            grace=settings.grace,
            horizon=settings.horizon,
            blocks=settings.blocks,
        )
        return Config((swarm,))

    def derive(self, purpose: str) -> bytes:
        """Thirty-two bytes that belong to this seed and purpose: keys, ids of clients, things made up."""
        return sha256(f"quorumscope simulation {self.settings.seed} {purpose}".encode()).digest()

    def connect(self, one: SimulatedPeer, other: SimulatedPeer) -> Link:
        link = Link(self.time, self.chance, (one, other), self.settings.quality)
        one.links.append(link)
        other.links.append(link)
        return link

    def connect_all(self, peers: Sequence[SimulatedPeer]) -> None:
        """Link each peer with the next two, around: no single peer or link can part them."""
        count = len(peers)
        pairs = {tuple(sorted((at, (at + step) % count))) for at in range(count) for step in (1, 2)}
        for one, other in sorted(pairs):
            if one != other:
                self.connect(peers[one], peers[other])

    def work(self, peers: Iterable[SimulatedPeer], interval_ms: int | None = None) -> None:
        """Let peers close segments at intervals, those of the settings or others, whenever they are online."""
        beat_ms = interval_ms or self.settings.interval_ms
        for peer in peers:
            self._working.append(peer)
            self.time.after(self.chance.randrange(beat_ms), partial(self._beat, peer, beat_ms))

    def close(self, peer: SimulatedPeer, ops: Sequence[bytes] = ()) -> Segment:
        """Close a segment of `peer` now, with these ops or some of its daily work, and what it planned; tell it and
        publish it.
        """
        ops = [*(ops or self._daily_ops(peer)), *peer.carry_out()]
        segment = peer.holding.close(peer.key, self.time.now_ms + peer.skew_ms, ops)
        peer.tell([segment])
        if peer.publishes:
            self.publish_segment(segment)
        return segment

    def publish_segment(self, segment: Segment) -> None:
        """Send a segment to the topic; an author's segments arrive there in the order in which they were sent."""
        author = segment.head.author
        self.sent.add(segment.id)
        arrival_ms = self.time.now_ms + self.chance.randint(*PUBLISH_MS)
        arrival_ms = self._published_ms[author] = max(arrival_ms, self._published_ms.get(author, 0) + 1)
        self.time.at(arrival_ms, lambda: self.publish(author, segment.encode(), segment=segment))

    def publish(
        self, key: bytes, value: bytes | None, *, segment: Segment | None = None, reason: Reason | None = None
    ) -> None:
        """Put a record on the topic now: a segment, or something that must be rejected for this reason."""
        self.published.append(Publication(Record(self.time.now_ms, key, value), segment, reason))

    def second_face(self, peer: SimulatedPeer, links: Iterable[Link]) -> SimulatedPeer:
        """Give `peer` a second face with the same key and past, which takes over these links and starts to work."""
        face = SimulatedPeer(peer.name, peer.key, deepcopy(peer.holding))
        face.log, face.replicas = list(peer.log), deepcopy(peer.replicas)
        for link in list(links):
            peer.links.remove(link)
            face.links.append(link)
            link.hand_over(peer, face)
        self.work([face])
        return face

    def restore(self, peer: SimulatedPeer, backup: Backup) -> None:
        """Start a peer again from an older state of its log; its neighbours tell it everything anew."""
        peer.holding, peer.log = deepcopy(backup.holding), list(backup.log)
        peer.replicas = deepcopy(backup.replicas)
        for link in peer.links:
            link.restart()

    def silence(self, peer: SimulatedPeer, since_ms: int, until_ms: int) -> None:
        """Take a peer offline for a time: it neither works nor hears."""
        self.at(since_ms, peer.go_offline, f"{peer.name} goes silent")
        self.at(until_ms, peer.go_online, f"{peer.name} is back")

    def at(self, time_ms: int, action: Action, text: str) -> None:
        """Do something at a time, and tell it in the story."""

        def told() -> None:
            self.tell_story(text)
            action()

        self.time.at(time_ms, told)

    def tell_story(self, text: str) -> None:
        self.story.append(StoryLine(self.time.now_ms, text))

    def curtain(self) -> None:
        """Let every peer that is there close a last segment, and all of them reach the topic."""
        for peer in self._working:
            if peer.is_online:
                self.close(peer)
            peer.go_offline()
        self.time.run(self.time.now_ms + PUBLISH_MS[1])

    def _beat(self, peer: SimulatedPeer, interval_ms: int) -> None:
        if peer.is_online:
            self.close(peer)
        jitter_ms = self.chance.randint(-interval_ms // 5, interval_ms // 5)
        self.time.after(max(1, interval_ms + jitter_ms), partial(self._beat, peer, interval_ms))

    def _epoch(self, start_ms: int, peers: Iterable[SimulatedPeer]) -> Epoch:
        roster = {peer.name: peer.key.public.hex() for peer in peers}
        # A scenario may have fewer peers than the settings: a rule of more than there are can hold for nothing.
        rules = tuple(rule for rule in self.settings.rules if isinstance(rule, str) or rule <= len(roster))
        start = EPOCH_START + timedelta(milliseconds=start_ms - START_MS)
        return Epoch(start=start, roster=roster, rules=rules, split_after=self.settings.split_after)

    def _daily_ops(self, peer: SimulatedPeer) -> list[bytes]:
        """Some ops of the peer itself and of its clients."""
        chance = self.chance
        spread = max(1, self.settings.ops // 2)
        count = chance.randint(max(1, self.settings.ops - spread), self.settings.ops + spread)
        origins = [b"", *self._clients[peer.name]]
        return [
            encode_op(
                f"set item-{chance.randrange(1000)} to {chance.randrange(10**6)}".encode(), chance.choice(origins)
            )
            for _ in range(count)
        ]

    def _make_peer(self, name: str, roster: int) -> SimulatedPeer:
        key = SigningKey(self.derive(f"key of {name}"))
        return SimulatedPeer(name, key, Holding(self.swarm, key.public, refs_max=roster))

    def _make_clients(self, name: str) -> list[bytes]:
        return [self.derive(f"client {number} of {name}") for number in range(1, CLIENTS_A_PEER + 1)]


def connected_swarm(settings: Settings) -> SimulatedSwarm:
    """A swarm at work that no single peer or link can part."""
    swarm = SimulatedSwarm(settings)
    swarm.connect_all(swarm.peers)
    swarm.work(swarm.peers)
    return swarm


def _duration_ms(name: str, text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
