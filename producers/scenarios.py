"""Scenarios: stories that simulated swarms live through, each with its ground truth.

A scenario is a function of the settings. It places peers and links, says what happens when, and lets time pass.
"""

from collections.abc import Callable
from typing import NamedTuple

from producers.hostile import hostile_input
from producers.lies import lying_bridge, lying_peer, withheld_story
from producers.simulation import Simulation, Split
from producers.swarm import Settings, SimulatedPeer, SimulatedSwarm
from producers.truth import finish
from state.head import NO_PREVIOUS, Head, head_id
from state.segment import NO_REFS_HASH, Segment, encode_op
from state.signing import SIGNATURE_BYTES, SigningKey


class Scenario(NamedTuple):
    """A story by its name, with one sentence about it."""

    name: str
    about: str
    run: Callable[[Settings], Simulation]


def honest(settings: Settings) -> Simulation:
    swarm = _connected_swarm(settings)
    swarm.silence(swarm.peers[-1], settings.part_ms(0.3), settings.part_ms(0.5))
    return finish(swarm, "honest")


def partition_and_heal(settings: Settings) -> Simulation:
    swarm = _connected_swarm(settings)
    middle = len(swarm.peers) // 2
    sides = [swarm.peers[:middle], swarm.peers[middle:]]
    between = [link for peer in sides[0] for link in peer.links if any(end in sides[1] for end in link.ends)]

    def set_links(*, up: bool) -> None:
        for link in between:
            link.is_up = up

    since_ms, until_ms = settings.part_ms(0.3), settings.part_ms(0.65)
    names = [", ".join(peer.name for peer in side) for side in sides]
    swarm.at(since_ms, lambda: set_links(up=False), f"every link between {names[0]} and {names[1]} is cut")
    swarm.at(until_ms, lambda: set_links(up=True), "the links are back")
    keys = [sorted(peer.key.public.hex() for peer in side) for side in sides]
    return finish(swarm, "partition-and-heal", [Split(since_ms, until_ms, keys, suspects=[])])


def restored_backup(settings: Settings) -> Simulation:
    """A peer starts again from an old backup and signs a second version of what it had signed since.

    It stays deaf: what the others made meanwhile builds on its lost segments, which it does not hold.
    """
    swarm = _connected_swarm(settings)
    peer = swarm.peers[1]

    def save() -> None:
        backup = peer.back_up()
        swarm.tell_story(f"a backup of {peer.name} is made at index {backup.holding.index}")
        restore = f"{peer.name} starts again from the backup, after index {backup.holding.index}"
        swarm.silence(peer, settings.part_ms(0.5), settings.part_ms(0.55))
        swarm.at(settings.part_ms(0.55), lambda: swarm.restore(peer, backup), restore)

    swarm.time.at(settings.part_ms(0.35), save)
    return finish(swarm, "restored-backup")


def ref_to_nothing(settings: Settings) -> Simulation:
    """One peer entangles noops that never were; a segment of another never reaches the topic.

    Honest peers hold nothing of the first one's log from there on: its past cannot be had.
    """
    swarm = _connected_swarm(settings)
    victim, loser, inventor = swarm.peers[0], swarm.peers[1], swarm.peers[-1]

    def lose() -> None:
        loser.publishes = False
        lost = swarm.close(loser)
        loser.publishes = True
        swarm.tell_story(f"{loser.name} loses index {lost.head.index} on its way to the topic")

    def invent(text: str, **changes: object) -> None:
        invented = _invented(inventor, victim, swarm.derive(text), changes)
        inventor.holding.receive(invented)
        swarm.close(inventor)
        swarm.tell_story(f"{inventor.name} entangles {text}, index {invented.head.index}, which never was")

    stranger = SigningKey(swarm.derive("key of a stranger")).public
    beyond = 10 + 2 * settings.duration_ms // settings.interval_ms
    swarm.time.at(settings.part_ms(0.3), lose)
    swarm.time.at(settings.part_ms(0.35), lambda: invent(f"another noop of {victim.name}"))
    swarm.time.at(settings.part_ms(0.4), lambda: invent(f"a noop of {victim.name} far beyond its newest", index=beyond))
    swarm.time.at(settings.part_ms(0.45), lambda: invent("a noop of nobody we know", index=1, author=stranger))
    return finish(swarm, "ref-to-nothing")


def seed_example(settings: Settings) -> Simulation:
    """The three peers and nine noops of the seed: each hears its neighbour just before the noop that entangles it."""
    swarm = SimulatedSwarm(settings, names="ABC")
    peers = {peer.name: peer for peer in swarm.peers}
    for second, name, heard in _SEED_NOOPS:
        peer = peers[name]
        swarm.time.run(settings.start_ms + 1000 * second)
        if heard:
            peer.take(peers[heard].log)
        segment = peer.holding.close(peer.key, swarm.time.now_ms, [encode_op(f"{second}+{name}".encode())])
        peer.tell([segment])
        swarm.sent.add(segment.id)
        swarm.publish(segment.head.author, segment.encode(), segment=segment)
        swarm.tell_story(f"{name} closes {second}+{name}")
    return finish(swarm, "seed-example")


_SEED_NOOPS = [
    (1, "A", None),
    (1, "C", None),
    (2, "A", None),
    (2, "B", "C"),
    (3, "B", "A"),
    (4, "A", "B"),
    (4, "C", "B"),
    (5, "B", "C"),
    (5, "C", None),
]
"""When a noop is closed, in seconds, by whom, and which neighbour it was told of just before."""

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("honest", "everyone works; one peer is silent for a while and comes back", honest),
        Scenario("lying-bridge", "the only link between two sides tells each another story", lying_bridge),
        Scenario("lying-peer", "a peer tells two stories, and a second link brings it out", lying_peer),
        Scenario("withheld-story", "a lying bridge, one of whose stories never reaches the topic", withheld_story),
        Scenario(
            "ref-to-nothing", "a peer entangles noops that never were; a segment is never published", ref_to_nothing
        ),
        Scenario("restored-backup", "a peer goes on from an older state of its log", restored_backup),
        Scenario("partition-and-heal", "all links between two sides are cut for a time", partition_and_heal),
        Scenario("hostile-input", "records that are bad in every way, copies, and clocks that are off", hostile_input),
        Scenario("seed-example", "three peers in a chain, three noops each", seed_example),
    )
}


def _connected_swarm(settings: Settings) -> SimulatedSwarm:
    swarm = SimulatedSwarm(settings)
    swarm.connect_all(swarm.peers)
    swarm.work(swarm.peers)
    return swarm


def _invented(inventor: SimulatedPeer, victim: SimulatedPeer, salt: bytes, changes: dict[str, object]) -> Segment:
    """A segment that only its inventor ever sees: like one of the victim's that it holds, except for these changes."""
    theirs = [segment for segment in inventor.log if segment.head.author == victim.key.public]
    real = theirs[len(theirs) // 2]
    head = real.head._replace(ops_hash=salt)
    refs = real.refs
    if changes:
        # Without a past of its own it can be held at once, whatever its place.
        head, refs = head._replace(previous=NO_PREVIOUS, refs_hash=NO_REFS_HASH), b""
        head = Head(**{**head._asdict(), **changes})
    encoded = head.encode()
    return Segment(head_id(encoded), head, encoded, bytes(SIGNATURE_BYTES), (), refs)
