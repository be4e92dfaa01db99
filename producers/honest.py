"""Scenarios in which every peer is honest: links fail, peers stop, come and go, and nobody is to be accused."""

from producers.simulation import Simulation, Split
from producers.swarm import START_MS, Settings, SimulatedSwarm, connected_swarm
from producers.truth import finish


def honest(settings: Settings) -> Simulation:
    swarm = connected_swarm(settings)
    swarm.silence(swarm.peers[-1], settings.part_ms(0.3), settings.part_ms(0.5))
    return finish(swarm, "honest")


def partition_and_heal(settings: Settings) -> Simulation:
    swarm = connected_swarm(settings)
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


def pause(settings: Settings) -> Simulation:
    """Nobody signs anything for a time: what was last signed grows old, and nobody is parted by that."""
    swarm = connected_swarm(settings)

    def set_online(*, online: bool) -> None:
        for peer in swarm.peers:
            peer.is_online = online

    swarm.at(settings.part_ms(0.4), lambda: set_online(online=False), "all peers stop")
    swarm.at(settings.part_ms(0.65), lambda: set_online(online=True), "all peers go on")
    return finish(swarm, "pause")


def gone_for_good(settings: Settings) -> Simulation:
    swarm = connected_swarm(settings)
    gone = swarm.peers[-1]
    swarm.at(settings.part_ms(0.3), gone.go_offline, f"{gone.name} stops and never comes back")
    return finish(swarm, "gone-for-good")


def rare_noops(settings: Settings) -> Simulation:
    """Peers sign only two noops in a `split_after`, where three are needed to tell a split from a pause."""
    swarm = SimulatedSwarm(settings)
    swarm.connect_all(swarm.peers)
    interval_ms = max(settings.interval_ms, settings.split_after_ms // 2)
    swarm.work(swarm.peers, interval_ms)
    swarm.tell_story(f"each peer closes a segment about every {interval_ms} ms")
    return finish(swarm, "rare-noops")


def epochs(settings: Settings) -> Simulation:
    """Two epochs: the last peer joins with the second one, and the first peer has left a while before it."""
    swarm = connected_swarm(settings)
    leaver, newcomer = swarm.peers[0], swarm.peers[-1]
    second_ms = settings.part_ms(0.5)
    swarm.rosters = [(START_MS, swarm.peers[:-1]), (second_ms, swarm.peers[1:])]
    newcomer.go_offline()
    swarm.at(settings.part_ms(0.4), leaver.go_offline, f"{leaver.name} leaves")
    swarm.at(second_ms, newcomer.go_online, f"a new epoch starts without {leaver.name}; {newcomer.name} joins")
    return finish(swarm, "epochs")
