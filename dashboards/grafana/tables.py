"""Tables: a row for each set of labels, a column for each query; and the matrix, which is a table too.

Each query gives one column of values. Grafana names it `Value #A`, after the query, or `Value` if there is only one.
Rows of the queries are put together where their labels agree.
"""

from dataclasses import dataclass, field
from string import ascii_uppercase

from grafana_foundation_sdk.builders import table as table_panel
from grafana_foundation_sdk.builders.common import TableSortByFieldState
from grafana_foundation_sdk.builders.dashboard import DashboardLink
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue, ValueMapping

from dashboards.grafana.looks import QUIET, Steps, by_thresholds, thresholds, without_value
from dashboards.grafana.panels import Says, Size, dressed
from dashboards.grafana.queries import rows

TIME = "Time"
"""The column that Grafana adds to each query; all rows are of one time."""

HIDDEN = ""
"""The title of a column that is asked for its labels only: its values are all 1."""


@dataclass(frozen=True, slots=True)
class Label:
    """A column of names, which stay text even if they look like numbers. A column with links leads on from its row."""

    name: str
    links: tuple[DashboardLink, ...] = ()
    words: tuple[ValueMapping, ...] = ()

    def properties(self) -> list[DynamicConfigValue]:
        found = [_property("unit", "string")]
        if self.links:
            found.append(_property("links", [link.build() for link in self.links]))
        return [*found, _property("mappings", list(self.words))] if self.words else found


@dataclass(frozen=True, slots=True)
class Column:
    """A column of values, and from which value on its cells are coloured."""

    title: str
    expr: str
    unit: str = "none"
    steps: Steps = ()
    words: tuple[ValueMapping, ...] = field(default_factory=lambda: (without_value("–"),))

    def properties(self) -> list[DynamicConfigValue]:
        found = [_property("unit", self.unit), _property("mappings", list(self.words))]
        return [*found, *_colored(self.steps)] if self.steps else found


def table(says: Says, size: Size, labels: list[Label], columns: list[Column], sort: str = "") -> table_panel.Panel:
    """A row for each set of these labels. Columns are ordered as they are given; the rows by `sort`, if given."""
    panel = dressed(table_panel.Panel(), says, size, "none", [rows(column.expr) for column in columns])
    panel.thresholds(thresholds(((None, QUIET),))).color_scheme(by_thresholds())
    found = _names(columns)
    if len(columns) > 1:
        panel.with_transformation(DataTransformerConfig("merge", options={}))
    panel.with_transformation(DataTransformerConfig("organize", options=_order(labels, found)))
    for label in labels:
        panel.override_by_name(label.name, label.properties())
    for column in (column for column in columns if column.title != HIDDEN):
        panel.override_by_name(column.title, column.properties())
    return _sorted(panel, sort)


def matrix(
    says: Says, size: Size, expr: str, *, row: str, column: str, steps: Steps, cell: DashboardLink
) -> table_panel.Panel:
    """A grid of the values of one query: a row for each value of one label, a column for each value of another.

    A cell without a value stays empty and has no colour. Rows and columns come in the order in which they are met, so
    both are sorted, in the same way: the pattern of blocks shows only if their orders agree.
    """
    panel = dressed(table_panel.Panel(), says, size, "none", [rows(expr)])
    corner = f"{row}\\{column}"
    panel.with_transformation(_sorted_by(column))
    grid = {"rowField": row, "columnField": column, "valueField": "Value", "emptyValue": "null"}
    panel.with_transformation(DataTransformerConfig("groupingToMatrix", options=grid))
    panel.with_transformation(_sorted_by(corner))
    panel.thresholds(thresholds(steps)).color_scheme(by_thresholds()).mappings([without_value("", QUIET)]).data_links(
        [cell]
    ).decimals(0)
    panel.cell_options(common.TableColoredBackgroundCellOptions(mode=common.TableCellBackgroundDisplayMode.BASIC))
    panel.align(common.FieldTextAlignment.CENTER).min_width(50)
    plain = [_property("unit", "string"), _property("links", []), _property("custom.align", "left")]
    return panel.override_by_name(corner, [*plain, _property("custom.cellOptions", common.TableAutoCellOptions())])


def _names(columns: list[Column]) -> dict[str, str]:
    """From the name that Grafana gives a column of values to ours."""
    if len(columns) == 1:
        return {"Value": columns[0].title}
    return {f"Value #{query}": column.title for query, column in zip(ascii_uppercase, columns, strict=False)}


def _order(labels: list[Label], titles: dict[str, str]) -> dict[str, object]:
    names = [*(label.name for label in labels), *titles]
    return {
        "excludeByName": {TIME: True, **{name: True for name, title in titles.items() if title == HIDDEN}},
        "indexByName": {name: position for position, name in enumerate(names)},
        "renameByName": {name: title for name, title in titles.items() if title != HIDDEN},
    }


def _sorted_by(column: str) -> DataTransformerConfig:
    return DataTransformerConfig("sortBy", options={"fields": {}, "sort": [{"field": column}]})


def _sorted(panel: table_panel.Panel, column: str) -> table_panel.Panel:
    return panel.sort_by([TableSortByFieldState().display_name(column).desc(False)]) if column else panel


def _colored(steps: Steps) -> list[DynamicConfigValue]:
    background = common.TableColoredBackgroundCellOptions(mode=common.TableCellBackgroundDisplayMode.BASIC)
    return [_property("custom.cellOptions", background), _property("thresholds", thresholds(steps).build())]


def _property(name: str, setting: object) -> DynamicConfigValue:
    return DynamicConfigValue(id_val=name, value=setting)
