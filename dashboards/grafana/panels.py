"""The kinds of panel, each in one style: what it says of itself, its place on the grid, its queries.

Every panel tells what it shows and what it cannot tell, has a unit and leads to a runbook: `Says` asks for all of it.
"""

from dataclasses import dataclass
from string import ascii_uppercase
from typing import Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import bargauge, heatmap, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery as AnyQuery
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import DashboardLink, Panel, ValueMapping
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode

from dashboards.grafana.links import runbook
from dashboards.grafana.looks import NO_DATA, PLAIN, Steps, by_palette, by_thresholds, thresholds
from dashboards.grafana.variables import PROMETHEUS

LAST = ReduceDataOptions().calcs(["lastNotNull"])


@dataclass(frozen=True, slots=True)
class Says:
    """What a panel says of itself: what it shows, what it cannot tell, and the alerts whose runbooks go on from it."""

    title: str
    shows: str
    cannot: str
    runbooks: tuple[str, ...]

    @property
    def description(self) -> str:
        return f"{self.shows}\n\n**Cannot tell:** {self.cannot}"


@dataclass(frozen=True, slots=True)
class Size:
    """Columns of the grid, of which there are 24, and rows of about 30 pixels."""

    width: int
    height: int


class AnyPanel(Protocol):
    """What the builders of all kinds of panel have in common."""

    def build(self) -> Panel: ...
    def title(self, title: str, /) -> Self: ...
    def description(self, description: str, /) -> Self: ...
    def datasource(self, datasource: DataSourceRef, /) -> Self: ...
    def links(self, links: list[Builder[DashboardLink]], /) -> Self: ...
    def unit(self, unit: str, /) -> Self: ...
    def span(self, w: int, /) -> Self: ...
    def height(self, h: int, /) -> Self: ...
    def with_target(self, target: Builder[AnyQuery], /) -> Self: ...


Kind = TypeVar("Kind", bound=AnyPanel)


def dressed(panel: Kind, says: Says, size: Size, unit: str, queries: list[Dataquery]) -> Kind:
    """A panel with its texts, links, place, unit and queries; queries are named A, B, C … in order."""
    panel.title(says.title).description(says.description).links([runbook(alert) for alert in says.runbooks])
    panel.datasource(PROMETHEUS).unit(unit).span(size.width).height(size.height)
    for name, query in zip(ascii_uppercase, queries, strict=False):
        panel.with_target(query.ref_id(name))
    return panel


def number(says: Says, size: Size, unit: str, steps: Steps, *queries: Dataquery) -> stat.Panel:
    """The value now, on a background that tells whether it is well."""
    return (
        dressed(stat.Panel(), says, size, unit, list(queries))
        .reduce_options(LAST)
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .thresholds(thresholds(steps))
        .color_scheme(by_thresholds())
        .mappings([NO_DATA])
    )


def bars(says: Says, size: Size, unit: str, steps: Steps, *queries: Dataquery) -> bargauge.Panel:
    """A bar a series, of the value now."""
    return (
        dressed(bargauge.Panel(), says, size, unit, list(queries))
        .reduce_options(LAST)
        .display_mode(common.BarGaugeDisplayMode.GRADIENT)
        .orientation(common.VizOrientation.HORIZONTAL)
        .min(0)
        .thresholds(thresholds(steps))
        .color_scheme(by_thresholds())
    )


def graph(says: Says, size: Size, unit: str, *queries: Dataquery) -> timeseries.Panel:
    """Lines over time. A gap is a gap: nothing is drawn where nothing was scraped."""
    return (
        dressed(timeseries.Panel(), says, size, unit, list(queries))
        .min(0)
        .color_scheme(by_palette())
        .line_width(1)
        .fill_opacity(8)
        .show_points(common.VisibilityMode.AUTO)
        .legend(_legend().calcs(["lastNotNull", "max"]).display_mode(common.LegendDisplayMode.TABLE))
        .tooltip(_tooltip())
    )


def stacked(panel: timeseries.Panel) -> timeseries.Panel:
    """The lines of parts that make a whole."""
    return panel.stacking(StackingConfig().mode(common.StackingMode.NORMAL)).fill_opacity(40)


def limited(panel: timeseries.Panel, steps: Steps) -> timeseries.Panel:
    """A graph with dashed lines at its limits."""
    dashed = GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(thresholds(steps)).thresholds_style(dashed)


def timeline(says: Says, size: Size, states: list[ValueMapping], *queries: Dataquery) -> statetimeline.Panel:
    """A lane a series: its states over time, in words and colours."""
    return (
        dressed(statetimeline.Panel(), says, size, "none", list(queries))
        .mappings(states)
        .thresholds(thresholds(PLAIN))
        .color_scheme(by_thresholds())
        .merge_values(True)
        .row_height(0.85)
        .show_value(common.VisibilityMode.AUTO)
        .legend(_legend())
        .tooltip(_tooltip())
    )


def heat(says: Says, size: Size, unit: str, query: Dataquery) -> heatmap.Panel:
    """How many fell into each bucket of a histogram, over time."""
    colors = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").exponent(0.5).steps(64)
    axis = heatmap.YAxisConfig().unit(unit).axis_placement(common.AxisPlacement.LEFT)
    tooltip = heatmap.HeatmapTooltip().mode(common.TooltipDisplayMode.SINGLE).y_histogram(True).show_color_scale(True)
    return (
        dressed(heatmap.Panel(), says, size, unit, [query])
        .calculate(False)
        .color(colors)
        .y_axis(axis)
        .cell_values(heatmap.CellValues().unit("cps"))
        .rows_frame(heatmap.RowsHeatmapOptions().value("per second").layout(common.HeatmapCellLayout.AUTO))
        .tooltip(tooltip)
    )


def _legend() -> VizLegendOptions:
    return (
        VizLegendOptions()
        .show_legend(True)
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
    )


def _tooltip() -> VizTooltipOptions:
    return VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
