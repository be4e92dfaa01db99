"""Which page is where: the status page, runbooks, evidence, and the files they need.

Names in addresses are looked up among what there is; no path is made from them.
"""

from functools import cache
from http import HTTPStatus
from pathlib import Path

from dashboards.board import Board
from dashboards.health import Health
from dashboards.site import Request, Response, not_found
from dashboards.web.evidencefile import evidence_response
from dashboards.web.runbookpages import HTML, runbook_index, runbook_page
from dashboards.web.snapshot import take_snapshot
from dashboards.web.statusjson import status_json
from dashboards.web.statuspage import REFRESH_S, status_page

_FILES = {"/style.css": "text/css; charset=utf-8", "/icon.svg": "image/svg+xml"}


def answer(request: Request, board: Board, health: Health) -> Response:
    """The page at a path. Metrics and health are served elsewhere."""
    match request.path.split("/")[1:]:
        case [""]:
            refreshing = request.query.get("refresh") == [str(REFRESH_S)]
            return Response(HTTPStatus.OK, status_page(take_snapshot(board, health), refreshing=refreshing), HTML)
        case ["status.json"]:
            return Response(HTTPStatus.OK, status_json(take_snapshot(board, health)), "application/json")
        case ["runbooks"] | ["runbooks", ""]:
            return runbook_index()
        case ["runbooks", name]:
            return runbook_page(name)
        case ["evidence", swarm, peer]:
            return evidence_response(board, swarm, peer)
        case _ if request.path in _FILES:
            return Response(HTTPStatus.OK, _file(request.path.removeprefix("/")), _FILES[request.path])
        case _:
            return not_found()


@cache
def _file(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()
