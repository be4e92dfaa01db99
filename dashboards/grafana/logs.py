"""What is wrong with single logs: segments that are missing, clocks that are off, limits that were exceeded."""

from dashboards.grafana.links import FORKS, row_peer
from dashboards.grafana.looks import QUIET_UNLESS_ANY, limits
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph
from dashboards.grafana.queries import OF_PEER, age, gauge, moment, series
from dashboards.grafana.tables import HIDDEN, Column, Label, table

PEER = "swarm, peer"
HALF = Size(12, 8)
NAMES = [Label("swarm"), Label("peer", (row_peer(FORKS, "Show this peer only"),))]


def section() -> Section:
    return Section("Missing segments, clocks, limits", [_missing(), _missing_over_time(), _clocks(), _limits()])


def _missing() -> AnyPanel:
    some = f"{gauge('missing_segments', PEER, OF_PEER)} > 0"
    disputed = f"{gauge('missing_disputed_segments', PEER, OF_PEER)} and on (swarm, peer) {some}"
    return table(
        Says(
            "Missing segments",
            "Segments of a peer that others build on and nobody published. Disputed: another version stands in its "
            "place.",
            "Whether they were lost, are withheld, or never were. Anyone who holds one can publish it.",
            ("MissingSegment",),
        ),
        HALF,
        NAMES,
        [
            Column("missing", some, steps=QUIET_UNLESS_ANY),
            Column("disputed", disputed, steps=QUIET_UNLESS_ANY),
            Column("oldest for", age("missing_oldest_timestamp_seconds", PEER, OF_PEER), "s", limits(60, 600)),
        ],
        sort="peer",
    )


def _missing_over_time() -> AnyPanel:
    return graph(
        Says(
            "Missing segments over time",
            "Segments that others build on and nobody published, by the peer whose they are.",
            "More than 256 of one peer.",
            ("MissingSegment",),
        ),
        HALF,
        "none",
        series(gauge("missing_segments", PEER, OF_PEER), "{{swarm}} {{peer}}"),
    ).decimals(0)


def _clocks() -> AnyPanel:
    return table(
        Says(
            "Clocks",
            "Peers whose clock was found far from record time: the most that it was ever ahead, the least that it was "
            "ever behind.",
            "What the clock says now. Nothing is judged by it. A peer whose segments reach Kafka late seems to be "
            "behind.",
            ("ClockSkew",),
        ),
        HALF,
        NAMES,
        [
            Column("ahead", gauge("clock_ahead_seconds", PEER, OF_PEER), "s", limits(0.001, 3600)),
            Column("behind", gauge("clock_behind_seconds", PEER, OF_PEER), "s", limits(0.001, 3600)),
            Column("last changed", moment("clock_skew_changed_timestamp_seconds", PEER, OF_PEER), "dateTimeAsIso"),
        ],
        sort="peer",
    )


def _limits() -> AnyPanel:
    return table(
        Says(
            "Limits exceeded",
            "Peers that went over a limit, at any time. What they published beyond it is left out.",
            "How far they went over it.",
            ("PeerOverLimit",),
        ),
        HALF,
        [*NAMES, Label("limit")],
        [Column(HIDDEN, gauge("limits_exceeded", "swarm, peer, limit", OF_PEER))],
        sort="peer",
    )
