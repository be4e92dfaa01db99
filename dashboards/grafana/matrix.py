"""The matrix as a coloured grid, and the lines behind each of its cells.

It is Grafana's table, made a grid by its transformation "grouping to matrix", with cells coloured by thresholds. Of the
panels that come with Grafana it is the only one with names on both axes: heatmap and status history have time on one.
"""

from dashboards.grafana.links import FORKS, dashboard_address, leads_to, row_peer
from dashboards.grafana.looks import QUIET, QUIET_UNLESS_ANY, Steps, limits
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph
from dashboards.grafana.queries import IN_SWARM, OF_PAIR, OF_PEER, age, gauge, metric, most, series
from dashboards.grafana.tables import Column, Label, matrix, table

PAIR = "swarm, observer, author"
PEER = "swarm, peer"

LAGS: Steps = ((None, "dark-green"), (1, "green"), (3, "yellow"), (6, "orange"), (12, "red"))
"""One segment is on its way in health, a few after a slow gossip; a dozen mean that nothing comes any more."""

PAIRS_MAX = 20
"""So many lines a graph, the worst ones: a roster of 32 has a thousand pairs."""


def section() -> Section:
    return Section("Who has what of whom", [_grid(), _lag(), _unseen(), _peers()])


def _grid() -> AnyPanel:
    chosen = dashboard_address(FORKS, swarm="${swarm}", observer="${__data.fields[0]}", author="${__field.name}")
    grid = matrix(
        Says(
            "Matrix of $swarm: segments of the column's peer that the row's peer does not have",
            "Green has all or nearly all, red has had nothing for a while. A peer that forked has a row and a column "
            "for each "
            "branch. The pattern of a split is two green blocks on a red ground. A click on a cell shows that pair "
            "below.",
            "Lags above 255 from 255; how old they are in seconds, see below. Of a roster of more than 32 peers only "
            "the worst "
            "pairs are there, and the other cells are empty.",
            ("SplitBrain", "OneWayLink"),
        ),
        Size(24, 13),
        most(PAIR, metric("pair_lag_segments", IN_SWARM)),
        row="observer",
        column="author",
        steps=LAGS,
        cell=leads_to("Show this pair below", chosen),
    )
    return grid.repeat("swarm").repeat_direction("v")


def _lag() -> AnyPanel:
    return graph(
        Says(
            "Segments that an observer does not have",
            f"The pairs chosen above, the {PAIRS_MAX} worst at each moment.",
            "Lags above 255 from 255.",
            ("SplitBrain", "OneWayLink"),
        ),
        Size(12, 9),
        "none",
        series(
            f"topk({PAIRS_MAX}, {gauge('pair_lag_segments', PAIR, OF_PAIR)})", "{{swarm}} {{observer}} ← {{author}}"
        ),
    ).decimals(0)


def _unseen() -> AnyPanel:
    return graph(
        Says(
            "Age of the oldest segment that an observer does not have",
            f"The pairs chosen above, the {PAIRS_MAX} worst at each moment. Over `split_after` the observer is not "
            "fresh.",
            "Less than a tick: it is counted in ticks.",
            ("SplitBrain", "OneWayLink"),
        ),
        Size(12, 9),
        "s",
        series(
            f"topk({PAIRS_MAX}, {gauge('pair_unseen_seconds', PAIR, OF_PAIR)})", "{{swarm}} {{observer}} ← {{author}}"
        ),
    )


def _peers() -> AnyPanel:
    return table(
        Says(
            "Peers",
            "For each peer: its newest segment, the most it misses of any active author, on how many authors it is "
            "not fresh, "
            "and how many peers are not fresh on it.",
            "Why. Many authors and no observers mean that it does not hear, the reverse that it is not heard.",
            ("PeerSilent", "OneWayLink"),
        ),
        Size(24, 9),
        [Label("swarm"), Label("peer", (row_peer(FORKS, "Show this peer only"),))],
        [
            Column("newest index", gauge("peer_index", PEER, OF_PEER)),
            Column(
                "newest segment before",
                age("peer_last_segment_timestamp_seconds", PEER, OF_PEER),
                "s",
                limits(60, 300, QUIET),
            ),
            Column(
                "most missed of one author", gauge("peer_lag_segments_max", PEER, OF_PEER), steps=limits(6, 12, QUIET)
            ),
            Column("authors it is behind on", gauge("peer_stale_authors", PEER, OF_PEER), steps=QUIET_UNLESS_ANY),
            Column("peers behind on it", gauge("peer_stale_observers", PEER, OF_PEER), steps=QUIET_UNLESS_ANY),
            Column("silent for", age("peer_silent_since_timestamp_seconds", PEER, OF_PEER), "s", limits(0, 900, QUIET)),
        ],
        sort="peer",
    )
