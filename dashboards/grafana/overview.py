"""The first look: is all well? Everything else is one click away."""

from dashboards.grafana import glance, replicas, timelines, variables
from dashboards.grafana.alerts import WATCHDOG
from dashboards.grafana.links import (
    ACCEPTANCE,
    FORKS,
    OVERVIEW,
    leads_to,
    row_peer,
    row_swarm,
    series_peer,
)
from dashboards.grafana.looks import (
    NOW,
    PEER_STATES,
    QUIET,
    QUIET_UNLESS_ANY,
    QUIET_UNLESS_SOME,
    limits,
)
from dashboards.grafana.page import Page, Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph, timeline
from dashboards.grafana.queries import (
    ACCEPTED,
    FIRING,
    IN_SWARM,
    LATENCY,
    age,
    gauge,
    most,
    or_zero_for_swarms,
    quantile,
    series,
    total,
)
from dashboards.grafana.tables import Column, Label, table


def page() -> Page:
    return Page(
        file="overview",
        uid=OVERVIEW,
        title="quorumscope / Overview",
        about="Whether all is well with every swarm and with the monitor. What is well is green or has no colour.",
        variables=[variables.swarm(), variables.peer()],
        sections=[
            Section("Is all well?", [*glance.swarms(), *glance.monitor()]),
            Section("Alerts and swarms", [_alerts(), _swarms()]),
            Section("Peers", [_peers()]),
            Section("Acceptance", [_rules(), _latency(), _accepted()]),
            replicas.section(),
        ],
    )


def _alerts() -> AnyPanel:
    since = f"ALERTS_FOR_STATE and ignoring (alertstate) ALERTS{{{FIRING}}}"
    labels = "alertname, severity, swarm, peer, rule, query, topic"
    return table(
        Says(
            "What fires",
            "The alerts that fire now, the newest last. A click on a name leads to its runbook.",
            "Alerts that are silenced in Alertmanager from others, and those that have ended.",
            (WATCHDOG,),
        ),
        Size(24, 7),
        [
            Label("alertname", (leads_to("Runbook", "${exporter}/runbooks/${__value.raw}", new_tab=True),)),
            Label("severity"),
            Label("swarm", (row_swarm(FORKS, "Forks and split-brains of this swarm"),)),
            Label("peer", (row_peer(FORKS, "Forks and split-brains of this peer"),)),
            Label("rule"),
            Label("query"),
            Label("topic"),
        ],
        [Column("since", f"{most(labels, since)} * 1000", "dateTimeAsIso")],
        sort="since",
    )


def _swarms() -> AnyPanel:
    swarm = "swarm"
    return table(
        Says(
            "Swarms",
            "Each swarm now: its peers, what is wrong with them, and how old this is.",
            "Anything later than the newest tick; its age stands at the end of the row.",
            (
                "SplitBrain",
                "ForkDetected",
                "MissingSegment",
                "PeerSilent",
                "OneWayLink",
                "SwarmSilent",
                "ReplicaDiverged",
            ),
        ),
        Size(24, 7),
        [
            Label(
                swarm,
                (
                    row_swarm(FORKS, "Forks and split-brains"),
                    row_swarm(ACCEPTANCE, "Acceptance"),
                ),
            )
        ],
        [
            Column("peers", gauge("peers", swarm, IN_SWARM)),
            Column("active", gauge("peers_active", swarm, IN_SWARM), steps=((None, NOW), (1, QUIET))),
            Column(
                "silent",
                total(swarm, gauge("peer_silent", "swarm, peer", IN_SWARM)),
                steps=QUIET_UNLESS_SOME,
            ),
            Column("sides", gauge("split_sides", swarm, IN_SWARM), steps=((None, QUIET), (2, NOW))),
            Column(
                "liars",
                or_zero_for_swarms(f"count by (swarm) ({gauge('fork_branches', 'swarm, peer', IN_SWARM)})"),
                steps=QUIET_UNLESS_ANY,
            ),
            Column(
                "missing",
                total(swarm, gauge("missing_segments", "swarm, peer", IN_SWARM)),
                steps=QUIET_UNLESS_ANY,
            ),
            Column(
                "one way",
                total(swarm, gauge("peer_one_way", "swarm, peer", IN_SWARM)),
                steps=QUIET_UNLESS_SOME,
            ),
            Column("diverged", replicas.diverged_of_swarms(), steps=QUIET_UNLESS_SOME),
            Column(
                "undecidable",
                gauge("undecidable", swarm, IN_SWARM),
                "bool_yes_no",
                steps=QUIET_UNLESS_SOME,
            ),
            Column("verdict delay", gauge("verdict_delay_seconds", swarm, IN_SWARM), "s", limits(5, 15, QUIET)),
            Column("newest tick", age("matrix_tick_timestamp_seconds", swarm, IN_SWARM), "s", limits(60, 300, QUIET)),
        ],
        sort=swarm,
    )


def _peers() -> AnyPanel:
    return timeline(
        Says(
            "Peers",
            "Each peer over time: on the main side, on another side while the swarm is split, on no side, or silent. "
            "A click leads to the peer.",
            "What happened between two ticks. A lane is empty where the exporter was not scraped.",
            ("SplitBrain", "PeerSilent"),
        ),
        Size(24, 11),
        PEER_STATES,
        series(timelines.peers(), "{{swarm}} {{peer}}"),
    ).data_links([series_peer(FORKS, "Forks and split-brains of this peer")])


def _rules() -> AnyPanel:
    by = "swarm, rule"
    return table(
        Says(
            "Rules",
            "For each rule of each swarm: how many peers it asks for, how many liars it tolerates, how long acceptance "
            "takes, how much is accepted, and when something last was.",
            "What is not accepted at all. A rule that asks for silent peers accepts nothing, and has no percentiles.",
            ("AcceptanceSlow", "AcceptanceStalled"),
        ),
        Size(24, 7),
        [Label("swarm", (row_swarm(ACCEPTANCE, "Acceptance"),)), Label("rule")],
        [
            Column("peers asked for", gauge("rule_threshold_peers", by, IN_SWARM)),
            Column("liars tolerated", gauge("rule_tolerated_liars", by, IN_SWARM)),
            Column("half within", quantile(0.5, LATENCY), "s"),
            Column("99 % within", quantile(0.99, LATENCY), "s", limits(5, 10, QUIET)),
            Column("accepted per second", ACCEPTED, "cps"),
            Column(
                "last accepted before",
                age("last_accepted_timestamp_seconds", by, IN_SWARM),
                "s",
                limits(120, 300, QUIET),
            ),
        ],
        sort="swarm",
    )


def _latency() -> AnyPanel:
    return graph(
        Says(
            "Acceptance latency",
            "From the record of a segment to that of the observer that made it accepted: half, and 99 %, are faster.",
            "Exact values: they are read between the bounds of buckets. Segments that were never accepted.",
            ("AcceptanceSlow",),
        ),
        Size(12, 9),
        "s",
        series(quantile(0.5, LATENCY), "{{swarm}} {{rule}} p50"),
        series(quantile(0.99, LATENCY), "{{swarm}} {{rule}} p99"),
    )


def _accepted() -> AnyPanel:
    return graph(
        Says(
            "Accepted per second, by rule",
            "Segments that became accepted, for each rule of each swarm.",
            "Which peers' segments they are.",
            ("AcceptanceStalled",),
        ),
        Size(12, 9),
        "cps",
        series(ACCEPTED, "{{swarm}} {{rule}}"),
    )
