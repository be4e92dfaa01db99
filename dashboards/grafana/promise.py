"""The promise, 99 % of segments accepted within 10 s: how well it is kept, and how fast its budget is used."""

from dashboards.grafana.looks import NOW, SOON, UNKNOWN, WELL, limits, without_value
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph, limited, number
from dashboards.grafana.queries import (
    BY_RULE,
    IN_SWARM,
    PROMISED_MISSES,
    age,
    increase,
    kept_share,
    most,
    rate,
    series,
    value,
)

HALF = Size(12, 9)

PAGE_AT = 14.4
"""The burn rate at which AcceptanceSlow wakes somebody: a month's budget is gone in two days."""


def section() -> Section:
    return Section("The promise: 99 % within 10 s", [_within(), _budget(), _since(), _burn(), _burn_of_the_alert()])


def _within() -> AnyPanel:
    return number(
        Says(
            "Within 10 s",
            "The share of acceptances in the shown time range that took at most 10 s, by rule.",
            "What was not accepted in this time: it is not counted until it is.",
            ("AcceptanceSlow",),
        ),
        Size(8, 5),
        "percentunit",
        ((None, NOW), (0.99, WELL)),
        value(kept_share("rule", increase), "{{rule}}"),
    ).mappings([without_value("nothing accepted", UNKNOWN)])


def _budget() -> AnyPanel:
    return number(
        Says(
            "Budget left",
            "Of the one in a hundred that may take longer than 10 s: the share that is left, in the shown time range. "
            "Below 0 the promise is broken.",
            "How it was before the shown time range.",
            ("AcceptanceSlow",),
        ),
        Size(8, 5),
        "percentunit",
        ((None, NOW), (0, SOON), (0.5, WELL)),
        value(f"1 - (1 - {kept_share('rule', increase)}) / {PROMISED_MISSES}", "{{rule}}"),
    ).mappings([without_value("nothing accepted", UNKNOWN)])


def _since() -> AnyPanel:
    return number(
        Says(
            "Since the last acceptance",
            "How long ago a segment was last accepted, by rule; of the swarm that waits longest.",
            "Whether peers have published anything since.",
            ("AcceptanceStalled",),
        ),
        Size(8, 5),
        "s",
        limits(120, 300),
        value(most("rule", age("last_accepted_timestamp_seconds", "swarm, rule", BY_RULE)), "{{rule}}"),
    )


def _burn() -> AnyPanel:
    burn = graph(
        Says(
            "Burn rate",
            "How fast the budget is used, by rule: at 1 just as fast as promised, at 100 every acceptance is late.",
            "Much from few segments: of ten, one that is late makes it 10.",
            ("AcceptanceSlow",),
        ),
        HALF,
        "none",
        series(f"(1 - {kept_share('rule', rate)}) / {PROMISED_MISSES}", "{{rule}}"),
    )
    return limited(burn.decimals(1), limits(1, PAGE_AT))


def _burn_of_the_alert() -> AnyPanel:
    windows = ("5m", "1h", "2h", "1d")
    name = "swarm:quorumscope_acceptance_slow:ratio_rate"
    burn = graph(
        Says(
            "Burn rate as the alert sees it",
            "The same by the rule majority, over the windows of AcceptanceSlow. It fires when both of 5m and 1h are "
            "over "
            "14.4, or both of 2h and 1d over 3.",
            "Anything without the recording rules: it is empty if they are not loaded.",
            ("AcceptanceSlow",),
        ),
        HALF,
        "none",
        *(
            series(f"{most('swarm', f'{name}{window}{{{IN_SWARM}}}')} / {PROMISED_MISSES}", f"{{{{swarm}}}} {window}")
            for window in windows
        ),
    )
    return limited(burn.decimals(1), limits(3, PAGE_AT))
