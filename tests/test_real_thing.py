"""The whole way, with nothing but real parts: Kafka, Spark, the exporter, Prometheus, Alertmanager and a webhook.

Six swarms live at the same time, each with its own trouble. One run serves all tests of this module.
"""

import json
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import pytest
import yaml
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from dashboards.grafana.expressions import dashboard_files, expressions, filled
from producers.scenarios import SCENARIOS
from producers.simulation import Simulation
from producers.sinks import publish_live
from producers.swarm import Settings
from producers.swarmfile import config_yaml
from state.config import Config
from state.connection import Connection
from state.evidence import check_evidence
from state.fold import Topic
from state.verdict import Equivocation, Limit, Quarantine, Verdict, decode_verdict, encode_verdict, key_of
from streaming.broker import Broker
from streaming.services import Service, ask_json, start_alertmanager, start_exporter, start_prometheus
from streaming.topics import Setup, create_topics
from tests.commandlab import quorumscope
from tests.topiclab import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.programs]

PREFIX = "real"
ROOT = Path(__file__).parent.parent
RULES = ROOT / "dashboards" / "alerts" / "quorumscope.yaml"
TROUBLES = (
    *("whole-story", "lying-peer", "withheld-story", "silent-listener", "hostile-input", "rare-noops"),
    "diverging-replicas",
)
LIAR_SWARM, SPLIT_SWARM = "lying-peer", "whole-story"
STEP_S = 2
"""Between two moments at which Prometheus is asked what it knew: as often as it scrapes."""

QUIET = {
    "AcceptanceSlow": "needs minutes of slow acceptance",
    "AcceptanceStalled": "needs five minutes without an acceptance",
    "SwarmSilent": "needs a quarter of an hour of silence",
    "RejectsRising": "a share over ten minutes",
    "PipelineStalled": "needs a job that stands still",
    "LagHigh": "needs a job that is behind",
    "RetentionAtRisk": "needs a job that is days behind",
    "StateNearLimit": "needs a state of a megabyte",
    "ExporterDown": "needs an exporter that is gone for minutes",
    "ExporterBehind": "two of its rules need an exporter that is behind or without Kafka",
    "ReplicaDiverged": "one of its two rules needs ten minutes of divergence",
    "InvariantBroken": "one of its two rules needs a broken invariant",
    "SeriesDropped": "needs more series than the budget",
}
"""Alerts that this run need not bring about. Their firing is tested with promtool (tests/alerts); here it is shown that
each series that they look at exists."""


class Notice(NamedTuple):
    """An alert as the webhook got it."""

    at_s: float
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]
    starts: str


class Webhook:
    """A receiver of Alertmanager's messages."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        notices = self.notices

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in body["alerts"]:
                    facts = (alert["status"], alert["labels"], alert["annotations"], alert["startsAt"])
                    notices.append(Notice(time.time(), *facts))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def find(self, alert: str, swarm: str, status: str) -> Notice | None:
        wanted = (alert, swarm, status)
        return next(
            (n for n in self.notices if (n.labels["alertname"], n.labels.get("swarm"), n.status) == wanted), None
        )

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Run:
    """Everything started, and what was seen while it ran."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.connection = Connection(bootstrap=broker.bootstrap)
        self.webhook = Webhook()
        self.start_s = time.time()
        self.simulations = simulate(round(self.start_s * 1000) + 1000)
        self.config = Config(
            tuple(
                msgspec.structs.replace(simulation.config.swarms[0], name=name)
                for name, simulation in self.simulations.items()
            )
        )
        self.swarms = folder / "swarms.yaml"
        self.swarms.write_text(config_yaml(self.config))
        create_topics(self.connection, Setup(prefix=PREFIX, partitions=2))
        self.job = start_job(self.connection.bootstrap, self.swarms, folder / "checkpoint")
        self.exporter = start_exporter(self.connection.bootstrap, PREFIX, self.swarms)
        self.alertmanager = start_alertmanager(self.webhook.url)
        targets = {"exporter": self.exporter.address, "job": self.job.address}
        self.prometheus = start_prometheus(targets, [RULES], self.alertmanager, f"{STEP_S}s")
        self.before_kill: dict[str, float] = {}
        self.after_kill: dict[str, float] = {}

    @property
    def liar(self) -> str:
        (fork,) = self.simulations[LIAR_SWARM].truth.forks
        return self.config.swarms[TROUBLES.index(LIAR_SWARM)].authors[bytes.fromhex(fork.author)]

    def play(self) -> None:
        """Publish, kill the exporter in the middle, and wait until all that must happen has happened."""
        wait_for("the job makes progress", lambda: answers(self.job.url + "/-/ready"), 120)
        self._write_verdicts()
        records = sorted((r for one in self.simulations.values() for r in one.records), key=lambda r: r.time_ms)
        publishing = threading.Thread(
            target=publish_live, args=(records, self.connection.librdkafka(), f"{PREFIX}.segments"), daemon=True
        )
        publishing.start()
        wait_for("the fork fires", lambda: self.webhook.find("ForkDetected", LIAR_SWARM, "firing") is not None, 120)
        self.before_kill = self.counters()
        self.exporter.kill()
        self.exporter.restart()
        self.after_kill = self.counters()
        wait_for("the split fires", lambda: self.webhook.find("SplitBrain", SPLIT_SWARM, "firing") is not None, 120)
        publishing.join()
        wait_for(
            "the split resolves", lambda: self.webhook.find("SplitBrain", SPLIT_SWARM, "resolved") is not None, 240
        )

    def counters(self) -> dict[str, float]:
        """All counters of the exporter, and the buckets of its histograms, as a scrape has them."""
        with urllib.request.urlopen(self.exporter.url + "/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for family in text_string_to_metric_families(text)
            if family.type in ("counter", "histogram") and family.name.startswith("quorumscope_")
            for sample in family.samples
        }

    def ask(self, path: str, **parameters: object) -> Any:
        answer: Any = ask_json(f"{self.prometheus.url}/api/v1/{path}?{urlencode(parameters)}")
        assert answer["status"] == "success", answer
        return answer["data"]

    def returned(self, expr: str) -> bool:
        """Whether an expression gave any series at any moment of the run."""
        data = self.ask("query_range", query=expr, start=self.start_s, end=time.time(), step=STEP_S)
        return bool(data["result"])

    def verdict(self, kind: type[Verdict], swarm: str) -> tuple[Any, int]:
        """The first verdict of a kind about a swarm, and the record time of it."""
        wanted = next(one.id for one in self.config.swarms if one.name == swarm)
        for written in read_topic(self.connection, f"{PREFIX}.verdicts"):
            if written.value and (written.key or b"").startswith(f"{kind.__struct_config__.tag}/".encode()):
                verdict = decode_verdict(written.value)
                if verdict.swarm == wanted:
                    return verdict, written.time_ms
        raise AssertionError(f"no {kind.__name__} of {swarm}")

    def close(self) -> None:
        for service in (self.prometheus, self.alertmanager, self.exporter, self.job, self.webhook):
            service.close()

    def _write_verdicts(self) -> None:
        """What no simulation brings about: a limit that is hit, a fold with a bug."""
        swarm = self.config.swarms[0]
        author = next(iter(swarm.authors)).hex()
        about = {"swarm": swarm.id, "config": self.config.digest}
        limit = Limit(key=key_of(Limit, swarm.id, author, "span"), author=author, limit="span", maximum=1, **about)
        bug = Quarantine(key=key_of(Quarantine, "logs", "00"), fold="logs", fold_key="00", error="a bug", **about)
        producer = Producer(self.connection.librdkafka())
        for verdict in (limit, bug):
            producer.produce(f"{PREFIX}.{Topic.VERDICTS}", encode_verdict(verdict), verdict.key.encode())
        producer.produce(f"{PREFIX}.{Topic.VERDICTS}", b"no verdict", b"junk")
        assert producer.flush(30) == 0


def simulate(start_ms: int) -> dict[str, Simulation]:
    """One swarm for each trouble, with ids of their own."""
    return {name: SCENARIOS[name].run(Settings(seed=100 + at, start_ms=start_ms)) for at, name in enumerate(TROUBLES)}


def start_job(bootstrap: str, swarms: Path, checkpoint: Path) -> Service:
    service = Service("the job")
    options = {"--bootstrap": bootstrap, "--prefix": PREFIX, "--swarms": str(swarms), "--checkpoint": str(checkpoint)}
    options |= {"--master": "local[2]", "--listen": service.address}
    arguments = [part for option in options.items() for part in option]
    return service.start([sys.executable, "-m", "streaming.cli", "run", *arguments], "/-/live")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_for(what: str, condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s and it is not so: {what}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def run(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    started = Run(broker, tmp_path_factory.mktemp("real"))
    try:
        started.play()
        yield started
    finally:
        started.close()


def test_a_fork_fires_at_the_webhook_with_the_peer_a_runbook_and_evidence_that_checks_out(
    run: Run, tmp_path: Path
) -> None:
    notice = run.webhook.find("ForkDetected", LIAR_SWARM, "firing")
    assert notice is not None
    assert notice.labels["peer"] == run.liar
    assert notice.labels["severity"] == "critical"
    assert run.liar in notice.annotations["summary"]
    with urllib.request.urlopen(notice.annotations["runbook_url"], timeout=10) as answer:
        assert b"ForkDetected" in answer.read()
    with urllib.request.urlopen(notice.annotations["evidence"], timeout=10) as answer:
        evidence = answer.read()
    assert check_evidence(evidence, run.config).peer == run.liar
    file = tmp_path / "evidence.json"
    file.write_bytes(evidence)
    assert quorumscope("verify", file, "--swarms", run.swarms).returncode == 0


def test_the_time_from_publishing_to_the_alert_is_told_hop_by_hop(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    verdict, verdict_ms = run.verdict(Equivocation, LIAR_SWARM)
    notice = run.webhook.find("ForkDetected", LIAR_SWARM, "firing")
    assert notice is not None
    series = f'quorumscope_last_fork_timestamp_seconds{{swarm="{LIAR_SWARM}"}}[10m]'
    (scraped,) = run.ask("query", query=series)["result"]
    (active,) = [
        one
        for one in run.ask("alerts")["alerts"]
        if one["labels"]["alertname"] == "ForkDetected" and one["labels"]["swarm"] == LIAR_SWARM
    ]
    published_s = sorted(one.seen_ms for one in verdict.evidence)[1] / 1000
    moments = {
        "second version on the topic → verdict on the topic": verdict_ms / 1000,
        "→ scraped by Prometheus": scraped["values"][0][0],
        "→ alert active": datetime.fromisoformat(active["activeAt"]).timestamp(),
        "→ webhook": notice.at_s,
    }
    times = pairwise([published_s, *moments.values()])
    hops_s = {hop: later - earlier for hop, (earlier, later) in zip(moments, times, strict=True)}
    with capsys.disabled():
        print(f"\nfrom publishing to the alert: {notice.at_s - published_s:.1f} s")
        for hop, took_s in hops_s.items():
            print(f"  {hop}: {took_s:.1f} s")
    assert all(took_s > -0.5 for took_s in hops_s.values()), "each follows from the one before"


def test_healing_resolves_the_split_alert(run: Run) -> None:
    firing = run.webhook.find("SplitBrain", SPLIT_SWARM, "firing")
    resolved = run.webhook.find("SplitBrain", SPLIT_SWARM, "resolved")
    assert firing is not None
    assert resolved is not None
    assert resolved.at_s > firing.at_s
    assert resolved.starts == firing.starts, "one alert, not several"


def test_killing_the_exporter_takes_no_counter_back_and_lets_no_alert_flap(run: Run) -> None:
    assert run.before_kill
    for name, value in run.before_kill.items():
        assert run.after_kill[name] >= value, name
    forks = [notice for notice in run.webhook.notices if notice.labels["alertname"] == "ForkDetected"]
    assert {notice.status for notice in forks} == {"firing"}
    keys = ("swarm", "peer", "branches")
    starts = {(tuple(notice.labels[key] for key in keys), notice.starts) for notice in forks}
    assert len(starts) == len({about for about, _ in starts}), "none began twice"


def test_bad_bytes_on_the_topic_of_verdicts_are_counted(run: Run) -> None:
    (series,) = run.ask("query", query='quorumscope_exporter_unreadable_records{topic="verdicts"}')["result"]
    assert float(series["value"][1]) == 1


@pytest.mark.parametrize("file", dashboard_files(), ids=lambda file: file.stem)
def test_every_expression_of_a_dashboard_gives_series(run: Run, file: Path) -> None:
    found = expressions(json.loads(file.read_text()))
    assert found
    assert [(where, expr) for where, expr in found if not run.returned(filled(expr))] == []


def rules() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]


def selectors(expr: str) -> set[str]:
    """The series that an expression looks at, with what they must match."""
    return set(re.findall(r"[a-z_:]*quorumscope_[a-z0-9_:]+(?:\{[^}]*\})?", expr))


def test_every_expression_of_a_rule_gives_series_or_looks_at_series_that_are_there(run: Run) -> None:
    empty = []
    for name, expr in rules():
        if run.returned(expr):
            continue
        empty += [(name, one) for one in selectors(expr) if not run.returned(one)] if name in QUIET else [(name, expr)]
    assert empty == []
    assert {name for name, _ in rules()} >= QUIET.keys()
