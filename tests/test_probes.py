"""What machines ask: metrics, life and readiness; and what the exporter says of itself."""

from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from dashboards.health import BEHIND_RECORDS_MAX, Health
from dashboards.probes import Readiness, probes
from dashboards.site import Request, Response, not_found, text_response

NOW_MS = 1_767_225_700_000
WELL = Health(True, True, {"verdicts": 0, "matrix": 3}, NOW_MS - 1500, NOW_MS)


class Broken(Collector):
    def collect(self) -> Any:
        raise ZeroDivisionError


def ask(path: str, readiness: Readiness | None = None, registry: CollectorRegistry | None = None) -> Response:
    answer = probes(
        registry or CollectorRegistry(),
        lambda: readiness or Readiness(True, "well", {}),
        lambda request: text_response(200, f"page {request.path}") if request.path == "/page" else not_found(),
    )
    return answer(Request(path, {}))


def told(health: Health) -> tuple[int, dict[str, Any]]:
    """The answer about an exporter's readiness."""
    response = ask("/-/ready", health.readiness())
    assert response.content_type == "application/json"
    return response.status, msgspec.json.decode(response.body)


def test_life_does_not_depend_on_anything() -> None:
    assert ask("/-/live", Readiness(False, "not at all", {})) == text_response(200, "live")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Broken())
    assert ask("/-/live", registry=registry).status == 200


def test_what_is_no_probe_is_for_the_pages() -> None:
    assert ask("/page").body == b"page /page\n"
    for path in ("/", "/metrics/", "/-/", "/-/live/", "/-/ready/x", "/METRICS", "metrics", ""):
        assert ask(path).status == 404


def test_metrics_are_text_in_the_version_that_prometheus_reads() -> None:
    response = ask("/metrics")
    assert response.status == 200
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("is_ready", [True, False])
def test_readiness_is_a_status_and_facts_and_a_sentence(is_ready: bool) -> None:
    response = ask("/-/ready", Readiness(is_ready, "a sentence", {"number": 5, "by": {"one": 1.5}}))
    assert response.status == (200 if is_ready else 503)
    facts = {"ready": is_ready, "state": "a sentence", "number": 5, "by": {"one": 1.5}}
    assert msgspec.json.decode(response.body) == facts
    assert response.body.endswith(b"\n")


def test_an_exporter_that_is_well_tells_the_age_of_its_newest_verdict() -> None:
    assert told(WELL) == (
        200,
        {
            "ready": True,
            "state": "ready; the newest verdict is 1.5 s old",
            "caught_up": True,
            "reachable": True,
            "lag_records": {"verdicts": 0, "matrix": 3},
            "last_verdict_ms": NOW_MS - 1500,
            "now_ms": NOW_MS,
            "last_verdict_age_seconds": 1.5,
        },
    )


def test_an_old_verdict_is_no_fault_and_none_has_no_age() -> None:
    """Verdicts come when something happens: how long ago that was says nothing about the exporter."""
    status, facts = told(WELL._replace(last_verdict_ms=NOW_MS - 86_400_000))
    assert (status, facts["last_verdict_age_seconds"]) == (200, 86_400)
    status, facts = told(WELL._replace(last_verdict_ms=0))
    assert (status, facts["last_verdict_age_seconds"]) == (200, None)
    assert facts["state"] == "ready; no verdict yet"


def test_a_verdict_of_the_future_has_no_age_below_zero() -> None:
    assert told(WELL._replace(last_verdict_ms=NOW_MS + 5000))[1]["last_verdict_age_seconds"] == 0


def test_an_exporter_that_still_reads_is_not_ready() -> None:
    status, facts = told(WELL._replace(caught_up=False))
    assert (status, facts["ready"], facts["state"]) == (503, False, "reading the topics")


def test_an_exporter_that_kafka_does_not_answer_is_not_ready_and_says_what_it_shows() -> None:
    status, facts = told(WELL._replace(reachable=False))
    assert (status, facts["ready"]) == (503, False)
    assert facts["state"] == "Kafka does not answer: what is shown is what was read before"


@pytest.mark.parametrize("topic", ["verdicts", "matrix"])
def test_an_exporter_that_is_far_behind_is_not_ready_and_says_how_far(topic: str) -> None:
    lag = WELL.lag_records | {topic: BEHIND_RECORDS_MAX}
    assert told(WELL._replace(lag_records=lag))[0] == 200
    status, facts = told(WELL._replace(lag_records=lag | {topic: BEHIND_RECORDS_MAX + 1}))
    assert (status, facts["ready"]) == (503, False)
    assert facts["state"] == f"behind: 50,001 records of {topic} are not read yet"


def test_all_topics_that_are_behind_are_named() -> None:
    state = WELL._replace(lag_records={"verdicts": 60_000, "matrix": 70_000}).sentence()
    assert state == "behind: 60,000 records of verdicts are not read yet, 70,000 records of matrix are not read yet"
