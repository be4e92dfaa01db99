"""Whether the replicas of entities that peers share are in step: in all, peer by peer, and what cannot be right."""

from dashboards.grafana.links import FORKS, row_peer, row_swarm
from dashboards.grafana.looks import QUIET, QUIET_UNLESS_ANY, QUIET_UNLESS_SOME, SOME_MAY_MATTER, limits
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, bars, graph, stacked
from dashboards.grafana.queries import (
    IN_SWARM,
    OF_PEER,
    age,
    gauge,
    increase,
    metric,
    most,
    or_zero_for_swarms,
    series,
    total,
    value,
)
from dashboards.grafana.tables import Column, Label, table

PEER = "swarm, peer"


def section() -> Section:
    return Section("Replicas", [_states(), _bad_updates(), _peers()])


def diverged_of_swarms() -> str:
    """Diverged replicas of each swarm; 0 where none are shared."""
    return or_zero_for_swarms(total("swarm", _in("diverged", IN_SWARM)))


def _states() -> AnyPanel:
    return stacked(
        graph(
            Says(
                "Replicas by state",
                "How the replicas of all entities stand to all that was published. Diverged ones that vanish by "
                "themselves are writes at one time, which the next update joined.",
                "What a peer has heard since it last said something of an entity.",
                ("ReplicaDiverged",),
            ),
            Size(14, 9),
            "none",
            series(total("state", gauge("replicas", "swarm, peer, state", OF_PEER)), "{{state}}"),
        )
    ).decimals(0)


def _bad_updates() -> AnyPanel:
    counted = most("swarm, peer, why", increase("bad_updates_total", OF_PEER))
    return bars(
        Says(
            "Bad updates in this time, by reason",
            "Entities of which a peer published an update that cannot be right, within the shown time range.",
            "Whether it is a fault in a peer's software or meant. Further ones of one entity and reason.",
            ("BadUpdates",),
        ),
        Size(10, 9),
        "none",
        SOME_MAY_MATTER,
        value(total("why", counted), "{{why}}"),
    ).decimals(0)


def _peers() -> AnyPanel:
    return table(
        Says(
            "Replicas of each peer",
            "Each peer now: its replicas that are in step and that are not, the most events that one of them lacks, "
            "and since when the oldest divergence lasts.",
            "Which entities they are: the status page has them.",
            ("ReplicaDiverged", "BadUpdates"),
        ),
        Size(24, 9),
        [
            Label("swarm", (row_swarm(FORKS, "Forks and split-brains of this swarm"),)),
            Label("peer", (row_peer(FORKS, "Forks and split-brains of this peer"),)),
        ],
        [
            Column("in step", _in("in_step")),
            Column("behind", _in("behind")),
            Column("ahead", _in("ahead"), steps=QUIET_UNLESS_SOME),
            Column("diverged", _in("diverged"), steps=QUIET_UNLESS_SOME),
            Column("contradicted", gauge("replicas_contradicted", PEER, OF_PEER), steps=QUIET_UNLESS_ANY),
            Column("lacks at most", gauge("replica_lacks_events_max", PEER, OF_PEER)),
            Column(
                "diverged for",
                age("replica_diverged_since_timestamp_seconds", PEER, OF_PEER),
                "s",
                limits(300, 600, QUIET),
            ),
            Column(
                "bad updates in this time",
                f"round({total(PEER, most('swarm, peer, why', increase('bad_updates_total', OF_PEER)))})",
                steps=QUIET_UNLESS_SOME,
            ),
        ],
        sort="peer",
    )


def _in(state: str, where: str = OF_PEER) -> str:
    """Replicas of each peer in a state."""
    return most(PEER, metric("replicas", f'{where}, state="{state}"'))
