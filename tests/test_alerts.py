"""The alert rules: promtool checks and tests them, each rule is tested in every way, and each alert has its runbook.

How the cases are found: a test of `tests/alerts/` evaluates an alert at some times. A rule is meant by an expected
alert if the name and all labels of the rule that are no templates agree, so two rules of one alert are told apart.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from typer.main import get_command

from streaming.cli import app

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parent.parent
RULE_FILES = sorted((ROOT / "dashboards" / "alerts").glob("*.yaml"))
TEST_FILES = sorted((ROOT / "tests" / "alerts").glob("*.yaml"))
RUNBOOKS = ROOT / "docs" / "runbooks"

SEVERITIES = {"critical", "warning", "info"}
HEADINGS = [
    "## What it means",
    "## How to see it",
    "## What to do",
    "## How to verify the evidence",
    "## When to escalate",
]
RUNBOOK_URL = (
    '{{ with query "last_over_time(quorumscope_exporter_info[1d])" }}{{ . | first | label "url" }}{{ end }}/runbooks/'
)
ALWAYS_FIRING = {"QuorumscopeWatchdog": "it is the heartbeat itself: it has no severity, no pause and no end"}
"""Alerts for which there is nothing to stay quiet about, with the reason."""

RESTARTS = ("ForkDetected", "SplitBrain", "PeerSilent", "MissingSegment", "OneWayLink", "ReplicaDiverged")
"""Alerts that a restart of the exporter must not end."""

_SUFFIXES = re.compile(r"_(bucket|sum|count)$")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Rule(NamedTuple):
    """An alerting rule."""

    alert: str
    expr: str
    keep_firing_for: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def fixed_labels(self) -> dict[str, str]:
        return {name: value for name, value in self.labels.items() if "{{" not in value}

    @property
    def name(self) -> str:
        return "-".join([self.alert, *self.fixed_labels.values()])

    def is_meant_by(self, expected: dict[str, Any]) -> bool:
        return self.fixed_labels.items() <= expected["exp_labels"].items()


def groups() -> Iterator[dict[str, Any]]:
    for path in RULE_FILES:
        yield from yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]


RULES = [
    Rule(one["alert"], one["expr"], one.get("keep_firing_for", ""), one["labels"], one["annotations"])
    for group in groups()
    for one in group["rules"]
    if "alert" in one
]
ALERTS = sorted({rule.alert for rule in RULES})
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
each_alert = pytest.mark.parametrize("alert", ALERTS)


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    found = shutil.which("promtool")
    if found is None:
        pytest.fail("promtool is not on the PATH: install Prometheus 2.42 or newer, which brings it")
    return subprocess.run([found, *map(str, arguments)], capture_output=True, text=True, check=False)


def seconds(duration: str) -> int:
    """Seconds of a duration such as 24h5m."""
    parts = re.findall(r"([0-9]+)([smhd])", duration)
    assert "".join(map("".join, parts)) == duration, f"not a duration: {duration}"
    return sum(int(number) * _UNITS_S[unit] for number, unit in parts)


@cache
def stories() -> list[tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]]:
    """The tests of all files, each with its evaluations by alert, in the order of time."""
    found = []
    for path in TEST_FILES:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            by_alert: dict[str, list[dict[str, Any]]] = {}
            for case in sorted(test["alert_rule_test"], key=lambda case: seconds(case["eval_time"])):
                by_alert.setdefault(case["alertname"], []).append(case)
            found.append((test, by_alert))
    return found


def courses(rule: Rule) -> list[str]:
    """What each test that looks at the alert of a rule expects of the rule: `-` quiet and `!` firing, time by time."""
    return [
        "".join("!" if any(map(rule.is_meant_by, case["exp_alerts"])) else "-" for case in by_alert[rule.alert])
        for _, by_alert in stories()
        if rule.alert in by_alert
    ]


def metric_names() -> set[str]:
    """All metrics there are, as docs/metrics.md has them."""
    path = ROOT / "docs" / "metrics.md"
    if not path.exists():
        pytest.fail("docs/metrics.md is not there: generate it from the registry of metrics")
    return set(re.findall(r"\bquorumscope_[a-z0-9_]+", path.read_text(encoding="utf-8")))


def metrics_in(text: str) -> set[str]:
    """The metrics that an expression or a template reads; what rules record is not among them."""
    names = re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", text)
    return {_SUFFIXES.sub("", name) for name in names if re.match("quorumscope_.", name)}


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.stem)
def test_promtool_finds_nothing_wrong_with_the_rules(path: Path) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(path: Path) -> None:
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_file_is_read_by_a_test_file() -> None:
    read = {
        (path.parent / file).resolve() for path in TEST_FILES for file in yaml.safe_load(path.read_text())["rule_files"]
    }
    assert read == {path.resolve() for path in RULE_FILES}


def test_tests_name_only_alerts_that_exist() -> None:
    assert {alert for _, by_alert in stories() for alert in by_alert} == set(ALERTS)


@each_rule
def test_a_rule_is_tested_firing_staying_quiet_and_resolving(rule: Rule) -> None:
    found = courses(rule)
    assert any("!" in course for course in found), "no test expects it to fire"
    if rule.alert not in ALWAYS_FIRING:
        assert any("!" not in course for course in found), "no test expects it to stay quiet all the time"
        assert any("-!" in course for course in found), "no test expects it to begin"
        assert any("!-" in course for course in found), "no test expects it to end"


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.alert in RESTARTS], ids=lambda rule: rule.name)
def test_a_restart_of_the_exporter_does_not_end_an_alert(rule: Rule) -> None:
    """There is a test whose series are marked stale, as by a scrape that fails, and which expects it to go on."""
    read = re.findall(r"quorumscope_\w+", rule.expr)[0]
    interrupted = [
        by_alert[rule.alert]
        for test, by_alert in stories()
        if rule.alert in by_alert
        and any(one["series"].startswith(f"{read}{{") and "stale _x5" in one["values"] for one in test["input_series"])
    ]
    firing = [[any(map(rule.is_meant_by, case["exp_alerts"])) for case in cases] for cases in interrupted]
    assert any(sum(cases) > 1 for cases in firing)


@each_rule
def test_a_rule_says_how_grave_it_is_and_does_not_flap(rule: Rule) -> None:
    if rule.alert in ALWAYS_FIRING:
        assert (rule.labels, rule.keep_firing_for) == ({"severity": "none"}, "")
        return
    assert rule.labels["severity"] in SEVERITIES
    assert seconds(rule.keep_firing_for) >= 60


@each_rule
def test_a_rule_tells_what_is_the_case_and_links_to_its_runbook(rule: Rule) -> None:
    assert {"summary", "description", "runbook_url"} <= rule.annotations.keys()
    assert rule.annotations["runbook_url"] == RUNBOOK_URL + rule.alert
    assert all(text.endswith(".") for name, text in rule.annotations.items() if name in {"summary", "description"})
    aggregated = re.match(r"max by \(([a-z, ]+)\)", rule.expr)
    told = "".join(rule.annotations.values())
    assert all(f"$labels.{label}" in told for label in (aggregated[1].split(", ") if aggregated else ()))


@each_rule
def test_a_rule_does_not_depend_on_how_prometheus_is_set_up(rule: Rule) -> None:
    text = rule.expr + "".join(rule.annotations.values())
    assert not re.search(r"\b(job|instance|pod|namespace)\b\s*(=|!|,|\))", text)


def test_rules_read_only_metrics_that_exist_and_records_that_are_made() -> None:
    rules = [rule for group in groups() for rule in group["rules"]]
    texts = [rule["expr"] + "".join(rule.get("annotations", {}).values()) for rule in rules]
    assert set().union(*map(metrics_in, texts)) <= metric_names()
    read = {name for text in texts for name in re.findall(r"\b\w+:quorumscope_\w+:\w+", text)}
    assert read == {rule["record"] for rule in rules if "record" in rule}


def test_there_is_one_runbook_for_each_alert_and_none_else() -> None:
    assert sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.stem != "README") == ALERTS


def test_links_between_runbooks_lead_somewhere() -> None:
    texts = [path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md")]
    linked = {target for text in texts for target in re.findall(r"\]\(([^)]+)\)", text)}
    assert linked == {f"{name}.md" for name in (*ALERTS, "README")}


def test_runbooks_can_be_read_beside_the_dashboards() -> None:
    assert (ROOT / "dashboards" / "web" / "runbooks").resolve() == RUNBOOKS.resolve()


@each_alert
def test_a_runbook_begins_with_a_sentence_and_has_its_five_parts(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0] == f"# {alert}"
    assert lines[2].endswith(".")
    assert [line for line in lines if line.startswith("## ")] == HEADINGS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.MULTILINE))


def test_runbooks_read_only_metrics_that_exist() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(RUNBOOKS.glob("*.md"))]
    assert set().union(*map(metrics_in, texts)) <= metric_names()


def test_the_expressions_in_runbooks_can_be_parsed(tmp_path: Path) -> None:
    spans = {
        span
        for path in RUNBOOKS.glob("*.md")
        for span in re.findall(
            r"`([^`]+)`", re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        )
        if metrics_in(span) or ":quorumscope_" in span
    }
    assert len(spans) > 50
    rules = [{"record": f"runbook:expression:{at}", "expr": span} for at, span in enumerate(sorted(spans))]
    path = tmp_path / "expressions.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}), encoding="utf-8")
    done = promtool("check", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


@each_alert
def test_a_runbook_names_only_commands_and_options_that_exist(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    lines = [line.strip().removeprefix("$ ") for block in text.split("```")[1::2] for line in block.splitlines()]
    for line in lines:
        if line.startswith("quorumscope "):
            check_command(line.partition("  #")[0].split()[1:])


def check_command(words: list[str]) -> None:
    """The words name a command of ours, and their options are options of it."""
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options


def test_the_index_of_runbooks_lists_each_alert_with_its_severities() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\((\w+)\.md\) \| ([a-z, ]+) \|", (RUNBOOKS / "README.md").read_text(), re.MULTILINE
    )
    told = {alert: set(severities.split(", ")) for alert, _, severities in rows}
    assert all(alert == link for alert, link, _ in rows)
    assert told == {name: {rule.labels["severity"] for rule in RULES if rule.alert == name} for name in ALERTS}
