"""The PromQL of a dashboard's JSON, and what stands in for its variables, so that it can be asked of a Prometheus.

Needs no SDK: it reads what is committed, as Grafana does.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent

ANY: Mapping[str, str] = {
    "swarm": ".+",
    "peer": ".+",
    "rule": ".+",
    "observer": ".+",
    "author": ".+",
    "query": ".+",
    "__rate_interval": "1m",
    "__range": "10m",
}
"""Variables as Grafana fills them when everything is chosen; the intervals are those of a short test."""

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LABEL_VALUES = re.compile(r"label_values\((.+),\s*(\w+)\)")


class Expression(NamedTuple):
    """A query and where it stands: the title of a panel, `mark: NAME` or `variable: NAME`."""

    where: str
    expr: str


def dashboard_files() -> list[Path]:
    return sorted(FOLDER.glob("*.json"))


def expressions(dashboard: Mapping[str, Any]) -> list[Expression]:
    """Every query of a dashboard, as it is written: of panels, then of marks, then of variables."""
    return [*_of_panels(dashboard), *_of_marks(dashboard), *_of_variables(dashboard)]


def filled(expr: str, values: Mapping[str, str] = ANY) -> str:
    """The query with its variables replaced. A variable without a value is a KeyError: it would match nothing."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], expr)


def panels(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The panels that show something; rows, and the panels in closed rows, are looked into."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def _of_panels(dashboard: Mapping[str, Any]) -> Iterator[Expression]:
    for panel in panels(dashboard):
        yield from (Expression(panel["title"], target["expr"]) for target in panel.get("targets", []))


def _of_marks(dashboard: Mapping[str, Any]) -> Iterator[Expression]:
    for mark in dashboard["annotations"]["list"]:
        yield Expression(f"mark: {mark['name']}", mark["target"]["expr"])


def _of_variables(dashboard: Mapping[str, Any]) -> Iterator[Expression]:
    """The series whose labels a variable lists."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found = _LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert found is not None, f"expected label_values(series, label), got {variable['query']['query']}"
            yield Expression(f"variable: {variable['name']}", found[1])
