r"""Scenarios with a liar: one key with two faces, each of which talks to its own neighbours only.

    O         P            Q------R
     \       /            /       |
      O--A--P--P         Q----A---R--R
     /
    O            (I)                  (II)

(I) the liar is the only link between two sides: once they entangle its two stories it can relay nothing between them.
(II) there is a second link: both stories meet, and every honest peer comes to hold the proof.
"""

from typing import NamedTuple

from producers.simulation import Simulation, Split
from producers.swarm import Settings, SimulatedPeer, SimulatedSwarm
from producers.truth import finish
from state.segment import encode_op


class _Stage(NamedTuple):
    """A liar in the middle and the two sides that it stands between."""

    swarm: SimulatedSwarm
    near: list[SimulatedPeer]
    liar: SimulatedPeer
    far: list[SimulatedPeer]

    def split_since(self, since_ms: int) -> Split:
        sides = [sorted(peer.key.public.hex() for peer in side) for side in (self.near, self.far)]
        return Split(since_ms, None, sides, suspects=[self.liar.key.public.hex()])


def lying_bridge(settings: Settings) -> Simulation:
    stage = _stage(settings)
    since_ms = settings.part_ms(1 / 3)
    stage.swarm.time.at(since_ms, lambda: _lie(stage))
    return finish(stage.swarm, "lying-bridge", [stage.split_since(since_ms)])


def lying_peer(settings: Settings) -> Simulation:
    stage = _stage(settings)
    stage.swarm.connect(stage.near[0], stage.far[-1])
    stage.swarm.time.at(settings.part_ms(1 / 3), lambda: _lie(stage))
    return finish(stage.swarm, "lying-peer")


def withheld_story(settings: Settings) -> Simulation:
    stage = _stage(settings)
    since_ms = settings.part_ms(1 / 3)

    def lie() -> None:
        face = _lie(stage, second_publishes=False)
        silent = f"{stage.liar.name} stops telling the story that is not on the topic"
        stage.swarm.at(settings.quiet_ms, face.go_offline, silent)

    stage.swarm.time.at(since_ms, lie)
    return finish(stage.swarm, "withheld-story", [stage.split_since(since_ms)])


def _stage(settings: Settings) -> _Stage:
    swarm = SimulatedSwarm(settings)
    middle = len(swarm.peers) // 2
    near, liar, far = swarm.peers[:middle], swarm.peers[middle], swarm.peers[middle + 1 :]
    swarm.connect_all(near)
    swarm.connect_all(far)
    swarm.connect(near[-1], liar)
    swarm.connect(liar, far[0])
    swarm.work(swarm.peers)
    return _Stage(swarm, near, liar, far)


def _lie(stage: _Stage, *, second_publishes: bool = True) -> SimulatedPeer:
    """Give the liar its second face, towards the far side, and let the faces contradict each other at once."""
    swarm, liar = stage.swarm, stage.liar
    links = [link for link in liar.links if any(end in stage.far for end in link.ends)]
    index = liar.holding.index
    face = swarm.second_face(liar, links)
    face.publishes = second_publishes
    for teller, listener in ((liar, stage.near[-1]), (face, stage.far[0])):
        swarm.close(teller, [encode_op(f"the coin goes to {listener.name}".encode())])
    swarm.tell_story(f"{liar.name} tells two stories after index {index}")
    if not second_publishes:
        swarm.tell_story(f"the story for {stage.far[0].name} and its side never reaches the topic")
    return face
