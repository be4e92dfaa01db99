"""Episodes on their timelines: splits, silence, one-way links; and who may stand behind an open split."""

from dashboards.grafana import timelines
from dashboards.grafana.links import FORKS, row_peer, row_swarm, series_peer
from dashboards.grafana.looks import (
    LINK_STATES,
    NOW,
    PEER_STATES,
    SOME_MAY_MATTER,
    SOON,
    SWARM_STATES,
    UNKNOWN,
    meanings,
)
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, bars, timeline
from dashboards.grafana.queries import IN_SWARM, OF_PEER, gauge, increase, most, series, total, value
from dashboards.grafana.tables import HIDDEN, Column, Label, table


def section() -> Section:
    return Section("Episodes", [_sides(), _peers(), _links(), _suspects(), _episodes()])


def _sides() -> AnyPanel:
    return timeline(
        Says(
            "Sides of each swarm",
            "One side in health. Two or more while active peers are split; undecidable while segments are too rare to "
            "tell.",
            "The first and the last moment of a split: it takes two ticks to open and two to close.",
            ("SplitBrain", "VerdictsUndecidable"),
        ),
        Size(24, 5),
        SWARM_STATES,
        series(timelines.swarms(), "{{swarm}}"),
    )


def _peers() -> AnyPanel:
    return timeline(
        Says(
            "Sides and silence of each peer",
            "On the main side, on another side while the swarm is split, on no side, or silent. A click shows one "
            "peer only.",
            "Which link is cut: the matrix below tells who has nothing of whom.",
            ("SplitBrain", "PeerSilent"),
        ),
        Size(24, 11),
        PEER_STATES,
        series(timelines.peers(), "{{swarm}} {{peer}}"),
    ).data_links([series_peer(FORKS, "Show this peer only")])


def _links() -> AnyPanel:
    return timeline(
        Says(
            "One-way links of each peer",
            "Whether knowledge flows both ways between a peer and the main side.",
            "Whether the network or the peer itself is the cause.",
            ("OneWayLink",),
        ),
        Size(24, 9),
        LINK_STATES,
        series(timelines.one_way_links(), "{{swarm}} {{peer}}"),
    ).data_links([series_peer(FORKS, "Show this peer only")])


def _suspects() -> AnyPanel:
    words = meanings(
        {
            "forked": ("signed a story for each side", NOW),
            "withheld": ("a segment of it is missing", SOON),
            "silent": ("linked the sides, and is silent", UNKNOWN),
            "one_way": ("hears or is heard, not both", SOON),
        }
    )
    return table(
        Says(
            "Suspects of the open split",
            "Peers that may stand between the sides, and why.",
            "Guilt: a cut network needs none of them. It is empty while no swarm is split.",
            ("SplitBrain",),
        ),
        Size(14, 8),
        [
            Label("swarm", (row_swarm(FORKS, "Show this swarm only"),)),
            Label("peer", (row_peer(FORKS, "Show this peer only"),)),
            Label("why", words=(words,)),
        ],
        [Column(HIDDEN, gauge("split_suspect", "swarm, peer, why", OF_PEER))],
        sort="peer",
    )


def _episodes() -> AnyPanel:
    kinds = total("kind", most("swarm, kind", increase("episodes_total", IN_SWARM)))
    return bars(
        Says(
            "Episodes opened in this time",
            "How many splits, silences, one-way links and stretches of indecision opened within the shown time range.",
            "How long they lasted: see the timelines.",
            ("SplitBrain", "PeerSilent", "OneWayLink", "VerdictsUndecidable"),
        ),
        Size(10, 8),
        "none",
        SOME_MAY_MATTER,
        value(kinds, "{{kind}}"),
    ).decimals(0)
