"""Who lied, who believes which story, which sides there are and since when, and who is behind whom.

Lies are here; the other rows are in `episodes`, `matrix` and `logs`.
"""

from dashboards.grafana import episodes, logs, matrix, variables
from dashboards.grafana.glance import split_swarms
from dashboards.grafana.links import FORKS, leads_to, row_peer, row_swarm
from dashboards.grafana.looks import NONE_IS_WELL, NOW, PLAIN, UNKNOWN, limits, without_value
from dashboards.grafana.page import Page, Section
from dashboards.grafana.panels import AnyPanel, Says, Size, bars, graph, number
from dashboards.grafana.queries import (
    IN_SWARM,
    OF_PEER,
    age,
    gauge,
    increase,
    metric,
    moment,
    most,
    or_zero_while,
    series,
    total,
    value,
)
from dashboards.grafana.tables import HIDDEN, Column, Label, table

SMALL = Size(4, 4)
PEER = "swarm, peer"
THIS_PEER = row_peer(FORKS, "Show this peer only")


def page() -> Page:
    return Page(
        file="forks",
        uid=FORKS,
        title="quorumscope / Forks and split-brains",
        about="Who signed two versions of a log, with the evidence; the sides of a split swarm; who has what of whom.",
        variables=[variables.swarm(), variables.peer(), variables.observer(), variables.author()],
        sections=[
            Section("In numbers", _numbers()),
            Section("Lies", [_forks(), _weights(), _believers()]),
            episodes.section(),
            matrix.section(),
            logs.section(),
        ],
    )


def _numbers() -> list[AnyPanel]:
    return [
        number(
            Says(
                "Liars",
                "Peers of those chosen that signed two versions of their log, at any time.",
                "A lie from a restored backup or from one key in two places.",
                ("ForkDetected",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(or_zero_while(metric("peers", IN_SWARM), f"count({gauge('fork_branches', PEER, OF_PEER)})")),
        ),
        number(
            Says(
                "Forks in this time",
                "Points where logs were found to fork, within the shown time range.",
                "Forks that were found before the monitor was first scraped.",
                ("ForkDetected",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(total("", most(PEER, increase("forks_total", OF_PEER)))),
        ).decimals(0),
        number(
            Says(
                "Longest undetected",
                "The longest time from the second version of a log on the topic to the verdict.",
                "How long the peer had been lying before it published the second version.",
                ("ForkDetected", "LagHigh"),
            ),
            SMALL,
            "s",
            limits(10, 60),
            value(most("", metric("lie_undetected_seconds", OF_PEER))),
        ).mappings([without_value("no lie", UNKNOWN)]),
        number(
            Says(
                "False indexes in this time",
                "Segments whose index does not follow that of the one before, within the shown time range.",
                "Whether it is a bug of the peer or meant.",
                ("BadIndex",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(total("", most(PEER, increase("bad_index_segments_total", OF_PEER)))),
        ).decimals(0),
        split_swarms(SMALL),
        number(
            Says(
                "Split for",
                "How long the longest open split has lasted.",
                "Splits that have healed: they are below, on the timeline.",
                ("SplitBrain",),
            ),
            SMALL,
            "s",
            ((None, NOW),),
            value(most("", age("split_opened_timestamp_seconds", "swarm", IN_SWARM))),
        ).mappings([without_value("not split", UNKNOWN)]),
    ]


def _forks() -> AnyPanel:
    info = most("swarm, peer, index, evidence", metric("fork_info", OF_PEER))
    return table(
        Says(
            "Forks",
            "One row for each peer whose log forks: where two of its versions stand, when the newest showed, and the "
            "evidence, which can be checked offline with `quorumscope verify`. A click on a peer shows that peer only.",
            "Which of the versions is the true one: there is none. Further forks of the same peer are in the "
            "evidence's log.",
            ("ForkDetected",),
        ),
        Size(24, 8),
        [
            Label("swarm", (row_swarm(FORKS, "Show this swarm only"),)),
            Label("peer", (THIS_PEER,)),
            Label("index"),
            Label("evidence", (leads_to("Evidence file", "${__value.raw}", new_tab=True),)),
        ],
        [
            Column("when", moment("last_fork_timestamp_seconds", PEER, OF_PEER), "dateTimeAsIso"),
            Column("branches", gauge("fork_branches", PEER, OF_PEER), steps=((None, NOW),)),
            Column("undetected for", gauge("lie_undetected_seconds", PEER, OF_PEER), "s"),
            Column(HIDDEN, info),
        ],
        sort="when",
    )


def _weights() -> AnyPanel:
    return bars(
        Says(
            "Weights of branches",
            "How many peers hold each branch of a forked log now, its author included.",
            "Who endorses it: to hold a branch is to have it, not to believe it alone.",
            ("ForkDetected", "SplitBrain"),
        ),
        Size(10, 9),
        "none",
        PLAIN,
        value(gauge("branch_believers", "swarm, peer, branch", OF_PEER), "{{swarm}} {{peer}}/{{branch}}"),
    ).decimals(0)


def _believers() -> AnyPanel:
    return graph(
        Says(
            "Who believed which, over time",
            "How many peers held each branch. When all branches reach the size of the roster, everybody knows of the "
            "lie.",
            "Which peers they are: the status page and the verdict `belief` name them.",
            ("ForkDetected", "SplitBrain"),
        ),
        Size(14, 9),
        "none",
        series(gauge("branch_believers", "swarm, peer, branch", OF_PEER), "{{swarm}} {{peer}}/{{branch}}"),
    ).decimals(0)
