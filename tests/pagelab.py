"""Pages for tests: boards of stories and of verdicts that are made up, and what the exporter answers about them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser

import numpy as np

from dashboards.board import Board, Record
from dashboards.health import Health
from dashboards.site import Request, Response
from dashboards.web.pages import answer
from producers.swarm import Settings
from producers.swarmfile import swarm_config
from state.config import Config
from state.fold import Topic
from state.report import Cells, Node, Report, encode_report, pack_cells, report_key
from state.signing import SigningKey
from state.verdict import Verdict, encode_verdict
from tests.boardlab import board_of, records_of
from tests.simlab import SHAPES
from tests.storylab import watched

NOW_MS = 1_767_225_700_000
SPLIT_SECOND = 41
"""In the whole story two peers have forked by then, one of them is silent, and the swarm is split."""


def story_board(name: str, second: float = 1e9, settings: Settings = SHAPES[0]) -> tuple[Board, Health]:
    """The board at a second of a story, and an exporter that is well and has read all of it."""
    run = watched(name, settings)
    records = [record for record in records_of(name, settings) if record.time_ms <= run.start_ms + 1000 * second]
    board = board_of(run.simulation.config, records)
    return board, health_of(board, records[-1].time_ms + 400)


def health_of(board: Board, now_ms: int = NOW_MS, *, caught_up: bool = True) -> Health:
    """An exporter that is well, unless told otherwise."""
    return Health(caught_up, True, {Topic.VERDICTS: 0, Topic.MATRIX: 0}, board.last_verdict_ms, now_ms)


def lab_config(*names: str) -> Config:
    """A swarm `lab` of peers with these names."""
    roster = {name: lab_author(name) for name in names}
    start = datetime(2020, 1, 1, tzinfo=UTC)
    return swarm_config("lab", roster, swarm_id="5a" * 32, start=start, split_after="5s")


@cache
def lab_author(name: str) -> str:
    """The key of a peer, which its name gives."""
    return SigningKey(name.encode().rjust(32, b"-")[:32]).public.hex()


def lab_board(config: Config, *verdicts: Verdict, time_ms: int = NOW_MS) -> Board:
    """A healthy swarm at a tick of now, and verdicts about it."""
    return board_of(config, [lab_report(config, {}), *(verdict_record(verdict, time_ms) for verdict in verdicts)])


def verdict_record(verdict: Verdict, time_ms: int = NOW_MS) -> Record:
    return Record(Topic.VERDICTS, verdict.key.encode(), encode_verdict(verdict), time_ms)


def lab_report(
    config: Config, parted: dict[tuple[str, str], int], silent: Iterable[str] = (), tick_ms: int = NOW_MS - 1000
) -> Record:
    """A tick at which pairs (observer, author) are parted: how many segments the one misses of the other."""
    (swarm,) = config.swarms
    authors, quiet = sorted(swarm.authors), set(silent)
    names = [swarm.authors[author] for author in authors]
    ages_ms = [60_000 if name in quiet else 500 for name in names]
    nodes = [Node(author, b"", 9, tick_ms - age_ms, 0) for author, age_ms in zip(authors, ages_ms, strict=True)]
    shape = (len(names), len(names))
    lags, ages, contacts = (np.zeros(shape, np.uint8) for _ in range(3))
    fresh = np.ones(shape, np.bool_)
    for (observer, author), lag in parted.items():
        place = names.index(author), names.index(observer)
        lags[place], ages[place], fresh[place] = lag, 6, False
    cells = pack_cells(Cells(fresh, lags, ages, contacts))
    columns = list(range(len(names)))
    report = Report(swarm.key, 0, 1, tick_ms, 0, nodes, columns, *cells, [0] * len(names), [])
    return Record(Topic.MATRIX, report_key(swarm.key, 0, tick_ms), encode_report(report), tick_ms)


def get(path: str, board: Board, health: Health | None = None, **query: str) -> Response:
    """What the pages answer."""
    request = Request(path, {name: [value] for name, value in query.items()})
    return answer(request, board, health or health_of(board))


class Shown(HTMLParser):
    """A page as a browser takes it apart: its tags with their attributes, its text, and its tables."""

    VOID = frozenset({"meta", "link", "br", "hr"})

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.tables: list[list[list[str]]] = []
        """Of each table its rows, the one of headers first, and their cells."""
        self.strays: list[str] = []
        """End tags that end nothing, comments, and anything else that no page of ours has."""
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        self.strays += self._open

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def table(self, *headers: str) -> list[list[str]]:
        """The rows of the one table that has columns with these names, without the headers."""
        (found,) = [rows for rows in self.tables if set(headers) <= set(rows[0])]
        return found[1:]

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)
            self.texts.append(" " if tag in {"td", "th", "p", "li", "h1", "h2", "h3", "dt", "dd", "div"} else "")
        match tag:
            case "table":
                self.tables.append([])
            case "tr":
                self.tables[-1].append([])
            case "td" | "th":
                self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.strays.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if {"td", "th"} & set(self._open):
            self.tables[-1][-1][-1] += data

    def handle_comment(self, data: str) -> None:
        self.strays.append(data)


def shown(path: str, board: Board, health: Health | None = None, **query: str) -> Shown:
    """A page that is there, taken apart."""
    response = get(path, board, health, **query)
    assert response.status == 200, response
    assert response.content_type == "text/html; charset=utf-8"
    return Shown(response.body)
