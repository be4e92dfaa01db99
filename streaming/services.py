"""Programs that stand beside the demo and the tests: the exporter, Prometheus, Alertmanager, Grafana.

Each runs on a free loopback port, in a temporary directory, and ends with its owner, however that ends.
"""

import shutil
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import yaml

from streaming.guard import GuardedProcess
from streaming.parts import MissingPartError

READY_SECONDS_MAX = 60.0
"""How long a program may take to answer: a second or two, and more on a machine that has other things to do."""

LOG_LINES_SHOWN = 10


class Program(NamedTuple):
    """A program of somebody else, the names it goes by, and how it can be had."""

    title: str
    names: tuple[str, ...]
    advice: str


PROMETHEUS = Program(
    "Prometheus", ("prometheus",), "Debian, Ubuntu: apt install prometheus; macOS: brew install prometheus"
)
ALERTMANAGER = Program(
    "Alertmanager",
    ("prometheus-alertmanager", "alertmanager"),
    "Debian, Ubuntu: apt install prometheus-alertmanager; else: go install its cmd/alertmanager",
)
GRAFANA = Program("Grafana", ("grafana-server", "grafana"), "see Grafana's own packages; macOS: brew install grafana")


def find_program(program: Program) -> str | None:
    """Where it is installed, if it is."""
    return next((path for name in program.names if (path := shutil.which(name))), None)


def need_program(program: Program) -> str:
    path = find_program(program)
    if path is None:
        raise MissingPartError(f"{program.title} is not installed ({program.advice})")
    return path


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """A program that serves a port. `folder` is its own and goes with it."""

    def __init__(self, title: str, port: int | None = None) -> None:
        self.title = title
        self.port = port or free_port()
        self._process = GuardedProcess()
        self._argv: list[str] = []
        self._ready = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def folder(self) -> Path:
        return Path(self._process.folder)

    def start(self, argv: Sequence[str], ready: str) -> Self:
        """Start it, and wait until it answers at the path `ready`."""
        self._argv, self._ready = list(argv), ready
        try:
            self.restart()
        except BaseException:  # Ctrl-C too
            self.close()
            raise
        return self

    def restart(self) -> None:
        """Start it with the same arguments. Requires that it does not run."""
        self._process.start(self._argv, str(self.folder / "log"))
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._answers():
            if self._process.status() is not None or time.monotonic() > deadline:
                raise MissingPartError(f"{self.title} did not start; the end of its log:\n{self.log_end()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a crash would; it can be started again."""
        self._process.signal(signal.SIGKILL)
        while self._process.status() is None:
            time.sleep(0.01)

    def log_end(self) -> str:
        path = self.folder / "log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-LOG_LINES_SHOWN:])

    def close(self) -> None:
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + self._ready, timeout=2) as answer:  # noqa: S310  loopback
                return bool(answer.status == 200)
        except (OSError, HTTPException):  # not yet, or something else that listens there
            return False


def start_exporter(bootstrap: str, prefix: str, swarms: Path, port: int | None = None) -> Service:
    """The exporter, as the command that an operator runs."""
    service = Service("the exporter", port)
    options = {
        "--bootstrap": bootstrap,
        "--prefix": prefix,
        "--swarms": str(swarms.resolve()),
        "--listen": service.address,
    }
    command = [sys.executable, "-m", "streaming.cli", "exporter"]
    return service.start([*command, *(part for option in options.items() for part in option)], "/-/live")


def start_alertmanager(webhook: str | None = None) -> Service:
    """An Alertmanager that sends what fires to a webhook, or only shows it."""
    path = need_program(ALERTMANAGER)
    service = Service("Alertmanager")
    hooks = [{"url": webhook, "send_resolved": True}] if webhook else []
    route = {"receiver": "all", "group_by": ["alertname", "swarm", "peer"], "group_wait": "0s", "group_interval": "1s"}
    config = {"route": route, "receivers": [{"name": "all", "webhook_configs": hooks}]}
    _write(service.folder / "alertmanager.yaml", config)
    options = [
        "--config.file=alertmanager.yaml",
        "--storage.path=data",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    return service.start([path, *options, f"--web.listen-address={service.address}"], "/-/ready")


def start_prometheus(
    targets: Mapping[str, str],
    rules: Sequence[Path],
    alertmanager: Service | None,
    interval: str = "2s",
    data: Path | None = None,
) -> Service:
    """A Prometheus that scrapes targets, addresses by their job names, and evaluates rules.

    It keeps its data in its own folder, or goes on with those that are given, however old they are.
    """
    path = need_program(PROMETHEUS)
    service = Service("Prometheus")
    config = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": [str(rule.resolve()) for rule in rules],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()
        ],
    }
    if alertmanager is not None:
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address]}]}]}
    _write(service.folder / "prometheus.yaml", config)
    options = ["--config.file=prometheus.yaml", "--log.level=warn", f"--storage.tsdb.path={data or 'data'}"]
    if data is not None:
        options.append("--storage.tsdb.retention.time=100y")
    return service.start([path, *options, f"--web.listen-address={service.address}"], "/-/ready")


def start_grafana(prometheus: str, dashboards: Path) -> Service:
    """A Grafana with a Prometheus as its data source and our dashboards; anyone on this machine may look."""
    path = need_program(GRAFANA)
    service = Service("Grafana")
    write_provisioning(service.folder / "provisioning", prometheus, dashboards)
    settings = {
        "server.http_addr": "127.0.0.1",
        "server.http_port": str(service.port),
        "paths.data": str(service.folder / "data"),
        "paths.logs": str(service.folder / "logs"),
        "paths.plugins": str(service.folder / "plugins"),
        "paths.provisioning": str(service.folder / "provisioning"),
        "auth.anonymous.enabled": "true",
        "auth.anonymous.org_role": "Viewer",
        "analytics.reporting_enabled": "false",
        "analytics.check_for_updates": "false",
    }
    home = next((str(place) for place in _grafana_homes(path) if (place / "conf" / "defaults.ini").exists()), None)
    command = [path] if Path(path).name == "grafana-server" else [path, "server"]
    options = [
        *(("--homepath", home) if home else ()),
        *(f"cfg:default.{name}={text}" for name, text in settings.items()),
    ]
    return service.start([*command, *options], "/api/health")


def write_provisioning(folder: Path, prometheus: str, dashboards: Path) -> None:
    """The files that tell Grafana its data source and where the dashboards stand."""
    source = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": prometheus, "isDefault": True}
    provider = {"name": "quorumscope", "type": "file", "options": {"path": str(dashboards.resolve())}}
    _write(folder / "datasources" / "prometheus.yaml", {"apiVersion": 1, "datasources": [source]})
    _write(folder / "dashboards" / "quorumscope.yaml", {"apiVersion": 1, "providers": [provider]})


def ask_json(url: str) -> object:
    """What a service answers, read as JSON."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  loopback
        return msgspec.json.decode(answer.read())


def _grafana_homes(path: str) -> list[Path]:
    real = Path(path).resolve()
    return [Path("/usr/share/grafana"), real.parent.parent / "share" / "grafana", real.parent.parent]


def _write(path: Path, tree: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
