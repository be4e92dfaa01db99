"""The dashboards: the committed JSON is what the code makes, and it follows the rules of Grafana's dashboard-linter.

The linter's rules are functions here that yield what is wrong, and each is shown to find a fault. Four of its rules ask
for variables and matchers of `job` and `instance`. They do not apply: which process was scraped says nothing about a
swarm, and a second exporter of the same topic must change no number. So queries must not keep these labels at all.
"""

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.grafana.__main__ import FOLDER, pages
from dashboards.grafana.expressions import dashboard_files, expressions, filled, panels
from dashboards.grafana.links import runbook
from dashboards.grafana.page import as_written

Json = dict[str, Any]
Rule = Callable[[Json], Iterator[str]]

DOCS = Path(__file__).parent.parent / "docs"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
DASHBOARDS: list[Json] = [json.loads(path.read_text(encoding="utf-8")) for path in dashboard_files()]
UIDS = {dashboard["uid"]: dashboard for dashboard in DASHBOARDS}
UNITS = {unit for name, unit in vars(units).items() if isinstance(unit, str) and not name.startswith("__")}

WHOLE_COUNTERS = {
    "quorumscope_invariant_violations_total": "must be 0 for ever; one violation long ago is still one",
    "quorumscope_quarantined_total": "the same",
    "quorumscope_job_starts_total": "the number of starts of a checkpoint is what is shown, not their pace",
    "quorumscope_forks_total": "in a variable, for its labels only",
}
"""Counters that may stand without `rate` or `increase`, and why."""

RANGE = re.compile(r"(\w+)\(([a-zA-Z_:]\w*)(?:\{[^}]*\})?\[([^\]]+)\]")
METRIC = re.compile(r"\b(?<!:)(quorumscope_\w+)\b(?!:)")
VARIABLE = re.compile(r"\$\{?(?!_)(\w+)")


def datasource_variable(dashboard: Json) -> Iterator[str]:
    """template-datasource-rule."""
    found = [(item["name"], item["label"], item["query"]) for item in variables(dashboard, "datasource")]
    if found != [("datasource", "Data source", "prometheus")]:
        yield f"expected one variable `datasource` for Prometheus, got {found}"


def variables_reload(dashboard: Json) -> Iterator[str]:
    """template-on-time-change-reload-rule."""
    yield from (item["name"] for item in variables(dashboard, "query") if item["refresh"] != 2)


def datasource_used(dashboard: Json) -> Iterator[str]:
    """panel-datasource-rule, for panels, queries, marks and variables alike."""
    targets = [target for panel in panels(dashboard) for target in panel["targets"]]
    marks = dashboard["annotations"]["list"]
    users = [*panels(dashboard), *targets, *marks, *(mark["target"] for mark in marks), *variables(dashboard, "query")]
    yield from (str(user.get("title", user.get("name"))) for user in users if user.get("datasource") != DATASOURCE)


def title_and_description(dashboard: Json) -> Iterator[str]:
    """panel-title-description-rule; and a description says what a panel cannot tell."""
    titles = [panel["title"] for panel in panels(dashboard)]
    yield from (title for title in titles if not title or titles.count(title) > 1)
    for panel in panels(dashboard):
        shows, _, cannot = panel.get("description", "").partition("\n\n**Cannot tell:** ")
        if not (shows.endswith(".") and cannot.endswith(".")):
            yield f"{panel['title']}: {panel.get('description')}"


def unit_of_panel(dashboard: Json) -> Iterator[str]:
    """panel-units-rule, and the same for each column of a table."""
    for panel in panels(dashboard):
        overrides = [item for override in panel["fieldConfig"]["overrides"] for item in override["properties"]]
        named = [panel["fieldConfig"]["defaults"].get("unit"), *(o["value"] for o in overrides if o["id"] == "unit")]
        yield from (f"{panel['title']}: {unit}" for unit in named if unit not in UNITS)


def has_queries(dashboard: Json) -> Iterator[str]:
    """panel-no-targets-rule."""
    yield from (panel["title"] for panel in panels(dashboard) if not panel.get("targets"))


def intervals(dashboard: Json) -> Iterator[str]:
    """target-rate-interval-rule: `rate` over $__rate_interval; `increase` over what is shown; never $__interval."""
    wanted = {"rate": "$__rate_interval", "increase": "$__range"}
    for where, expr in expressions(dashboard):
        if "$__interval" in expr:
            yield f"{where}: $__interval"
        yield from (f"{where}: {name}[{over}]" for name, _, over in RANGE.findall(expr) if wanted.get(name) != over)
        if expr.count("[$") != len(RANGE.findall(expr)):
            yield f"{where}: a range that is not understood: {expr}"


def counters(dashboard: Json) -> Iterator[str]:
    """target-counter-agg-rule, and its reverse: a gauge has no rate."""
    for where, expr in expressions(dashboard):
        ranged = [name for _, name, _ in RANGE.findall(expr)]
        yield from (f"{where}: {name} is no counter" for name in ranged if not is_counter(name))
        for name in set(METRIC.findall(expr)) - WHOLE_COUNTERS.keys():
            if is_counter(name) and expr.count(name) != ranged.count(name):
                yield f"{where}: {name} without rate or increase"


def uneditable(dashboard: Json) -> Iterator[str]:
    """template-uneditable-rule: what is provisioned is changed in the code."""
    if dashboard["editable"]:
        yield "expected editable: false"


def variables_defined_and_used(dashboard: Json) -> Iterator[str]:
    """A variable that is not defined matches nothing; one that is not used is noise."""
    text = json.dumps({key: dashboard[key] for key in ("panels", "annotations", "templating")})
    yield from {item["name"] for item in dashboard["templating"]["list"]} ^ set(VARIABLE.findall(text))


def nothing_hard_coded(dashboard: Json) -> Iterator[str]:
    """No query names a swarm, a peer, a rule, a query, or the process that was scraped."""
    for where, expr in expressions(dashboard):
        for label, pattern in re.findall(
            r'\b(swarm|peer|observer|author|rule|query|topic|job|instance)=~?"([^"]*)"', expr
        ):
            if not re.fullmatch(rf"\(?\${label}\)?\|?", pattern):
                yield f"{where}: {label}={pattern}"


def no_scrape_labels(dashboard: Json) -> Iterator[str]:
    """Every query drops `job` and `instance`, and counts two exporters once: it aggregates by our own labels."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            if "quorumscope_" in (left := without_aggregations(target["expr"])):
                yield f"{panel['title']}: {left}"


def grid(dashboard: Json) -> Iterator[str]:
    """Panels lie within 24 columns, and no two of them on one place."""
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        if at["x"] + at["w"] > 24:
            yield f"{panel['title']} ends in column {at['x'] + at['w']}"
        for place in ((at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])):
            if taken.setdefault(place, panel["title"]) != panel["title"]:
                yield f"{panel['title']} lies on {taken[place]}"


def runbooks(dashboard: Json) -> Iterator[str]:
    """Every panel leads to a runbook that is there, on the exporter that the reader's Prometheus scrapes."""
    for panel in panels(dashboard):
        urls = [link["url"] for link in panel.get("links", [])]
        names = [url.removeprefix("${exporter}/runbooks/") for url in urls]
        if not names or any(not (DOCS / "runbooks" / f"{name}.md").is_file() for name in names):
            yield f"{panel['title']}: {urls}"


def marks_of_forks_and_splits(dashboard: Json) -> Iterator[str]:
    """Marks by a metric's value need milliseconds. Newer versions of Grafana read `target`, older ones `expr`."""
    marks = dashboard["annotations"]["list"]
    for wanted in ("last_fork_timestamp_seconds", "split_opened_timestamp_seconds", "split_sides"):
        if not any(f"quorumscope_{wanted}" in mark["expr"] and mark["enable"] for mark in marks):
            yield f"no mark of {wanted}"
    yield from (mark["name"] for mark in marks if mark["target"]["expr"] != mark["expr"])
    yield from (mark["name"] for mark in marks if mark["useValueForTime"] != mark["expr"].endswith("* 1000"))


def links_lead_somewhere(dashboard: Json) -> Iterator[str]:
    """A link to a dashboard names one that is there, and sets variables that it has."""
    for uid, query in re.findall(r'"/d/([\w-]+)\?([^"]*)"', json.dumps(dashboard)):
        known = {item["name"] for item in UIDS.get(uid, {"templating": {"list": []}})["templating"]["list"]}
        asked = set(re.findall(r"var-(\w+)=|\$\{(\w+):queryparam\}", query))
        yield from (f"{uid}: {name}" for pair in asked for name in pair if name and name not in known)


def columns_exist(dashboard: Json) -> Iterator[str]:
    """A table orders and renames columns that its queries give: labels they keep, and `Value #A` for query A."""
    for panel in (panel for panel in panels(dashboard) if panel["type"] == "table"):
        names = [target["refId"] for target in panel["targets"]]
        values = {f"Value #{name}" for name in names} if len(names) > 1 else {"Value"}
        kept = {label for target in panel["targets"] for label in labels_kept(target["expr"])}
        for step in (step["options"] for step in panel["transformations"]):
            asked = {*step.get("indexByName", {}), *step.get("renameByName", {})}
            asked |= {step[field] for field in ("rowField", "columnField", "valueField") if field in step}
            yield from (f"{panel['title']}: {name}" for name in asked - values - kept)


RULES: list[Rule] = [
    datasource_variable,
    variables_reload,
    datasource_used,
    title_and_description,
    unit_of_panel,
    has_queries,
    intervals,
    counters,
    uneditable,
    variables_defined_and_used,
    nothing_hard_coded,
    no_scrape_labels,
    grid,
    runbooks,
    marks_of_forks_and_splits,
    links_lead_somewhere,
    columns_exist,
]


def variables(dashboard: Json, kind: str) -> list[Json]:
    return [item for item in dashboard["templating"]["list"] if item["type"] == kind]


def is_counter(name: str) -> bool:
    return name.endswith(("_total", "_bucket"))


def without_aggregations(expr: str) -> str:
    """What no `max`, `sum` or `count` is around. Brackets are undone from the inside, those of other functions too."""
    rest = re.sub(r"\{[^}]*\}|\b(?:by|on|ignoring|group_left|group_right) \([^)]*\)", "", expr)
    rest = re.sub(r"\b(max|sum|count) +\(", r"\1(", rest)
    before = ""
    while rest != before:
        before = rest
        rest = re.sub(r"\b(?:max|sum|count)\([^()]*\)", "1", rest)
        rest = re.sub(r"(?<!\bmax)(?<!\bsum)(?<!\bcount)\(([^()]*)\)", r" \1 ", rest)
    return rest


def labels_kept(expr: str) -> set[str]:
    """The labels by which it aggregates."""
    return {label for group in re.findall(r" by \(([^)]*)\)", expr) for label in group.split(", ")}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard["uid"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_dashboard_follows_the_rule(rule: Rule, dashboard: Json) -> None:
    assert list(rule(dashboard)) == []


def first_target(dashboard: Json) -> Json:
    target: Json = dashboard["panels"][1]["targets"][0]
    return target


FAULTS: dict[str, Callable[[Json], object]] = {
    "datasource_variable": lambda d: d["templating"]["list"].pop(0),
    "variables_reload": lambda d: d["templating"]["list"][1].update(refresh=1),
    "datasource_used": lambda d: first_target(d).update(datasource={"type": "prometheus", "uid": "abc"}),
    "title_and_description": lambda d: d["panels"][1].update(description="It shows something."),
    "unit_of_panel": lambda d: d["panels"][1]["fieldConfig"]["defaults"].update(unit="seconds"),
    "has_queries": lambda d: d["panels"][1].update(targets=[]),
    "intervals": lambda d: first_target(d).update(expr="rate(quorumscope_ops_total[5m])"),
    "counters": lambda d: first_target(d).update(expr="sum(quorumscope_ops_total)"),
    "uneditable": lambda d: d.update(editable=True),
    "variables_defined_and_used": lambda d: first_target(d).update(expr='quorumscope_peers{swarm=~"$swarms"}'),
    "nothing_hard_coded": lambda d: first_target(d).update(expr='max(quorumscope_peers{swarm="orders"})'),
    "no_scrape_labels": lambda d: first_target(d).update(expr='quorumscope_peers{swarm=~"$swarm"}'),
    "grid": lambda d: d["panels"][2]["gridPos"].update(x=1),
    "runbooks": lambda d: d["panels"][1]["links"][0].update(url="${exporter}/runbooks/NoSuchAlert"),
    "marks_of_forks_and_splits": lambda d: d["annotations"]["list"].pop(0),
    "links_lead_somewhere": lambda d: d["panels"][1]["links"][0].update(url="/d/quorumscope-forks?var-nobody=x"),
    "columns_exist": lambda d: next(p for p in d["panels"] if p["type"] == "table")["targets"].pop(0),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_finds_its_fault(rule: Rule) -> None:
    dashboard = copy.deepcopy(UIDS["quorumscope-overview"])
    FAULTS[rule.__name__](dashboard)
    assert list(rule(dashboard))


def test_the_committed_json_is_what_the_code_makes() -> None:
    made = {f"{page.file}.json": page.text() for page in pages()}
    assert {path.name for path in FOLDER.glob("*.json")} == made.keys()
    stale = [name for name, text in made.items() if (FOLDER / name).read_text(encoding="utf-8") != text]
    assert stale == [], "run: python -m dashboards.grafana"


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard["uid"])
def test_the_models_of_the_sdk_read_the_json_and_give_it_back(dashboard: Json) -> None:
    register_default_plugins()
    read = Dashboard.from_json(copy.deepcopy(dashboard))
    assert as_written(json.loads(JSONEncoder().encode(read))) == dashboard


@pytest.mark.programs
def test_promtool_reads_every_query(tmp_path: Path) -> None:
    """target-promql-rule and template-label-promql-rule."""
    found = [filled(expr) for dashboard in DASHBOARDS for _, expr in expressions(dashboard)]
    rules = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(found)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_every_metric_is_documented() -> None:
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    found = {name for dashboard in DASHBOARDS for _, expr in expressions(dashboard) for name in METRIC.findall(expr)}
    assert len(found) > 80
    assert [name for name in sorted(found) if name.removesuffix("_bucket") not in text] == []


def test_dashboards_are_found_by_their_tag_and_lead_to_each_other() -> None:
    assert UIDS.keys() == {f"quorumscope-{name}" for name in ("overview", "acceptance", "forks", "pipeline")}
    for dashboard in DASHBOARDS:
        assert dashboard["tags"] == ["quorumscope"]
        assert [(link["type"], link["tags"]) for link in dashboard["links"]] == [("dashboards", ["quorumscope"])]
        assert dashboard["links"][0]["includeVars"]
        assert dashboard["links"][0]["keepTime"]


def test_every_row_of_a_table_of_peers_leads_to_that_peer() -> None:
    tables = [panel for panel in panels(UIDS["quorumscope-forks"]) if panel["type"] == "table"]
    overrides = [o for panel in tables for o in panel["fieldConfig"]["overrides"] if o["matcher"]["options"] == "peer"]
    assert len(overrides) == 6
    for override in overrides:
        links = next(item["value"] for item in override["properties"] if item["id"] == "links")
        assert "var-peer=${__data.fields.peer}" in links[0]["url"]


def test_a_link_to_a_runbook_that_no_alert_has_is_refused() -> None:
    with pytest.raises(KeyError, match="NoSuchAlert"):
        runbook("NoSuchAlert")


def test_a_variable_without_a_value_is_not_asked_of_prometheus() -> None:
    assert (
        filled('rate(a{swarm=~"$swarm", peer=~"${peer}"}[$__rate_interval])') == 'rate(a{swarm=~".+", peer=~".+"}[1m])'
    )
    with pytest.raises(KeyError, match="nobody"):
        filled("a{b=~'$nobody'}")


def test_reading_the_dashboards_needs_no_sdk() -> None:
    code = "import sys; sys.modules['grafana_foundation_sdk'] = None; import dashboards.grafana.expressions"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=DOCS.parent)
