"""Where a click leads: from a panel to its runbook, from a row to the same peer elsewhere, from dashboard to dashboard.

Addresses of dashboards are relative, so they hold behind any host and path. Names of swarms and peers are letters,
digits, '.', '_' and '-', and stand in an address as they are.
"""

from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models.dashboard import DashboardLinkType

from dashboards.grafana.alerts import ALERTS, RULES

TAG = "quorumscope"
OVERVIEW = "quorumscope-overview"
ACCEPTANCE = "quorumscope-acceptance"
FORKS = "quorumscope-forks"
PIPELINE = "quorumscope-pipeline"


def runbook(alert: str) -> DashboardLink:
    """A link to the page of an alert, on the exporter that Prometheus scrapes: it works without the internet."""
    if alert not in ALERTS:
        raise KeyError(f"expected the name of an alert of {RULES.name}, got {alert!r}")
    return leads_to(f"Runbook: {alert}", "${exporter}/runbooks/" + alert, new_tab=True)


def leads_to(title: str, url: str, *, new_tab: bool = False) -> DashboardLink:
    return DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(new_tab)


def dashboard_address(uid: str, **variables: str) -> str:
    """A dashboard with the data source, time range and swarms of this one, but for the values that are given here."""
    kept = [
        "${datasource:queryparam}",
        "${__url_time_range}",
        *([] if "swarm" in variables else ["${swarm:queryparam}"]),
    ]
    return f"/d/{uid}?" + "&".join([*kept, *(f"var-{name}={value}" for name, value in variables.items())])


def row_peer(uid: str, title: str) -> DashboardLink:
    """From a row of a table that has the columns swarm and peer."""
    return leads_to(title, dashboard_address(uid, swarm="${__data.fields.swarm}", peer="${__data.fields.peer}"))


def row_swarm(uid: str, title: str) -> DashboardLink:
    """From a row of a table that has the column swarm."""
    return leads_to(title, dashboard_address(uid, swarm="${__data.fields.swarm}"))


def series_peer(uid: str, title: str) -> DashboardLink:
    """From a series that has the labels swarm and peer."""
    return leads_to(title, dashboard_address(uid, swarm="${__field.labels.swarm}", peer="${__field.labels.peer}"))


def between_dashboards() -> DashboardLink:
    """All dashboards of this tag, with the variables and the time range kept."""
    return (
        DashboardLink("quorumscope")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .icon("external link")
        .tooltip("The other dashboards of quorumscope, for the same swarms and times")
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )
