"""The live view of the demo: a screen on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streaming.progress import Totals

LINE_SECONDS = 5.0
"""How often a view of plain lines says how far it is."""

NEWS_SHOWN = 10


class Scene:
    """What is shown: numbers that change, and news that stay."""

    def __init__(self, peers: list[str], records: int) -> None:
        self.started = time.monotonic()
        self.peers = peers
        self.records = records
        self.published = 0
        self.ops = dict.fromkeys(peers, 0)
        self.tips = dict.fromkeys(peers, 0)
        self.accused: set[str] = set()
        self.forks = 0
        self.totals = Totals()
        self.news: list[tuple[float, str, bool]] = []

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def add_news(self, text: str, *, alarm: bool = False) -> None:
        self.news.append((self.elapsed, text, alarm))


class View(Protocol):
    def say(self, text: str) -> None: ...

    def show(self, scene: Scene) -> None: ...


class LineView:
    """One line now and then, and one for each piece of news."""

    def __init__(self) -> None:
        self._told = 0
        self._last = 0.0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def show(self, scene: Scene) -> None:
        self._told = min(self._told, len(scene.news))
        for at, text, alarm in scene.news[self._told :]:
            print(f"{at:6.1f} s  {'!! ' if alarm else ''}{text}", flush=True)
        self._told = len(scene.news)
        if time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            print(f"{scene.elapsed:6.1f} s  {numbers(scene)}", flush=True)


class ScreenView:
    """A screen that is drawn anew several times a second."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def say(self, text: str) -> None:
        self._live.console.print(text, highlight=False, soft_wrap=True)

    def show(self, scene: Scene) -> None:
        self._live.update(_draw(scene))


@contextmanager
def open_view() -> Iterator[View]:
    """A screen if there is a terminal to draw it on, else lines."""
    if not sys.stdout.isatty():
        yield LineView()
        return
    with Live(console=Console(), refresh_per_second=4, transient=True) as live:
        yield ScreenView(live)


def numbers(scene: Scene) -> str:
    totals = scene.totals
    records, ops = totals.rates()
    return (
        f"published {scene.published} of {scene.records}, verified {totals.counts['verified']}, rejected "
        f"{totals.rejected}, forks {scene.forks}; {records:.0f} segments/s, {ops:.0f} ops/s"
    )


def _draw(scene: Scene) -> Group:
    totals = scene.totals
    records, ops = totals.rates()
    left = Table.grid(padding=(0, 2))
    for label, value in (
        ("published", f"{scene.published} of {scene.records} segments"),
        ("verified", f"{totals.counts['verified']}"),
        ("rejected", f"{totals.rejected}"),
        ("duplicates", f"{totals.counts['duplicate']}"),
        ("segments/s", f"{records:.1f}"),
        ("ops/s", f"{ops:.1f}"),
        ("last batch", f"{totals.batch_ms} ms"),
        ("forks", Text(str(scene.forks), style="bold red" if scene.forks else "green")),
    ):
        left.add_row(Text(label, style="dim"), value)
    right = Table("peer", "tip", "ops", "", box=None, pad_edge=False)
    for peer in scene.peers:
        accused = peer in scene.accused
        mark = Text("signed two versions", style="bold red") if accused else Text("")
        right.add_row(Text(peer, style="red" if accused else ""), str(scene.tips[peer]), str(scene.ops[peer]), mark)
    top = Table.grid(expand=True)
    top.add_column(ratio=2)
    top.add_column(ratio=3)
    top.add_row(Panel(left, title="pipeline"), Panel(right, title="peers"))
    news = Text("\n").join(
        Text(f"{at:5.1f} s  {text}", style="bold red" if alarm else "") for at, text, alarm in scene.news[-NEWS_SHOWN:]
    )
    return Group(top, Panel(news, title=f"what happens ({scene.elapsed:.0f} s)"))
