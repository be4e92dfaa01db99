"""What peers and swarms were at each tick, as numbers that `looks` has words for. Two dashboards show them."""

from dashboards.grafana.queries import IN_SWARM, OF_PEER, gauge

_PEER = "swarm, peer"


def peers() -> str:
    """The side of each peer; -1 while it is silent, 0 while it is on no side."""
    silent = gauge("peer_silent", _PEER, OF_PEER)
    return f"-1 * ({silent} == 1) or {gauge('split_side', _PEER, OF_PEER)}"


def swarms() -> str:
    """The number of sides of each swarm; 0 while it cannot be decided."""
    undecidable = gauge("undecidable", "swarm", IN_SWARM)
    return f"0 * ({undecidable} == 1) or {gauge('split_sides', 'swarm', IN_SWARM)}"


def one_way_links() -> str:
    """1 while a peer hears the main side and is not heard, 2 while it is heard and does not hear, 3 if both hold."""
    hears = gauge("peer_one_way", _PEER, f'{OF_PEER}, direction="hears"')
    heard = gauge("peer_one_way", _PEER, f'{OF_PEER}, direction="heard"')
    return f"{hears} + 2 * {heard}"
