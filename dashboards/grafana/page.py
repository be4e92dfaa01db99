"""A dashboard as a whole: its variables, marks and links, and its rows of panels on the grid."""

import json
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard, QueryVariable, Row, TimePicker
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard as Built
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, Panel

from dashboards.grafana import marks, variables
from dashboards.grafana.links import TAG, between_dashboards
from dashboards.grafana.panels import AnyPanel


@dataclass(frozen=True, slots=True)
class Section:
    """A row with a title, and its panels from left to right; the grid wraps them at 24 columns."""

    title: str
    panels: list[AnyPanel]


@dataclass(frozen=True, slots=True)
class Page:
    """A dashboard in our words. `file` is the name of its JSON file, without the ending."""

    file: str
    uid: str
    title: str
    about: str
    variables: list[QueryVariable]
    sections: list[Section]

    def build(self) -> Built:
        builder = (
            Dashboard(self.title)
            .uid(self.uid)
            .description(self.about)
            .tags([TAG])
            .readonly()
            .tooltip(DashboardCursorSync.CROSSHAIR)
            .time("now-1h", "now")
            .refresh("10s")
            .timepicker(TimePicker().refresh_intervals(["5s", "10s", "30s", "1m", "5m", "15m", "1h"]))
            .link(between_dashboards())
            .annotations([marks.forks(), marks.split_openings(), marks.splits()])
            .variables([variables.datasource(), *self.variables, variables.exporter()])
        )
        self._place(builder)
        return builder.build()

    def text(self) -> str:
        """The JSON file: the same bytes each time."""
        fields = as_written(json.loads(JSONEncoder().encode(self.build())))
        return json.dumps(fields, ensure_ascii=False, indent=2, sort_keys=True) + "\n"

    def _place(self, builder: Dashboard) -> None:
        """Panels and rows in order, numbered from 1: links to a panel hold as long as the order does."""
        number = 0
        for section in self.sections:
            number += 1
            builder.with_row(Row(section.title).id(number))
            for panel in section.panels:
                number += 1
                builder.with_panel(_Numbered(panel, number))


@dataclass(frozen=True, slots=True)
class _Numbered(Builder[Panel]):
    panel: AnyPanel
    number: int

    def build(self) -> Panel:
        built = self.panel.build()
        built.id_val = self.number
        return built


def as_written(dashboard: dict[str, Any]) -> dict[str, Any]:
    """The same without what the SDK adds by default and we do not mean.

    Links and marks of the dashboard would stand in a menu of newer Grafanas, not in sight. The SDK has one type for all
    links, and those of panels and values have no use for its tags and icons.
    """
    for shown in (*dashboard["links"], *dashboard["annotations"]["list"]):
        del shown["placement"]
    for panel in dashboard["panels"]:
        overrides = panel.get("fieldConfig", {}).get("overrides", [])
        settings = [setting for override in overrides for setting in override["properties"]]
        for links in (panel, panel.get("fieldConfig", {}).get("defaults", {})):
            if "links" in links:
                links["links"] = [_plain(link) for link in links["links"]]
        for setting in (setting for setting in settings if setting["id"] == "links"):
            setting["value"] = [_plain(link) for link in setting["value"]]
    return dashboard


def _plain(link: dict[str, Any]) -> dict[str, Any]:
    return {name: link[name] for name in ("title", "url", "targetBlank")}
