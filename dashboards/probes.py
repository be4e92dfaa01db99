"""What machines ask a process: its metrics, whether it lives, whether it is ready. Alike for exporter and job."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry

from dashboards.exposition import CONTENT_TYPE, render
from dashboards.site import Answer, Request, Response, text_response


class Readiness(NamedTuple):
    """Whether a process does its work, why, and what it is judged by."""

    is_ready: bool
    state: str
    facts: Mapping[str, Any]


def probes(registry: CollectorRegistry, readiness: Callable[[], Readiness], others: Answer) -> Answer:
    """Answers probes; everything else is for `others`."""

    def answer(request: Request) -> Response:
        match request.path:
            case "/metrics":
                return Response(200, render(registry), CONTENT_TYPE)
            case "/-/live":
                return text_response(200, "live")
            case "/-/ready":
                return _ready_response(readiness())
        return others(request)

    return answer


def _ready_response(readiness: Readiness) -> Response:
    body = msgspec.json.encode({"ready": readiness.is_ready, "state": readiness.state, **readiness.facts})
    return Response(200 if readiness.is_ready else 503, body + b"\n", "application/json")
