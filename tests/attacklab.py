"""Swarms with attackers: honest peers as they are, and keys that sign, withhold and tell whatever they like to anyone.

Honest peers are those of `state.holding`: they entangle only what they hold with its whole past, and never fork. The
attackers have keys of their own, and all that anyone ever signed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random

from producers.truth import named
from state import merkle
from state.config import Config, Epoch, Swarm
from state.head import NO_PREVIOUS
from state.holding import Holding
from state.segment import Ref, Segment, build
from state.signing import SigningKey
from tests.loglab import START_MS, SWARM, Copy

KEYS = sorted((SigningKey(bytes([n]) * 32) for n in range(21, 31)), key=lambda key: key.public)
START = datetime.fromtimestamp(START_MS / 1000, UTC)


def config_of(peers: int, horizon: str = "60s", *, second_epoch: bool = False) -> Config:
    """A swarm that judges by every rule from 1 to all. The last peer is not in the second epoch, if there is one.

    No file could have this `split_after`: ticks are of no use here and cost most of the time, so there are none.
    """

    def epoch(start: datetime, members: list[SigningKey]) -> Epoch:
        roster = {f"peer-{at}": key.public.hex() for at, key in enumerate(members)}
        return Epoch(start=start, roster=roster, rules=tuple(range(1, len(members) + 1)), split_after="1d")

    epochs = [epoch(START, KEYS[:peers])]
    if second_epoch:
        epochs.append(epoch(START + timedelta(seconds=3), KEYS[: peers - 1]))
    return Config((Swarm(SWARM.hex(), "lab", tuple(epochs), grace="1s", horizon=horizon),))


class Face:
    """One of the stories that an attacker tells, on one of the two sides."""

    def __init__(self, key: SigningKey, holding: Holding, side: int) -> None:
        self.key, self.holding, self.side = key, holding, side


class World:
    """A swarm, all that was ever signed in it, past before future, and what of it was published when."""

    def __init__(self, chance: Random, peers: int, attackers: int) -> None:
        self.chance = chance
        self.now_ms = START_MS
        self.keys = KEYS[:peers]
        chosen = chance.sample(self.keys, attackers)
        self.honest = {key: self._holding(key) for key in self.keys if key not in chosen}
        self.faces = [Face(key, self._holding(key), chance.randrange(2)) for key in chosen]
        self.signed: dict[bytes, Segment] = {}
        self.copies: list[Copy] = []
        self.endorsed: dict[bytes, set[bytes]] = {}
        """For each noop of an honest peer, all that it endorses by the root that it signed, or as its own log."""
        self.unrest = chance.choice([0.0, 0.05])
        self.losses = chance.choice([0.0, 0.0, 0.05])
        self.wildness = chance.choice([0.0, 0.1, 0.5])
        self.secrecy = chance.choice([0.0, 0.1, 0.3])
        self.part()

    def _holding(self, key: SigningKey) -> Holding:
        return Holding(SWARM, key.public, refs_max=2 * len(self.keys))

    # What happens

    def part(self) -> None:
        """Draw anew which honest peers hear each other: those of one side. Sometimes there is only one."""
        sides = self.chance.choice([1, 2, 2])
        self.side = {key: self.chance.randrange(sides) for key in self.honest}

    def step(self) -> None:
        chance = self.chance
        self.now_ms += chance.choice([10, 100, 100, 300, 300, 900, 5_000 if chance.random() < 0.2 else 200])
        if chance.random() < self.unrest:
            self.part()
        actors: list[SigningKey | Face] = [*self.honest, *self.faces]
        actor = chance.choice(actors)
        if isinstance(actor, SigningKey):
            self._work(actor)
        else:
            self._attack(actor)

    def _work(self, key: SigningKey) -> None:
        """An honest peer hears some others of its side, not always to the end, and closes a segment."""
        holding = self.honest[key]
        near = [other for other, side in self.side.items() if side == self.side[key] and other != key]
        for other in self.chance.sample(near, self.chance.randint(0, len(near))):
            told = [s for s in self.signed.values() if s.id in self.honest[other]]
            self._tell(holding, told[: self.chance.choice([len(told), self.chance.randint(0, len(told))])])
        segment = holding.close(key, self.now_ms, [])
        self.signed[segment.id] = segment
        lines = [line for other in self.keys if (line := holding.endorses(other.public))]
        assert merkle.root(sorted(line.encode() for line in lines)) == segment.head.root
        self.endorsed[segment.id] = {i for end in [segment.id, *(line.id for line in lines)] for i in self.log(end)}
        if self.chance.random() >= self.losses:
            self.publish(segment, self.chance.choice([0, 20, 80, 400]))
        elif self.chance.random() < 0.5:
            self.publish(segment, self.chance.choice([500, 2_000, 8_000]))

    def _attack(self, face: Face) -> None:
        """An attacker hears whom it likes, signs what it likes, publishes it when it likes, and tells whom it likes."""
        chance = self.chance
        if chance.random() < (0.15 if sum(other.key == face.key for other in self.faces) > 1 else 0.6):
            holding = deepcopy(face.holding) if chance.random() < 0.9 else self._holding(face.key)
            face = Face(face.key, holding, 1 - face.side)
            self.faces.append(face)
        near = [key for key, side in self.side.items() if side == face.side]
        if chance.random() < 0.9:
            heard = [self.honest[key] for key in near] + [f.holding for f in self.faces if f.side == face.side]
            self._tell(face.holding, (s for s in self.signed.values() if any(s.id in other for other in heard)))
        segment = self._wild(face) if chance.random() < self.wildness else self._tame(face)
        self.signed.setdefault(segment.id, segment)
        if chance.random() >= self.secrecy:
            self.publish(segment, chance.choice([0, 20, 80, 400]))
        elif chance.random() < 0.6:
            self.publish(segment, chance.choice([500, 2_000, 8_000]))
        told = near if chance.random() < 0.8 else list(self.honest)
        for key in chance.sample(told, chance.choice([chance.randint(0, len(told)), len(told)])):
            past = self.past(segment.id) if chance.random() < 0.9 else {segment.id}
            self._tell(self.honest[key], (s for s in self.signed.values() if s.id in past))

    def _tame(self, face: Face) -> Segment:
        """The next noop of a face, as an honest peer would sign it that had heard only what the face has."""
        return face.holding.close(face.key, self.now_ms, [b"face %d" % self.faces.index(face)])

    def _wild(self, face: Face) -> Segment:
        """A noop that follows any other of its author and names anything, held or not, old or invented."""
        chance, author = self.chance, face.key.public
        own = [s for s in self.signed.values() if s.head.author == author]
        others = [s.ref for s in self.signed.values() if s.head.author != author]
        above = chance.choice([None, *own, *own[-3:]])
        goes_on = chance.random() < 0.5
        index, previous = (above.head.index, above.id) if above else (0, NO_PREVIOUS)
        if goes_on:
            index, previous = face.holding.index, face.holding.newest
        refs = {*chance.sample(others[-6:], min(len(others[-6:]), chance.randint(0, 3)))}
        if others and chance.random() < 0.3:
            refs.add(chance.choice(others))
        if chance.random() < 0.05:
            victim = chance.choice([key for key in self.keys if key.public != author])
            refs.add(Ref(victim.public, chance.randint(1, 5), sha256(b"%d" % self.now_ms).digest()))
        segment = build(
            face.key,
            swarm=SWARM,
            index=index + 1 + (chance.random() < 0.03 and index > 0),
            previous=previous,
            time_ms=self.now_ms,
            ops=[],
            refs=refs,
            root=sha256(b"lie").digest(),
        )
        if goes_on and segment.head.index == index + 1:
            face.holding.advance(segment)
        return segment

    def publish(self, segment: Segment, delay_ms: int = 0) -> None:
        self.copies.append(Copy(segment, self.now_ms + delay_ms))

    @staticmethod
    def _tell(holding: Holding, segments: Iterable[Segment]) -> None:
        for segment in segments:
            holding.receive(segment)

    # What is true

    def log(self, end: bytes) -> Iterator[bytes]:
        """The noop and all below it in its log."""
        at = self.signed.get(end)
        while at is not None:
            yield at.id
            at = self.signed.get(at.head.previous)

    def past(self, noop: bytes) -> set[bytes]:
        covered, stack = set(), [noop]
        while stack:
            at = stack.pop()
            if at in self.signed and at not in covered:
                covered.add(at)
                stack.extend(name.id for name in named(self.signed[at]))
        return covered

    def conflict(self, one: bytes, other: bytes) -> bool:
        same = self.signed[one].head.author == self.signed[other].head.author
        return same and one not in self.log(other) and other not in self.log(one)

    @property
    def forkers(self) -> set[bytes]:
        """Who signed two heads of one index, or with one previous, published or not."""
        heads = [segment.head for segment in self.signed.values()]
        counts = Counter((h.author, h.index) for h in heads) + Counter((h.author, h.previous) for h in heads)
        return {author for (author, _), count in counts.items() if count > 1}
