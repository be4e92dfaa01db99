"""Scenarios: stories that simulated swarms live through, each with its ground truth.

A scenario is a function of the settings. It places peers and links, says what happens when, and lets time pass.
"""

from collections.abc import Callable
from typing import NamedTuple

from producers.honest import epochs, gone_for_good, honest, partition_and_heal, pause, rare_noops
from producers.hostile import hostile_input
from producers.lies import lying_bridge, lying_peer, orphan_branch, silent_listener, withheld_story
from producers.replicastory import diverging_replicas
from producers.simulated_peer import SimulatedPeer
from producers.simulation import Simulation
from producers.swarm import PEERS_MIN, Settings, SimulatedSwarm, connected_swarm
from producers.truth import finish
from producers.wholestory import whole_story
from state.config import ConfigError
from state.head import NO_PREVIOUS, Head, head_id
from state.segment import NO_REFS_HASH, Segment, encode_op
from state.signing import SIGNATURE_BYTES, SigningKey


class Scenario(NamedTuple):
    """A story by its name, with one sentence about it."""

    name: str
    about: str
    play: Callable[[Settings], Simulation]
    peers_min: int = PEERS_MIN

    def run(self, settings: Settings) -> Simulation:
        """Play the story; raises ConfigError, with one sentence, if there are too few peers for it."""
        if settings.peers < self.peers_min:
            raise ConfigError(f"peers: want {self.peers_min} or more for {self.name}, got {settings.peers}")
        return self.play(settings)


def restored_backup(settings: Settings) -> Simulation:
    """A peer starts again from an old backup and signs a second version of what it had signed since.

    It stays deaf: what the others made meanwhile builds on its lost segments, which it does not hold.
    """
    swarm = connected_swarm(settings)
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
    swarm = connected_swarm(settings)
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
        Scenario(
            "whole-story",
            "honest at first, then a lie that comes out, then a split by a lying bridge, and healing",
            whole_story,
            peers_min=6,
        ),
        Scenario("lying-bridge", "the only link between two sides tells each another story", lying_bridge),
        Scenario("lying-peer", "a peer tells two stories, and a second link brings it out", lying_peer),
        Scenario("withheld-story", "a lying bridge, one of whose stories never reaches the topic", withheld_story),
        Scenario(
            "silent-listener",
            "a lying bridge, and a peer that hears both sides and relays nothing",
            silent_listener,
            peers_min=4,
        ),
        Scenario("orphan-branch", "a second log of one key, that is on the topic and known to no peer", orphan_branch),
        Scenario(
            "ref-to-nothing", "a peer entangles noops that never were; a segment is never published", ref_to_nothing
        ),
        Scenario("restored-backup", "a peer goes on from an older state of its log", restored_backup),
        Scenario("partition-and-heal", "all links between two sides are cut for a time", partition_and_heal),
        Scenario("pause", "all peers stop for a time, and go on", pause),
        Scenario("gone-for-good", "a peer stops and never comes back", gone_for_good),
        Scenario("rare-noops", "peers sign too rarely to tell a split from a pause", rare_noops),
        Scenario("epochs", "a peer leaves, another joins, and the roster changes with them", epochs),
        Scenario(
            "diverging-replicas",
            "replicas of shared entities are in step, fall behind, fork, are joined or not, and some lie about it",
            diverging_replicas,
            peers_min=4,
        ),
        Scenario("hostile-input", "records that are bad in every way, copies, and clocks that are off", hostile_input),
        Scenario("seed-example", "three peers in a chain, three noops each", seed_example),
    )
}


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
