"""The scenario of hostile input: an honest swarm at work while attackers write to the same topic.

Besides the forgeries there is what must not be rejected: clocks that are off, copies, copies that come late, under
another key or in another encoding, a head signed twice, and an index that does not follow from its `previous`.
"""

from functools import partial

from producers.forgery import Forger, Forgery, RandomizedKey
from producers.simulation import Simulation
from producers.swarm import Settings, SimulatedSwarm, connected_swarm
from producers.truth import finish
from state.segment import Segment, build, decode_refs, seal
from state.signing import SigningKey

HOUR_MS = 3_600_000
INDEX_LEAP = 1_000_000


def hostile_input(settings: Settings) -> Simulation:
    swarm = connected_swarm(settings)
    for peer, skew_ms, text in ((swarm.peers[0], HOUR_MS, "ahead"), (swarm.peers[1], -HOUR_MS, "behind")):
        peer.skew_ms = skew_ms
        swarm.tell_story(f"the clock of {peer.name} is an hour {text}")
    attack = _Attack(swarm)
    swarm.at(settings.part_ms(0.25), attack.forge, "records that are bad in every way begin to come")
    swarm.at(settings.part_ms(0.3), attack.copy, "copies of good records come, some of them odd")
    swarm.time.at(settings.part_ms(0.4), attack.leap)
    swarm.at(settings.part_ms(0.75), attack.copy, "more copies come, some of them late")
    return finish(swarm, "hostile-input")


class _Attack:
    """What the attacker does, when its time has come. The rogue is the last peer of the roster."""

    def __init__(self, swarm: SimulatedSwarm) -> None:
        self.swarm = swarm
        self.rogue = swarm.peers[-1]
        self.stranger = SigningKey(swarm.derive("key of a stranger"))

    def forge(self) -> None:
        """Spread all forgeries over the next half of the run, in no order; one of each key comes at the very end."""
        settings, chance = self.swarm.settings, self.swarm.chance
        forgeries = list(self._forger().forgeries())
        forgeries += [forgery._replace(key=key) for forgery, key in zip(forgeries, self._odd_keys(), strict=False)]
        chance.shuffle(forgeries)
        for forgery in forgeries:
            time_ms = chance.randint(self.swarm.time.now_ms, settings.part_ms(0.75))
            self.swarm.time.at(time_ms, partial(self._publish, forgery))
        last_of_key = {forgery.key: forgery for forgery in forgeries if len(forgery.value or b"") < 10_000}
        for forgery in last_of_key.values():
            self.swarm.time.at(settings.part_ms(1), partial(self._publish, forgery))

    def copy(self) -> None:
        """Copy an early record, the newest one, and one in odd encodings; one comes under another's key."""
        segments = self._segments()
        early, newest, theirs = segments[0], segments[-1], self._forger().theirs
        self._publish_copy(early)
        self._publish_copy(newest)
        self._publish_copy(theirs, key=self.stranger.public)
        for _, value in self._forger().odd_copies():
            self.swarm.publish(theirs.head.author, value, segment=theirs)

    def leap(self) -> None:
        """Sign an index far beyond the one of `previous`, for the topic alone, and sign that head twice."""
        swarm, holding = self.swarm, self.rogue.holding
        leap = build(
            self.rogue.key,
            swarm=swarm.swarm,
            index=holding.index + INDEX_LEAP,
            previous=holding.newest,
            time_ms=swarm.time.now_ms,
            ops=[],
            root=bytes(32),
        )
        swarm.publish_segment(leap)
        swarm.tell_story(f"{self.rogue.name} leaps from index {holding.index} to {leap.head.index}")
        again = RandomizedKey(swarm.derive(f"key of {self.rogue.name}"), nonce=swarm.derive("nonce"))
        resigned = seal(again, leap.head, leap.ops, leap.refs)
        second = partial(swarm.publish, self.rogue.key.public, resigned.encode(), segment=resigned)
        swarm.at(swarm.settings.part_ms(0.6), second, f"{self.rogue.name} signs that leap a second time")

    def _publish(self, forgery: Forgery) -> None:
        self.swarm.publish(forgery.key, forgery.value, reason=forgery.reason)

    def _publish_copy(self, segment: Segment, key: bytes | None = None) -> None:
        self.swarm.publish(segment.head.author if key is None else key, segment.encode(), segment=segment)

    def _forger(self) -> Forger:
        rogue = self.rogue.key
        segments = self._segments()
        mine = [segment for segment in segments if segment.head.author == rogue.public and segment.head.index > 1]
        theirs = [
            segment
            for segment in segments
            if segment.head.author != rogue.public and len(segment.ops) > 1 and decode_refs(segment.refs)
        ]
        authors = [peer.key.public for peer in self.swarm.peers]
        return Forger(self.swarm.chance, rogue, self.stranger, mine[-1], theirs[len(theirs) // 2], authors)

    def _segments(self) -> list[Segment]:
        return [publication.segment for publication in self.swarm.published if publication.segment]

    def _odd_keys(self) -> list[bytes]:
        return [b"", b"\0", self.stranger.public, self.swarm.peers[0].key.public]
