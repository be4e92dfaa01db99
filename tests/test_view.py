"""The demo's view: a screen that fits its terminal in each chapter, and plain lines where there is none."""

import io

import pytest
from rich.console import Console
from rich.live import Live

from streaming.view import LineView, ScreenView, draw, open_view
from tests.storylab import watched

CHAPTERS = (0.5, 6, 13, 28, 38, 47, 60)


def screen(second: float, width: int = 100, height: int = 35) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True, force_terminal=True)
    console.print(draw(watched("whole-story").scene_at(second), console))
    return console.export_text().splitlines()


@pytest.mark.parametrize("second", CHAPTERS)
@pytest.mark.parametrize(("width", "height"), [(100, 35), (80, 24), (160, 50)])
def test_the_screen_fits_its_terminal_in_each_chapter(second: float, width: int, height: int) -> None:
    lines = screen(second, width, height)
    assert len(lines) == height - 1
    assert {len(line) for line in lines} == {width}
    assert not any("…" in line for line in lines)


def test_the_screen_shows_matrix_numbers_latencies_and_news() -> None:
    text = "\n".join(screen(38))
    for shown in ("peer-5 a", "peer-8", "· has all", "accepted majority", "2 sides since", "the swarm is split"):
        assert shown in text


def test_the_newest_news_stay_when_there_is_no_room_for_all() -> None:
    text = "\n".join(screen(60, height=24))
    assert "peer-5 is silent" in text
    assert "everyone hears of everything" not in text


def test_before_the_first_tick_there_is_a_word_instead_of_the_matrix() -> None:
    assert "the first tick is not reported yet" in "\n".join(screen(0.5))


def test_on_a_terminal_the_screen_is_drawn_in_place_and_gone_at_the_end() -> None:
    drawn = io.StringIO()
    console = Console(width=100, height=35, file=drawn, force_terminal=True)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        ScreenView(live).show(watched("whole-story").scene_at(38))
        live.refresh()
    assert "the swarm is split" in drawn.getvalue()
    assert drawn.getvalue().count("\x1b[2K") >= 34


def test_without_a_terminal_the_view_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with open_view() as view:
        assert isinstance(view, LineView)


def test_plain_lines_tell_each_news_once_and_draw_the_matrix_in_each_chapter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = LineView()
    for second in range(61):
        view.show(watched("whole-story").scene_at(second))
    lines = capsys.readouterr().out.splitlines()
    assert sum("!! the swarm is split" in line for line in lines) == 1
    assert sum("-- the swarm was split" in line for line in lines) == 1
    drawn = [line for line in lines if "noops that a row misses" in line]
    assert 4 <= len(drawn) <= 6
    assert 12 <= sum("published 0 of 478" in line for line in lines) <= 13
    assert not any("\x1b" in line for line in lines)
