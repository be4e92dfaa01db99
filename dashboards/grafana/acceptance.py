"""How long it takes until segments are known and accepted, by rule, and how far each log is accepted."""

from dashboards.grafana import promise, variables
from dashboards.grafana.links import ACCEPTANCE, FORKS, row_peer
from dashboards.grafana.looks import NOW, QUIET, WELL, limits
from dashboards.grafana.page import Page, Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph, heat, limited
from dashboards.grafana.queries import (
    BY_RULE,
    IN_SWARM,
    OF_PEER,
    age,
    buckets,
    gauge,
    most,
    quantile,
    rate,
    series,
    total,
)
from dashboards.grafana.tables import Column, Label, table

HALF = Size(12, 9)
ACCEPTANCES = "acceptance_latency_seconds_bucket"
BUCKETS = total("rule, le", most("swarm, rule, le", rate(ACCEPTANCES, BY_RULE)))
KNOWN_BUCKETS = total("rule, le", most("swarm, rule, le", rate("known_latency_seconds_bucket", BY_RULE)))
LOG = "swarm, peer, rule"
OF_LOG = f'{OF_PEER}, rule=~"$rule"'


def page() -> Page:
    return Page(
        file="acceptance",
        uid=ACCEPTANCE,
        title="quorumscope / Acceptance",
        about="How long it takes until segments are known and accepted, against the promise: 99 % within 10 s.",
        variables=[variables.swarm(), variables.peer(), variables.rule()],
        sections=[
            promise.section(),
            Section("How long", [_heat(), _percentiles(), _known_percentiles()]),
            Section("How much", [_per_second(), _since_over_time()]),
            Section("How far each log is accepted", [_behind(), _verdict_delay(), _logs(), _rules()]),
        ],
    )


def _heat() -> AnyPanel:
    return (
        heat(
            Says(
                "Acceptance latency, rule $rule",
                "How many acceptances fell into each bucket of latency, per second. One panel for each rule chosen.",
                "What is not accepted yet. A split shows as a gap, and then as a streak at its length.",
                ("AcceptanceSlow",),
            ),
            Size(24, 10),
            "s",
            buckets(total("le", most("swarm, rule, le", rate(ACCEPTANCES, BY_RULE)))),
        )
        .repeat("rule")
        .repeat_direction("h")
        .max_per_row(3)
    )


def _percentiles() -> AnyPanel:
    accepted = graph(
        Says(
            "Accepted within",
            "Half, nine in ten, and 99 in a hundred segments were accepted within this time, by rule.",
            "Exact values: they are read between the bounds of buckets, and above 600 s there is none.",
            ("AcceptanceSlow",),
        ),
        HALF,
        "s",
        *(series(quantile(share, BUCKETS), f"{{{{rule}}}} p{share * 100:.0f}") for share in (0.5, 0.9, 0.99)),
    )
    return limited(accepted, ((None, WELL), (10, NOW)))


def _known_percentiles() -> AnyPanel:
    return graph(
        Says(
            "Known within",
            "The same until segments were known. What is known and not accepted was seen in two versions, or builds on "
            "something that is missing.",
            "Which of the two it is: see Forks and split-brains.",
            ("AcceptanceSlow", "MissingSegment"),
        ),
        HALF,
        "s",
        *(series(quantile(share, KNOWN_BUCKETS), f"{{{{rule}}}} p{share * 100:.0f}") for share in (0.5, 0.9, 0.99)),
    )


def _per_second() -> AnyPanel:
    return graph(
        Says(
            "Known and accepted per second",
            "Positions of logs that became known and accepted, by rule. In health the two are the same.",
            "Whose they are. After a long wait many come at once.",
            ("AcceptanceStalled",),
        ),
        HALF,
        "cps",
        series(total("rule", most("swarm, rule", rate("known_segments_total", BY_RULE))), "{{rule}} known"),
        series(total("rule", most("swarm, rule", rate("accepted_segments_total", BY_RULE))), "{{rule}} accepted"),
    )


def _since_over_time() -> AnyPanel:
    waiting = graph(
        Says(
            "Since the last acceptance, over time",
            "How long ago a segment was last accepted, by swarm and rule. A line that climbs is a rule that stands "
            "still.",
            "Whether peers publish: a swarm at rest climbs too.",
            ("AcceptanceStalled",),
        ),
        HALF,
        "s",
        series(age("last_accepted_timestamp_seconds", "swarm, rule", BY_RULE), "{{swarm}} {{rule}}"),
    )
    return limited(waiting, limits(120, 300))


def _behind() -> AnyPanel:
    index = gauge("peer_index", "swarm, peer", OF_PEER)
    accepted = gauge("peer_accepted_index", LOG, OF_LOG)
    return graph(
        Says(
            "Segments not accepted yet",
            "For each log and rule: from its newest accepted index to its newest index.",
            "Why. A log that was never accepted at all is not shown; of a forked log the longest branch counts.",
            ("AcceptanceStalled", "MissingSegment"),
        ),
        HALF,
        "none",
        series(f"{index} - on (swarm, peer) group_right () {accepted}", "{{swarm}} {{peer}} {{rule}}"),
    ).decimals(0)


def _verdict_delay() -> AnyPanel:
    return graph(
        Says(
            "Verdict delay",
            "How long after the observer's record the newest acceptance was on the topic of verdicts: the monitor's "
            "own "
            "part, which is in no latency above.",
            "The way from the topic to this page: that is the exporter's lag and the interval of scrapes.",
            ("LagHigh", "ExporterBehind"),
        ),
        HALF,
        "s",
        series(gauge("verdict_delay_seconds", "swarm", IN_SWARM), "{{swarm}}"),
    )


def _logs() -> AnyPanel:
    accepted = gauge("peer_accepted_index", LOG, OF_LOG)
    index = gauge("peer_index", "swarm, peer", OF_PEER)
    newest = f"{index} + on (swarm, peer) group_right () 0 * {accepted}"
    behind = f"{index} - on (swarm, peer) group_right () {accepted}"
    return table(
        Says(
            "Logs",
            "How far the log of each peer is accepted, by rule. A click on a peer leads to what is known against it.",
            "Which segment holds a log up: `quorumscope explain` tells.",
            ("AcceptanceStalled", "MissingSegment"),
        ),
        Size(16, 10),
        [
            Label("swarm"),
            Label("peer", (row_peer(FORKS, "Forks and split-brains of this peer"),)),
            Label("rule"),
        ],
        [
            Column("newest index", newest),
            Column("accepted index", accepted),
            Column("not accepted yet", behind, steps=limits(10, 100, QUIET)),
        ],
        sort="peer",
    )


def _rules() -> AnyPanel:
    return table(
        Says(
            "Thresholds",
            "How many peers make a segment known or accepted by each rule, and how many liars, the author included, "
            "can "
            "still not have two conflicting segments accepted.",
            "How many liars there are. docs/acceptance.md tells how to choose a rule.",
            ("AcceptanceStalled",),
        ),
        Size(8, 10),
        [Label("swarm"), Label("rule")],
        [
            Column("peers asked for", gauge("rule_threshold_peers", "swarm, rule", BY_RULE)),
            Column("liars tolerated", gauge("rule_tolerated_liars", "swarm, rule", BY_RULE)),
        ],
        sort="swarm",
    )
