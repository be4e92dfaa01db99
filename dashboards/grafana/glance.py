"""The numbers that tell at a glance whether all is well, each on a background of green, orange or red."""

from grafana_foundation_sdk.builders import stat

from dashboards.grafana.alerts import WATCHDOG
from dashboards.grafana.links import ACCEPTANCE, FORKS, PIPELINE, dashboard_address, leads_to
from dashboards.grafana.looks import (
    NO_DATA,
    NONE_IS_WELL,
    NOW,
    PLAIN,
    SOME_ARE_WELL,
    SOME_MAY_MATTER,
    UNKNOWN,
    WELL,
    from_value_on,
    limits,
    meanings,
    without_value,
)
from dashboards.grafana.panels import AnyPanel, Says, Size, number
from dashboards.grafana.queries import (
    ACCEPTED,
    FIRING,
    IN_SWARM,
    LATENCY,
    gauge,
    metric,
    most,
    or_zero_while,
    quantile,
    total,
    value,
)

SMALL = Size(4, 4)
TO_FORKS = leads_to("Forks and split-brains", dashboard_address(FORKS))
TO_ACCEPTANCE = leads_to("Acceptance", dashboard_address(ACCEPTANCE))
TO_PIPELINE = leads_to("Pipeline", dashboard_address(PIPELINE))


def swarms() -> list[AnyPanel]:
    return [
        number(
            Says(
                "Firing alerts",
                "Alerts of quorumscope that fire now: those of the chosen swarms and those of the monitor.",
                "0 also stands here if no rules are loaded. The number beside it tells whether rules are evaluated.",
                (WATCHDOG,),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(f"count(ALERTS{{{FIRING}}}) or vector(0)"),
        ),
        number(
            Says(
                "Rules are evaluated",
                f"Whether {WATCHDOG}, the alert that always fires, does fire.",
                "Whether Alertmanager delivers what fires. That shows where the watchdog's messages arrive.",
                (WATCHDOG,),
            ),
            SMALL,
            "none",
            SOME_ARE_WELL,
            value(f'count(ALERTS{{alertstate="firing", alertname="{WATCHDOG}"}}) or vector(0)'),
        ).mappings([meanings({"0": ("no", NOW)}), from_value_on(1, "yes", WELL), NO_DATA]),
        split_swarms(SMALL).data_links([TO_FORKS]),
        number(
            Says(
                "Liars",
                "Peers that signed two versions of their log, at any time. A signature cannot be taken back.",
                "A lie from a restored backup or from one key in two places: the signatures are the same.",
                ("ForkDetected",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(
                or_zero_while(metric("peers", IN_SWARM), f"count({gauge('fork_branches', 'swarm, peer', IN_SWARM)})")
            ),
        ).data_links([TO_FORKS]),
        number(
            Says(
                "Missing segments",
                "Segments that others build on and that nobody published. Acceptance waits for them.",
                "Whether they were lost or are withheld: that looks the same.",
                ("MissingSegment",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(total("", gauge("missing_segments", "swarm, peer", IN_SWARM))),
        ).data_links([TO_FORKS]),
        number(
            Says(
                "Silent peers",
                "Peers of the roster that have published nothing for longer than their swarm's `split_after`.",
                "Whether a silent peer is down, cut off from Kafka, or has left for good.",
                ("PeerSilent", "SwarmSilent"),
            ),
            SMALL,
            "none",
            SOME_MAY_MATTER,
            value(total("", gauge("peer_silent", "swarm, peer", IN_SWARM))),
        ),
    ]


def monitor() -> list[AnyPanel]:
    return [
        number(
            Says(
                "Acceptance, 99 % within",
                "The slowest rule of the chosen swarms, over the last minutes.",
                "What is not accepted at all: it is in no histogram until it is.",
                ("AcceptanceSlow", "AcceptanceStalled"),
            ),
            SMALL,
            "s",
            limits(5, 10),
            value(most("", quantile(0.99, LATENCY))),
        )
        .mappings([without_value("nothing accepted", UNKNOWN)])
        .data_links([TO_ACCEPTANCE]),
        number(
            Says(
                "Accepted per second",
                "Segments that became accepted, by the rule that most were accepted by.",
                "Whether a low number means that little is published or that little is accepted: compare with known.",
                ("AcceptanceStalled",),
            ),
            SMALL,
            "cps",
            PLAIN,
            value(most("", total("rule", ACCEPTED))),
        ).data_links([TO_ACCEPTANCE]),
        number(
            Says(
                "Lag",
                "The age of the oldest record that the job has not read, of all topics and partitions.",
                "How long it takes to catch up.",
                ("LagHigh", "RetentionAtRisk"),
            ),
            SMALL,
            "s",
            limits(30, 60),
            value(most("", metric("kafka_lag_seconds"))),
        ).data_links([TO_PIPELINE]),
        number(
            Says(
                "Progress age",
                "How long ago the slowest query last ended a batch or said that there was nothing to do.",
                "Whether a long batch hangs or works.",
                ("PipelineStalled",),
            ),
            SMALL,
            "s",
            limits(60, 120),
            value(most("", metric("progress_age_seconds"))),
        ).data_links([TO_PIPELINE]),
        number(
            Says(
                "Broken invariants",
                "Checks of the state that failed, and keys in quarantine, as the job has counted them. Must be 0.",
                "Which verdicts are wrong because of it.",
                ("InvariantBroken",),
            ),
            SMALL,
            "none",
            NONE_IS_WELL,
            value(f"{total('', metric('invariant_violations_total'))} + {total('', metric('quarantined_total'))}"),
        ).data_links([TO_PIPELINE]),
        number(
            Says(
                "Exporter behind by",
                "Records of verdicts and of the matrix that the exporter has not read: what is shown here is that old.",
                "How far the job itself is behind: that is the lag.",
                ("ExporterBehind", "ExporterDown"),
            ),
            SMALL,
            "none",
            limits(1000, 10000),
            value(most("", metric("exporter_lag_records"))),
        ).data_links([TO_PIPELINE]),
    ]


def split_swarms(size: Size) -> stat.Panel:
    sides = metric("split_sides", IN_SWARM)
    return number(
        Says(
            "Swarms that are split",
            "Swarms with active peers between which no knowledge flows.",
            "A split of less than two ticks, and any split of a swarm that is undecidable.",
            ("SplitBrain", "VerdictsUndecidable"),
        ),
        size,
        "none",
        NONE_IS_WELL,
        value(or_zero_while(sides, f"count({most('swarm', sides)} > 1)")),
    )
