"""What people can look at while the demo runs: the exporter's pages; Prometheus, Alertmanager, Grafana if there."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from streaming.pipeline import Pipeline
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
)

Serve = Callable[[Pipeline], AbstractContextManager[str]]
"""Serves a pipeline's metrics at an address, HOST:PORT, which it gives."""

_FIRED = 'max by (alertname, peer) (max_over_time(ALERTS{alertstate="firing", severity!="none"}[1h]))'


class Wishes(NamedTuple):
    """What is to be started; None: if it is installed."""

    serve: Serve
    dashboards: Path
    """The folder with `alerts` and `grafana`."""
    prometheus: bool | None = None
    grafana: bool | None = None

    @property
    def with_prometheus(self) -> bool | None:
        """Grafana shows what Prometheus keeps: who asks for the one asks for the other."""
        return True if self.grafana and self.prometheus is None else self.prometheus


class Showcase(NamedTuple):
    """What was started. The exporter comes and goes with each story, always at the same port."""

    exporter_port: int
    prometheus: Service | None
    alertmanager: Service | None
    grafana: Service | None

    def lines(self) -> Iterator[str]:
        """The addresses."""
        yield f"status page    http://127.0.0.1:{self.exporter_port}/ (metrics at /metrics)"
        for service in (self.prometheus, self.alertmanager, self.grafana):
            if service is not None:
                yield f"{service.title:<14} {service.url}/"

    def fired(self) -> list[str]:
        """The alerts that fired within the last hour, with their peers."""
        if self.prometheus is None:
            return []
        try:
            answer: Any = ask_json(f"{self.prometheus.url}/api/v1/query?query={quote(_FIRED)}")
        except OSError:  # a Prometheus that has ended must not end the demo
            return []
        labels = [series["metric"] for series in answer["data"]["result"]]
        return sorted(" ".join(filter(None, (one["alertname"], one.get("peer")))) for one in labels)


@contextmanager
def showing(wishes: Wishes, pipeline: Pipeline) -> Iterator[Showcase]:
    """Start what is wished for; it ends with the block."""
    with ExitStack() as stack:
        exporter_port = free_port()
        job_address = stack.enter_context(wishes.serve(pipeline))
        alertmanager = prometheus = grafana = None
        if _is_wished(wishes.with_prometheus, PROMETHEUS, ALERTMANAGER):
            alertmanager = stack.enter_context(start_alertmanager())
            targets = {"quorumscope-exporter": f"127.0.0.1:{exporter_port}", "quorumscope-job": job_address}
            rules = sorted((wishes.dashboards / "alerts").glob("*.yaml"))
            prometheus = stack.enter_context(start_prometheus(targets, rules, alertmanager))
        if _is_wished(wishes.grafana, GRAFANA) and prometheus is not None:
            grafana = stack.enter_context(start_grafana(prometheus.url, wishes.dashboards / "grafana"))
        yield Showcase(exporter_port, prometheus, alertmanager, grafana)


def _is_wished(wish: bool | None, *programs: Program) -> bool:
    if wish is None:
        return all(map(find_program, programs))
    if wish:
        for program in programs:
            need_program(program)
    return wish
