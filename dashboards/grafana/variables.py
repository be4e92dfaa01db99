"""What the reader chooses at the top of a dashboard. Nothing is preset: choices come from the data source itself.

Variables from queries are read again when the time range changes, so a swarm that was there yesterday can be chosen for
yesterday. "All" is the expression `.+` and not the list of names, which would be long for a thousand peers.
"""

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import VariableHide, VariableOption, VariableRefresh, VariableSort

PROMETHEUS = DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source of every query: the one that the reader chose."""

_LABEL_VALUES = 1
"""Grafana's number for the kind of query that lists the values of a label."""


def datasource() -> DatasourceVariable:
    return DatasourceVariable("datasource").label("Data source").type("prometheus").allow_custom_value(False)


def exporter() -> QueryVariable:
    """The address of the exporter's pages, which links to runbooks begin with. Nobody chooses it, so it is hidden."""
    return (
        _of_label("exporter", "Exporter", "quorumscope_exporter_info", "url")
        .hide(VariableHide.HIDE_VARIABLE)
        .include_all(False)
        .multi(False)
    )


def swarm() -> QueryVariable:
    return _choice("swarm", "Swarm", "quorumscope_swarm_info", "swarm")


def peer() -> QueryVariable:
    """The peers of the chosen swarms: the counter of forks is there for each peer of a roster, also while it is 0."""
    return _choice("peer", "Peer", 'quorumscope_forks_total{swarm=~"$swarm"}', "peer")


def rule() -> QueryVariable:
    return _choice("rule", "Rule", 'quorumscope_rule_threshold_peers{swarm=~"$swarm"}', "rule")


def observer() -> QueryVariable:
    """Rows of the matrix: peers, and the branches of peers that forked."""
    return _choice("observer", "Observer", 'quorumscope_pair_lag_segments{swarm=~"$swarm"}', "observer")


def author() -> QueryVariable:
    """Columns of the matrix: peers, and the branches of peers that forked."""
    return _choice("author", "Author", 'quorumscope_pair_lag_segments{swarm=~"$swarm"}', "author")


def query() -> QueryVariable:
    """The streaming queries of the job."""
    return _choice("query", "Query", "quorumscope_query_active", "query")


def _choice(name: str, label: str, series: str, of: str) -> QueryVariable:
    return (
        _of_label(name, label, series, of)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _of_label(name: str, label: str, series: str, of: str) -> QueryVariable:
    values = f"label_values({series}, {of})"
    return (
        QueryVariable(name)
        .label(label)
        .datasource(PROMETHEUS)
        .query({"qryType": _LABEL_VALUES, "query": values, "refId": f"variable-{name}"})
        .definition(values)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
    )
