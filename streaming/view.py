"""The live view of the demo: a screen on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from state.grid import Grid
from streaming.acceptance import Acceptance
from streaming.matrixview import CELL_WIDTH, CELL_WIDTH_NARROW, legend, matrix_lines
from streaming.news import Item, Tone
from streaming.scene import Scene

LINE_SECONDS = 5.0
"""How often a view of plain lines says how far it is."""

MATRIX_SECONDS = 10.0
"""How often a view of plain lines shows the matrix, if there was news meanwhile."""

WIDE = 100
"""From this many columns on, the cells of the matrix have room between them."""

NUMBERS_HEIGHT = 8
"""Lines of each of the two panels beside the matrix, borders included: together a little more than ten nodes need."""

_STYLES = {Tone.STORY: "", Tone.NOTE: "yellow", Tone.ALARM: "bold red", Tone.RELIEF: "green"}
_PREFIXES = {Tone.STORY: "", Tone.NOTE: "-- ", Tone.ALARM: "!! ", Tone.RELIEF: "-- "}


class View(Protocol):
    def show(self, scene: Scene) -> None: ...


class LineView:
    """One line now and then, one for each piece of news, and the matrix after news."""

    def __init__(self) -> None:
        self._told = 0
        self._lined_s = -LINE_SECONDS
        self._drawn_s = 0.0
        self._drawn_news = 0

    def show(self, scene: Scene) -> None:
        items = scene.news.items
        for item in items[self._told :]:
            print(f"{item.at_s:6.1f} s  {_PREFIXES[item.tone]}{item.text}", flush=True)
        self._told = len(items)
        now_s = scene.elapsed_s
        if now_s - self._lined_s >= LINE_SECONDS:
            self._lined_s = now_s
            print(f"{now_s:6.1f} s  {numbers(scene)}", flush=True)
        if scene.matrix is not None and self._drawn_news < len(items) and now_s - self._drawn_s >= MATRIX_SECONDS:
            self._drawn_s, self._drawn_news = now_s, len(items)
            print("\n".join(_plain_matrix(scene, scene.matrix)), flush=True)


class ScreenView:
    """A screen that is drawn anew several times a second."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, scene: Scene) -> None:
        self._live.update(draw(scene, self._live.console))


@contextmanager
def open_view() -> Iterator[View]:
    """A screen if there is a terminal to draw it on, else lines."""
    if not sys.stdout.isatty():
        yield LineView()
        return
    with Live(console=Console(), refresh_per_second=4, transient=True) as live:
        yield ScreenView(live)


def numbers(scene: Scene) -> str:
    """How far everything is, in one line."""
    records, ops = scene.segments.rates()
    counts = ", ".join(
        f"{one.noops} {one.done} ({one.rule})" for one in scene.acceptance.latencies() if one.done == "accepted"
    )
    return (
        f"published {scene.published} of {scene.records}, verified {scene.segments.counts['verified']}, rejected "
        f"{scene.segments.rejected}; {counts or '0 accepted'}; {records:.0f} segments/s, {ops:.0f} ops/s"
    )


def draw(scene: Scene, console: Console) -> Group:
    """The screen, as wide as the console and a line less high."""
    cell_width = CELL_WIDTH if console.width >= WIDE else CELL_WIDTH_NARROW
    lines = _matrix_lines(scene, cell_width)
    matrix = Panel(Text("\n").join(lines), title="noops that a row misses of a column", expand=False)
    width = max(line.cell_len for line in lines) + 4
    beside = Group(
        Panel(_pipeline(scene), title="pipeline", height=NUMBERS_HEIGHT),
        Panel(_acceptance(scene.acceptance), title="noops, and seconds it took", height=NUMBERS_HEIGHT),
    )
    top = Table.grid(expand=True)
    top.add_column(width=width)
    top.add_column(ratio=1)
    top.add_row(matrix, beside)
    height = console.height - 1 - max(len(lines) + 2, 2 * NUMBERS_HEIGHT)
    news = _newest(scene.news.items, console, max(height - 2, 1))
    return Group(top, Panel(news, title=f"what happens ({scene.elapsed_s:.0f} s)", height=max(height, 3)))


def _matrix_lines(scene: Scene, cell_width: int) -> list[Text]:
    if scene.matrix is None:
        return [Text("the first tick is not reported yet", "dim")]
    return [*matrix_lines(scene.matrix, scene.swarm, cell_width), *legend()]


def _plain_matrix(scene: Scene, matrix: Grid) -> Iterator[str]:
    margin = " " * 10
    yield f"{margin}noops that a row misses of a column, at {scene.story_s(matrix.tick_ms):.0f} s:"
    for line in [*matrix_lines(matrix, scene.swarm), *legend()]:
        yield margin + line.plain.rstrip()


def _pipeline(scene: Scene) -> Table:
    totals = scene.segments
    records, ops = totals.rates()
    table = Table.grid(padding=(0, 1))
    for label, value in (
        ("published", f"{scene.published} of {scene.records} segments"),
        ("verified", f"{totals.counts['verified']}, rejected {totals.rejected}"),
        ("a second", f"{records:.1f} segments, {ops:.0f} ops"),
        ("batch", f"{totals.batch_ms} ms, ticks {scene.ticks.batch_ms} ms"),
        ("liars", Text(", ".join(sorted(scene.liars)) or "none", "bold red" if scene.liars else "green")),
        ("split", _split_state(scene)),
    ):
        table.add_row(Text(label, style="dim"), value)
    return table


def _split_state(scene: Scene) -> Text:
    split = scene.split
    if split is None:
        return Text("no", "green")
    opened_s = scene.story_s(split.opened_ms)
    if split.ended_ms is None:
        return Text(f"{len(split.sides)} sides since {opened_s:.0f} s", "bold red")
    return Text(f"no more: {opened_s:.0f} s to {scene.story_s(split.ended_ms):.0f} s", "green")


def _acceptance(acceptance: Acceptance) -> Table:
    table = Table.grid(padding=(0, 1))
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(justify=justify, min_width=4)
    table.add_row("", "", "n", "p50", "p99", style="dim")
    for one in acceptance.latencies():
        done = Text(one.done, "dim")
        table.add_row(done, one.rule, str(one.noops), f"{one.p50_ms / 1000:.1f}", f"{one.p99_ms / 1000:.1f}")
    seen_after_ms = acceptance.seen_after_ms()
    if seen_after_ms is not None:
        table.add_row(Text("verdict", "dim"), "later", "", f"{seen_after_ms / 1000:.1f}", "")
    return table


def _newest(items: list[Item], console: Console, height: int) -> Table:
    """The newest items that have room, the newest last."""
    shown: list[tuple[Text, Text]] = []
    for item in reversed(items):
        at, text = Text(f"{item.at_s:5.1f} s  ", "dim"), Text(item.text, _STYLES[item.tone])
        height -= len(text.wrap(console, console.width - 4 - at.cell_len))
        if height < 0:
            break
        shown.append((at, text))
    table = Table.grid()
    for at, text in reversed(shown):
        table.add_row(at, text)
    return table
