"""What stands beside the demo: what is installed, what was asked for, and nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from streaming import showcase
from streaming.parts import MissingPartError
from streaming.pipeline import Pipeline
from streaming.services import ALERTMANAGER, GRAFANA, PROMETHEUS, Program, start_prometheus
from streaming.showcase import Showcase, Wishes, showing
from tests.test_services import install, wait_for

FOLDER = Path(showcase.__file__).parent.parent / "dashboards"
JOB = "127.0.0.1:1234"
Wish = bool | None


class Started(NamedTuple):
    """What stands for a service that runs."""

    title: str
    told: tuple[Any, ...]

    @property
    def url(self) -> str:
        return f"http://{self.title.lower()}"


class Stage:
    """Where programs are started that are not really there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: list[str] = []

    def install(self, *programs: Program) -> None:
        for program in programs:
            install(self._folder, program.names[0])

    @contextmanager
    def run(self, title: str, *told: Any) -> Iterator[Started]:
        self.running.append(title)
        try:
            yield Started(title, told)
        finally:
            assert self.running.pop() == title

    @contextmanager
    def serve(self, pipeline: Pipeline) -> Iterator[str]:
        assert isinstance(pipeline, Pipeline)
        with self.run("job"):
            yield JOB

    def show(self, prometheus: Wish, grafana: Wish) -> Any:
        return showing(Wishes(self.serve, FOLDER, prometheus, grafana), Pipeline(["segments"]))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    made = Stage(folder)

    def start_prometheus(targets: Mapping[str, str], rules: Sequence[Path], alertmanager: Started) -> Any:
        return made.run("Prometheus", targets, rules, alertmanager.title)

    monkeypatch.setattr(showcase, "start_alertmanager", lambda: made.run("Alertmanager"))
    monkeypatch.setattr(showcase, "start_prometheus", start_prometheus)
    monkeypatch.setattr(showcase, "start_grafana", lambda *told: made.run("Grafana", *told))
    return made


ALL = (PROMETHEUS, ALERTMANAGER, GRAFANA)
NONE: list[str] = ["job"]
TWO = ["job", "Alertmanager", "Prometheus"]
THREE = [*TWO, "Grafana"]


@pytest.mark.parametrize(
    ("installed", "prometheus", "grafana", "running"),
    [
        ((), None, None, NONE),
        ((PROMETHEUS, ALERTMANAGER), None, None, TWO),
        ((PROMETHEUS, ALERTMANAGER), True, False, TWO),
        ((PROMETHEUS,), None, None, NONE),
        ((GRAFANA,), None, None, NONE),
        (ALL, None, None, THREE),
        (ALL, True, True, THREE),
        (ALL, None, True, THREE),
        (ALL, None, False, TWO),
        (ALL, False, None, NONE),
        (ALL, False, False, NONE),
    ],
)
def test_what_is_installed_or_asked_for_is_started_and_ends_with_the_block(
    stage: Stage, installed: tuple[Program, ...], prometheus: Wish, grafana: Wish, running: list[str]
) -> None:
    stage.install(*installed)
    with stage.show(prometheus, grafana) as shown:
        assert stage.running == running
        started = (shown.alertmanager, shown.prometheus, shown.grafana)
        assert [one.title for one in started if one is not None] == running[1:]
    assert stage.running == []


@pytest.mark.parametrize(
    ("installed", "prometheus", "grafana", "missing"),
    [
        ((), True, None, PROMETHEUS),
        ((PROMETHEUS,), True, None, ALERTMANAGER),
        ((PROMETHEUS, ALERTMANAGER), None, True, GRAFANA),
        ((GRAFANA,), None, True, PROMETHEUS),
    ],
)
def test_what_was_asked_for_and_is_not_installed_is_told_with_how_it_can_be_had(
    stage: Stage, installed: tuple[Program, ...], prometheus: Wish, grafana: Wish, missing: Program
) -> None:
    stage.install(*installed)
    with pytest.raises(MissingPartError) as told, stage.show(prometheus, grafana):
        pass
    assert str(told.value) == f"{missing.title} is not installed ({missing.advice})"
    assert stage.running == []


def test_prometheus_scrapes_the_exporter_and_the_job_and_knows_the_rules(stage: Stage) -> None:
    stage.install(*ALL)
    with stage.show(None, None) as shown:
        targets, rules, alertmanager = shown.prometheus.told
        assert targets == {
            "quorumscope-exporter": f"127.0.0.1:{shown.exporter_port}",
            "quorumscope-job": JOB,
        }
        assert rules
        assert all(rule.suffix == ".yaml" and rule.exists() for rule in rules)
        assert alertmanager == "Alertmanager"
        assert shown.grafana.told == ("http://prometheus", FOLDER / "grafana")


def test_the_addresses_of_all_that_runs_are_told(stage: Stage) -> None:
    stage.install(*ALL)
    with stage.show(None, None) as shown:
        assert list(shown.lines()) == [
            f"status page    http://127.0.0.1:{shown.exporter_port}/ (metrics at /metrics)",
            "Prometheus     http://prometheus/",
            "Alertmanager   http://alertmanager/",
            "Grafana        http://grafana/",
        ]
    with stage.show(False, None) as shown:
        assert len(list(shown.lines())) == 1


def test_without_prometheus_no_alert_has_fired() -> None:
    assert Showcase(1, None, None, None).fired() == []


def test_the_alerts_that_fired_are_named_with_their_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(url: str) -> object:
        asked.append(url)
        labels = [{"alertname": "SplitBrain"}, {"alertname": "ForkDetected", "peer": "gull"}, {"alertname": "A"}]
        return {"data": {"result": [{"metric": one} for one in labels]}}

    monkeypatch.setattr(showcase, "ask_json", answer)
    prometheus: Any = Started("Prometheus", ())
    assert Showcase(1, prometheus, None, None).fired() == ["A", "ForkDetected gull", "SplitBrain"]
    (url,) = asked
    assert urlsplit(url).path == "/api/v1/query"
    assert parse_qs(urlsplit(url).query) == {"query": [showcase._FIRED]}


@pytest.mark.programs
def test_a_real_prometheus_tells_which_alerts_fired(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    fires = ["{alert: One, expr: 'vector(1)', labels: {severity: warning, peer: gull}}"]
    fires += ["{alert: Other, expr: 'vector(1)', labels: {severity: warning}}"]
    fires += ["{alert: DeadMan, expr: 'vector(1)', labels: {severity: none}}"]
    fires += ["{alert: Quiet, expr: 'vector(1) > 2', labels: {severity: warning}}"]
    rules.write_text(f"groups: [{{name: g, interval: 1s, rules: [{', '.join(fires)}]}}]\n")
    with start_prometheus({}, [rules], None, "1s") as prometheus:
        shown = Showcase(1, prometheus, None, None)
        wait_for(lambda: shown.fired() == ["One gull", "Other"])
