r"""Scenarios with a liar: one key with two faces, each of which talks to its own neighbours only.

    O         P            Q------R
     \       /            /       |
      O--A--P--P         Q----A---R--R
     /
    O            (I)                  (II)

(I) the liar is the only link between two sides: once they entangle its two stories it can relay nothing between them.
(II) there is a second link: both stories meet, and every honest peer comes to hold the proof.

From then on the liar is deaf: no face of it holds the other's story, so none can hold what honest peers build on both.
"""

from collections.abc import Sequence
from typing import NamedTuple

from producers.simulated_peer import SimulatedPeer
from producers.simulation import Simulation, Split
from producers.swarm import Settings, SimulatedSwarm, connected_swarm
from producers.truth import finish
from state.segment import encode_op


class Stage(NamedTuple):
    """A liar in the middle and the two sides that it stands between."""

    swarm: SimulatedSwarm
    near: Sequence[SimulatedPeer]
    liar: SimulatedPeer
    far: Sequence[SimulatedPeer]

    def split(self, since_ms: int, until_ms: int | None = None) -> Split:
        sides = [sorted(peer.key.public.hex() for peer in side) for side in (self.near, self.far)]
        return Split(since_ms, until_ms, sides, suspects=[self.liar.key.public.hex()])

    def lie(self, *, second_publishes: bool = True) -> SimulatedPeer:
        """Give the liar its second face, towards the far side, and let the faces contradict each other at once."""
        swarm, liar = self.swarm, self.liar
        links = [link for link in liar.links if any(end in self.far for end in link.ends)]
        index = liar.holding.index
        face = swarm.second_face(liar, links)
        face.publishes = second_publishes
        for teller, listener in ((liar, self.near[-1]), (face, self.far[0])):
            swarm.close(teller, [encode_op(f"the coin goes to {listener.name}".encode())])
        swarm.tell_story(f"{liar.name} tells two stories after index {index}")
        if not second_publishes:
            swarm.tell_story(f"the story for {self.far[0].name} and its side never reaches the topic")
        return face


def two_sides(swarm: SimulatedSwarm, peers: Sequence[SimulatedPeer]) -> Stage:
    """Peers at work in two sides, with the liar as the only link between them."""
    middle = len(peers) // 2
    near, liar, far = peers[:middle], peers[middle], peers[middle + 1 :]
    swarm.connect_all(near)
    swarm.connect_all(far)
    swarm.connect(near[-1], liar)
    swarm.connect(liar, far[0])
    swarm.work(peers)
    return Stage(swarm, near, liar, far)


def lying_bridge(settings: Settings) -> Simulation:
    swarm = SimulatedSwarm(settings)
    stage = two_sides(swarm, swarm.peers)
    since_ms = settings.part_ms(1 / 3)
    swarm.time.at(since_ms, stage.lie)
    return finish(swarm, "lying-bridge", [stage.split(since_ms)])


def lying_peer(settings: Settings) -> Simulation:
    swarm = SimulatedSwarm(settings)
    stage = two_sides(swarm, swarm.peers)
    swarm.connect(stage.near[0], stage.far[-1])
    swarm.time.at(settings.part_ms(1 / 3), stage.lie)
    return finish(swarm, "lying-peer")


def withheld_story(settings: Settings) -> Simulation:
    swarm = SimulatedSwarm(settings)
    stage = two_sides(swarm, swarm.peers)
    since_ms = settings.part_ms(1 / 3)

    def lie() -> None:
        face = stage.lie(second_publishes=False)
        silent = f"{stage.liar.name} stops telling the story that is not on the topic"
        swarm.at(settings.quiet_ms, face.go_offline, silent)

    swarm.time.at(since_ms, lie)
    return finish(swarm, "withheld-story", [stage.split(since_ms)])


def silent_listener(settings: Settings) -> Simulation:
    """The last peer hears both sides of a lying bridge and holds both stories; nobody hears what it makes of them."""
    swarm = SimulatedSwarm(settings)
    *others, listener = swarm.peers
    stage = two_sides(swarm, others)
    listener.relays = False
    for neighbour in (stage.near[0], stage.far[-1]):
        swarm.connect(neighbour, listener)
    swarm.work([listener])
    swarm.tell_story(f"{listener.name} hears {stage.near[0].name} and {stage.far[-1].name}, and tells them nothing")
    since_ms = settings.part_ms(1 / 3)
    swarm.time.at(since_ms, stage.lie)
    return finish(swarm, "silent-listener", [stage.split(since_ms)])


def orphan_branch(settings: Settings) -> Simulation:
    """A second face without a link: it hears nobody, and what it signs is on the topic alone."""
    swarm = connected_swarm(settings)
    owner = swarm.peers[1]

    def fork() -> None:
        face = swarm.second_face(owner, links=[])
        orphan = swarm.close(face)
        swarm.tell_story(f"the key of {owner.name} signs a second index {orphan.head.index} that no peer is told of")

    swarm.time.at(settings.part_ms(1 / 3), fork)
    return finish(swarm, "orphan-branch")
