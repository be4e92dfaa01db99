"""What the chart has from elsewhere is current, and its values are all documented and all in the schema."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from streaming.cli import CANARY_SETS
from tests.chartlab import WAYS
from tests.make_chart import CHART, ROOT, comments, copies, current_schema

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
CHART_FILE: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
CONFIG_MAP_BYTES_MAX = 1 << 20

AGAIN = "it is not what `python -m tests.make_chart` writes"


def test_dashboards_rules_and_canaries_in_the_chart_are_those_of_the_project() -> None:
    for path, text in copies().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.relative_to(ROOT)}: {AGAIN}"


def test_the_chart_has_no_other_files() -> None:
    assert {path for path in (CHART / "files").rglob("*") if path.is_file()} == set(copies())


def test_there_is_a_canary_for_each_set_of_keys_that_the_values_allow() -> None:
    assert SCHEMA["properties"]["canary"]["properties"]["keys"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": CANARY_SETS,
        "description": dict(comments())["canary", "keys"],
    }


def test_each_dashboard_fits_into_a_config_map() -> None:
    for path in (CHART / "files" / "dashboards").iterdir():
        assert len(json.dumps(path.read_text(encoding="utf-8"))) < CONFIG_MAP_BYTES_MAX // 2


def test_descriptions_of_the_schema_are_the_comments_of_the_values() -> None:
    assert (CHART / "values.schema.json").read_text(encoding="utf-8") == current_schema(), AGAIN


def leaves(values: dict[str, Any], schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The values that an operator sets one by one: what the schema does not divide any further."""
    for name, value in values.items():
        divided = schema["properties"][name]
        if "properties" in divided:
            yield from leaves(value, divided, (*path, name))
        else:
            yield (*path, name)


def test_every_value_has_a_comment() -> None:
    assert set(leaves(VALUES, SCHEMA)) == {path for path, _ in comments()}


def sections(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, one in schema["properties"].items():
        if "properties" in one:
            yield from sections(one, (*path, name))


@pytest.mark.parametrize("path", list(sections(SCHEMA)), ids=".".join)
def test_a_section_of_the_schema_has_exactly_the_values_of_the_file_and_takes_no_others(path: tuple[str, ...]) -> None:
    values, section = VALUES, SCHEMA
    for name in path:
        values, section = values[name], section["properties"][name]
    assert section["additionalProperties"] is False
    assert section["properties"].keys() - {"global"} == values.keys()


def test_the_chart_runs_the_program_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CHART_FILE["appVersion"] == project["version"]
    images = yaml.safe_load(CHART_FILE["annotations"]["artifacthub.io/images"])
    assert images == [{"name": "quorumscope", "image": f"{VALUES['image']['repository']}:{CHART_FILE['appVersion']}"}]


def test_the_readme_names_each_way_of_running() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert [way for way in WAYS if f"| `{way}-values.yaml` |" not in readme] == []
