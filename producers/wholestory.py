"""The scenario that tells all: an honest swarm, a lie that comes out, a split by a lying bridge, and healing.

With eight peers:
- 1 to 4 are the near side and 6 to 8 the far side. Each is well linked, and 1 with 8, 3 with 7, 4 with 6 link the two.
- 2 lies first, to 1 on one hand and to 3 and 4 on the other: their own links bring it out.
- 5 is linked with 4 and with 6. When the other links between the sides are cut, it is the only bridge, and lies.
- The links come back. Both liars leave some seconds after they are found out: they would only go on deaf.
"""

from typing import NamedTuple

from producers.lies import Stage, two_sides
from producers.link import Link
from producers.simulation import Simulation
from producers.swarm import Settings, SimulatedSwarm
from producers.truth import finish


def whole_story(settings: Settings) -> Simulation:
    """Each part has its share of the run; in one of 60 s the split and what follows it last 18 s each."""
    cast = _cast(settings)
    swarm, lie, split = cast.swarm, cast.lie, cast.split
    since_ms, until_ms = settings.part_ms(0.4), settings.part_ms(0.7)
    swarm.tell_story("all peers work, and everyone hears of everything")
    swarm.time.at(settings.part_ms(0.15), lambda: _lie_and_leave(lie, settings.part_ms(0.3)))

    def set_links(*, up: bool) -> None:
        for link in cast.between:
            link.is_up = up

    names = [", ".join(peer.name for peer in side) for side in (split.near, split.far)]
    cut = f"the links between {names[0]} and {names[1]} are cut: only {split.liar.name} is left between them"
    swarm.at(since_ms, lambda: set_links(up=False), cut)
    swarm.time.at(since_ms, lambda: _lie_and_leave(split, settings.part_ms(0.85)))
    swarm.at(until_ms, lambda: set_links(up=True), f"the links between {names[0]} and {names[1]} are back")
    return finish(swarm, "whole-story", [split.split(since_ms, until_ms)])


class _Cast(NamedTuple):
    """The two lies, each with the peers that it is told to, and the links between the sides besides the bridge."""

    swarm: SimulatedSwarm
    lie: Stage
    split: Stage
    between: list[Link]


def _cast(settings: Settings) -> _Cast:
    swarm = SimulatedSwarm(settings)
    _, near, bridge, far = two_sides(swarm, swarm.peers)
    first, liar, *others = near
    honest = [first, *others]
    between = [swarm.connect(one, other) for one, other in zip(honest, reversed(far), strict=False)]
    return _Cast(swarm, Stage(swarm, [first], liar, others), Stage(swarm, honest, bridge, far), between)


def _lie_and_leave(stage: Stage, leave_ms: int) -> None:
    face = stage.lie()

    def leave() -> None:
        for one in (stage.liar, face):
            one.go_offline()

    stage.swarm.at(leave_ms, leave, f"everyone holds both stories of {stage.liar.name}, and it leaves")
