"""Programs beside the demo and the tests: on free ports, ended with their owner, told in words if they cannot."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.grafana.expressions import dashboard_files
from streaming import services
from streaming.guard import BrokerError
from streaming.parts import MissingPartError
from streaming.services import (
    ALERTMANAGER,
    GRAFANA,
    PROMETHEUS,
    Program,
    Service,
    ask_json,
    find_program,
    free_port,
    need_program,
    start_alertmanager,
    start_grafana,
    start_prometheus,
    write_provisioning,
)

ROOT = Path(__file__).parent.parent
RULES = sorted((ROOT / "dashboards" / "alerts").glob("*.yaml"))
DEADLINE_S = 10

SERVER = """
import http.server, sys
print("the arguments are", sys.argv[1:], flush=True)
port = next(int(one.rpartition("port=")[2]) for one in sys.argv[1:] if "port=" in one)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/ready", "/api/health") else 404)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
"""A program that serves the port that is among its arguments."""


def server(service: Service) -> list[str]:
    return [sys.executable, "-c", SERVER, f"--port={service.port}"]


def install(folder: Path, name: str, script: str = SERVER) -> Path:
    """A program on the path of a test."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are looked for; nothing is installed there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize("program", [PROMETHEUS, ALERTMANAGER, GRAFANA], ids=lambda program: program.title)
def test_a_program_that_is_not_installed_is_told_with_how_it_can_be_had(program: Program, path: Path) -> None:
    assert find_program(program) is None
    with pytest.raises(MissingPartError) as told:
        need_program(program)
    assert str(told.value) == f"{program.title} is not installed ({program.advice})"
    assert "install" in program.advice


@pytest.mark.parametrize(
    "start",
    [start_alertmanager, lambda: start_prometheus({}, [], None), lambda: start_grafana("http://127.0.0.1:9", ROOT)],
)
def test_nothing_is_started_or_left_for_a_program_that_is_not_installed(
    start: Callable[[], Service], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "GuardedProcess", None)
    with pytest.raises(MissingPartError, match="is not installed"):
        start()


def test_a_program_is_found_under_each_of_its_names_the_first_one_first(path: Path) -> None:
    for name in reversed(ALERTMANAGER.names):
        installed = install(path, name)
        assert find_program(ALERTMANAGER) == need_program(ALERTMANAGER) == str(installed)


def test_a_free_port_can_be_used() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert port != free_port()


def test_a_service_is_started_killed_started_again_and_leaves_nothing() -> None:
    with Service("the server") as service:
        service.start(server(service), "/ready")
        assert service.url == f"http://{service.address}"
        with urllib.request.urlopen(f"{service.url}/ready") as answer:
            assert answer.status == 200
        assert str(service.port) in service.log_end()
        folder = service.folder
        service.kill()
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"{service.url}/ready")
        service.restart()
        assert len(service.log_end().splitlines()) == 2
    assert not folder.exists()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{service.url}/ready")


def test_a_program_that_dies_at_once_is_told_with_the_end_of_its_log() -> None:
    script = "import sys\nfor n in range(30): print('line', n)\nsys.exit('the disk is full')"
    service = Service("the server")
    folder = service.folder
    with pytest.raises(MissingPartError) as told:
        service.start([sys.executable, "-uc", script], "/ready")
    first, *shown = str(told.value).splitlines()
    assert first == "the server did not start; the end of its log:"
    assert shown == [*(f"line {number}" for number in range(21, 30)), "the disk is full"]
    assert not folder.exists()


def test_a_program_that_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "READY_SECONDS_MAX", 0.5)
    service = Service("the server")
    with pytest.raises(MissingPartError, match=r"did not start; the end of its log:\n\d+$") as told:
        service.start([sys.executable, "-uc", "import os, time; print(os.getpid()); time.sleep(60)"], "/ready")
    pid = int(str(told.value).splitlines()[-1])
    wait_for(lambda: is_gone(pid))


def test_a_port_that_somebody_else_took_is_not_taken_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "READY_SECONDS_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def babble() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.sendall(b"220 this is not HTTP\r\n")

        threading.Thread(target=babble, daemon=True).start()
        service = Service("the server", listener.getsockname()[1])
        with pytest.raises(MissingPartError, match="the server did not start"):
            service.start([sys.executable, "-c", "import time; time.sleep(60)"], "/ready")


def test_a_program_that_cannot_be_run_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    service = Service("the server")
    folder = service.folder
    with pytest.raises(BrokerError, match=r"could not start: .*no-such-program"):
        service.start([str(tmp_path / "no-such-program")], "/ready")
    assert not folder.exists()


def test_a_service_ends_with_its_owner_however_that_ends(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from streaming.services import Service\n"
        "service = Service('the server')\n"
        f"service.start([sys.executable, '-c', {SERVER!r}, f'--port={{service.port}}'], '/ready')\n"
        "print(service.folder, service.port, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    folder, port = done.stdout.split()
    wait_for(lambda: not Path(folder).exists())
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(port))) != 0


# Grafana, which is not everywhere: what it is told.


def test_grafana_is_told_its_data_source_and_where_the_dashboards_stand(tmp_path: Path) -> None:
    write_provisioning(tmp_path, "http://127.0.0.1:9090", ROOT / "dashboards" / "grafana")
    sources = yaml.safe_load((tmp_path / "datasources" / "prometheus.yaml").read_text())
    assert sources == {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "Prometheus",
                "type": "prometheus",
                "access": "proxy",
                "url": "http://127.0.0.1:9090",
                "isDefault": True,
            }
        ],
    }
    providers = yaml.safe_load((tmp_path / "dashboards" / "quorumscope.yaml").read_text())
    (provider,) = providers["providers"]
    assert (providers["apiVersion"], provider["type"]) == (1, "file")
    folder = Path(provider["options"]["path"])
    assert folder.is_absolute()
    assert len(list(folder.glob("*.json"))) == len(dashboard_files()) == 4


@pytest.mark.parametrize(("name", "first"), [("grafana-server", "--homepath"), ("grafana", "server")])
def test_grafana_is_started_as_its_version_wants_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, first: str
) -> None:
    program = install(path, name)
    home = path.parent / "share" / "grafana"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "defaults.ini").touch()
    assert home in services._grafana_homes(str(program))
    monkeypatch.setattr(services, "_grafana_homes", lambda _: [tmp_path / "nowhere", home])
    with start_grafana("http://127.0.0.1:9090", ROOT) as service:
        arguments: list[str] = yaml.safe_load(service.log_end().partition("are ")[2])
        assert arguments[0] == first
        assert arguments[arguments.index("--homepath") + 1] == str(home)
        settings = dict(one.removeprefix("cfg:default.").split("=", 1) for one in arguments if one.startswith("cfg:"))
        assert settings["server.http_addr"] == "127.0.0.1"
        assert settings["server.http_port"] == str(service.port)
        assert settings["auth.anonymous.org_role"] == "Viewer"
        for name_of_path in ("data", "logs", "plugins", "provisioning"):
            assert Path(settings[f"paths.{name_of_path}"]).parent == service.folder
        assert (service.folder / "provisioning" / "datasources" / "prometheus.yaml").exists()


# The real programs.


def checked(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def data_of(service: Service, path: str) -> Any:
    answer: Any = ask_json(f"{service.url}{path}")
    assert answer["status"] == "success"
    return answer["data"]


@pytest.mark.programs
def test_the_files_for_prometheus_and_alertmanager_are_accepted_and_they_know_each_other() -> None:
    with start_alertmanager("http://127.0.0.1:9/hook") as alertmanager:
        checked("amtool", "check-config", str(alertmanager.folder / "alertmanager.yaml"))
        targets = {"one": "127.0.0.1:1", "other": alertmanager.address}
        with start_prometheus(targets, RULES, alertmanager, "1s") as prometheus:
            told = checked("promtool", "check", "config", str(prometheus.folder / "prometheus.yaml"))
            assert RULES
            assert "rules found" in told
            wait_for(lambda: len(data_of(prometheus, "/api/v1/targets")["activeTargets"]) == 2)
            active = data_of(prometheus, "/api/v1/targets")["activeTargets"]
            found = {one["labels"]["job"]: one["discoveredLabels"]["__address__"] for one in active}
            assert found == targets
            assert {one["scrapeInterval"] for one in active} == {"1s"}
            assert data_of(prometheus, "/api/v1/rules")["groups"]
            wait_for(lambda: bool(data_of(prometheus, "/api/v1/alertmanagers")["activeAlertmanagers"]))
            config = yaml.safe_load((alertmanager.folder / "alertmanager.yaml").read_text())
            (receiver,) = config["receivers"]
            assert receiver["webhook_configs"] == [{"url": "http://127.0.0.1:9/hook", "send_resolved": True}]


@pytest.mark.programs
def test_an_alertmanager_that_only_shows_and_a_prometheus_alone_are_accepted_too() -> None:
    with start_alertmanager() as alertmanager, start_prometheus({}, [], None) as prometheus:
        checked("amtool", "check-config", str(alertmanager.folder / "alertmanager.yaml"))
        checked("promtool", "check", "config", str(prometheus.folder / "prometheus.yaml"))


@pytest.mark.programs
def test_rules_that_are_wrong_are_told_in_prometheus_own_words(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("groups: [{name: g, rules: [{alert: A, expr: 'sum('}]}]\n")
    assert shutil.which("prometheus")
    with pytest.raises(MissingPartError, match="Prometheus did not start") as told:
        start_prometheus({}, [wrong], None)
    assert "parse error" in str(told.value)
