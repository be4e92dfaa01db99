"""The exporter: reads verdicts and reports, and serves what they say as metrics and pages.

It reads `.verdicts` from its beginning and the end of `.matrix`, and opens its port only then: a counter begins where
it was, and an alert does not resolve because somebody started the exporter anew.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from dashboards.board import Board, Record
from dashboards.exposition import SERIES_BUDGET, SampleCollector, make_registry
from dashboards.health import Health
from dashboards.metrics import METRICS
from dashboards.probes import probes
from dashboards.samples import Sampler, Scope
from dashboards.site import Address, Answer, serving
from dashboards.web.pages import answer as answer_page
from state.config import Config
from state.metric import Sample

ASK_SECONDS = 5.0
"""How often Kafka is asked how much there is to read."""

SAY_SECONDS = 5.0
"""How often it is said how far reading the topics is."""

POLL_SECONDS = 0.2
ABSORB_MAX = 1000
"""Records that are taken in at once: a scrape waits some ten milliseconds for them."""


class Feed(Protocol):
    """A topic as it is read: messages of Kafka's client, from where it was begun."""

    def poll(self, seconds: float) -> Iterable[Any]: ...

    def read_to_end(self) -> Iterable[Any]: ...

    def unread(self) -> int | None: ...


class ExporterSettings(NamedTuple):
    """What an operator chooses about the exporter."""

    listen: Address
    version: str
    url: str | None = None
    """Where people reach it; where it listens, if nobody says."""
    scope: Scope = Scope()
    series_budget: int = SERIES_BUDGET


class Exporter:
    """Reads the feeds, by topic, into a board."""

    def __init__(self, config: Config, feeds: Mapping[str, Feed], now_ms: Callable[[], int]) -> None:
        self.board = Board(config)
        self._feeds = feeds
        self._now_ms = now_ms
        self._caught_up = False
        self._reachable = True
        self._unread = dict.fromkeys(feeds, 0)

    def catch_up(self, say: Callable[[str], None], is_stopped: Callable[[], bool]) -> bool:
        """Read the topics to where they end now; whether it came so far before it was told to stop."""
        for topic, feed in self._feeds.items():
            count, said = 0, time.monotonic()
            for records in _in_pieces(_records(topic, feed.read_to_end())):
                if is_stopped():
                    return False
                count += self.board.absorb(records)
                if time.monotonic() - said > SAY_SECONDS:
                    said = time.monotonic()
                    say(f"read {count:,} records of {topic}, {feed.unread() or 0:,} to go")
            say(f"read {topic}: {count:,} records")
        self._caught_up = True
        return True

    def follow(self, is_stopped: Callable[[], bool]) -> None:
        """Take in what comes until told to stop. A Kafka that does not answer is waited for."""
        asked = 0.0
        while not is_stopped():
            for at, (topic, feed) in enumerate(self._feeds.items()):
                # Only the first one is waited for: the others have their turn at least so often.
                self.board.absorb(_records(topic, feed.poll(POLL_SECONDS if at == 0 else 0)))
            if time.monotonic() - asked > ASK_SECONDS:
                self._ask()
                asked = time.monotonic()

    def health(self) -> Health:
        return Health(self._caught_up, self._reachable, dict(self._unread), self.board.last_verdict_ms, self._now_ms())

    def samples(self, sampler: Sampler, version: str, url: str) -> list[Sample]:
        """All samples, of one moment."""
        with self.board.lock:
            own = [Sample("exporter_info", (version, url), 1), *self._own_samples()]
            return [*own, *sampler.samples(self.board)]

    def _own_samples(self) -> Iterator[Sample]:
        yield Sample("exporter_last_verdict_timestamp_seconds", (), self.board.last_verdict_ms / 1000)
        yield Sample("exporter_kafka_up", (), self._reachable)
        for name, by_topic in (
            ("exporter_lag_records", self._unread),
            ("exporter_unreadable_records", self.board.unreadable),
            ("exporter_foreign_records", self.board.foreign),
        ):
            yield from (Sample(name, (str(topic),), count) for topic, count in by_topic.items())

    def _ask(self) -> None:
        unread = {topic: feed.unread() for topic, feed in self._feeds.items()}
        self._reachable = None not in unread.values()
        self._unread |= {topic: count for topic, count in unread.items() if count is not None}


def run_exporter(
    config: Config,
    feeds: Mapping[str, Feed],
    settings: ExporterSettings,
    say: Callable[[str], None],
    is_stopped: Callable[[], bool],
) -> None:
    """Read up to the ends of the topics, then serve and go on reading until told to stop."""
    exporter = Exporter(config, feeds, lambda: time.time_ns() // 1_000_000)
    if not exporter.catch_up(say, is_stopped):
        return
    with serving(settings.listen, lambda address: _answers(exporter, settings, address)) as address:
        say(f"serving {address.url}/ and {address.url}/metrics")
        exporter.follow(is_stopped)


def _answers(exporter: Exporter, settings: ExporterSettings, address: Address) -> Answer:
    url = (settings.url or address.url).rstrip("/")
    sampler = Sampler(url, settings.scope)
    collector = SampleCollector(
        METRICS, lambda: exporter.samples(sampler, settings.version, url), settings.series_budget
    )
    return probes(
        make_registry(collector),
        lambda: exporter.health().readiness(),
        lambda request: answer_page(request, exporter.board, exporter.health()),
    )


def _records(topic: str, messages: Iterable[Any]) -> Iterator[Record]:
    return (Record(topic, message.key(), message.value(), message.timestamp()[1]) for message in messages)


def _in_pieces(records: Iterator[Record]) -> Iterator[list[Record]]:
    piece: list[Record] = []
    for record in records:
        piece.append(record)
        if len(piece) == ABSORB_MAX:
            yield piece
            piece = []
    yield piece


def tail_records(config: Config) -> int:
    """How much of the end of `.matrix` is read at the start: some ticks of every block of every swarm."""
    return max(64, 4 * sum(swarm.blocks_count for swarm in config.swarms))
