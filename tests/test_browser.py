"""The pages in a real browser: at a desk and on a phone, light and dark, by keyboard, by screen reader, under attack.

Pictures of what was seen are kept in artifacts/screenshots.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from dashboards.board import Board
from dashboards.health import Health
from dashboards.site import Address, Request, Response, serving
from dashboards.web.pages import answer
from state.evidence import check_evidence
from state.verdict import BadUpdate
from tests.boardlab import board_of
from tests.browserlab import SCREENSHOTS, Browser, awaited, started_browser
from tests.pagelab import SPLIT_SECOND, health_of, lab_author, lab_board, lab_config, lab_report, story_board
from tests.verdictlab import CONFIG, replica, verdict, with_text

pytestmark = pytest.mark.programs

DESK, PHONE, SMALLEST = 1280, 360, 320
"""Widths. The last one is what a page must bear by WCAG, a desk at four times its size."""

LESS_CONTRAST_THAN = """
const light = (colour) => {
  const [red, green, blue] = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const ground = (element) => {
  const colour = getComputedStyle(element).backgroundColor;
  return colour === "rgba(0, 0, 0, 0)" ? ground(element.parentElement) : colour;
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
let seen = 0;
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim()) continue;
  const [dark, bright] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => a - b);
  const ratio = (bright + 0.05) / (dark + 0.05);
  seen += 1;
  if (ratio < arguments[0]) found.push(`${texts.currentNode.data.trim()}: ${ratio.toFixed(2)}`);
}
return [seen, found];
"""


class Stage:
    """A site whose board can be changed between tests."""

    def __init__(self) -> None:
        self.board, self.health = story_board("whole-story", SPLIT_SECOND)
        self.url = ""

    def show(self, board: Board, health: Health | None = None) -> None:
        self.board, self.health = board, health or health_of(board)

    def answer(self, request: Request) -> Response:
        return answer(request, self.board, self.health)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started_browser(tmp_path_factory.mktemp("downloads")) as started:
        yield started


@pytest.fixture
def stage() -> Iterator[Stage]:
    """The swarm of the whole story while it is split, unless a test shows something else."""
    stage = Stage()
    with serving(Address("127.0.0.1", 0), lambda _: stage.answer) as address:
        stage.url = address.url
        yield stage


def sideways_px(browser: Browser) -> int:
    """How far the page itself could be moved sideways."""
    return int(browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def check_picture(browser: Browser, name: str) -> None:
    """What holds for every page: it fits its width, nobody complained, and its text can be told from its ground."""
    assert sideways_px(browser) == 0
    seen, found = browser.run(LESS_CONTRAST_THAN, 4.5)
    assert seen > 10
    assert found == []
    browser.keep_picture(name)
    assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_split_swarm_fits_desk_and_phone_in_light_and_dark(
    browser: Browser, stage: Stage, width: int, scheme: str
) -> None:
    browser.open(stage.url, width=width, scheme=scheme)
    assert browser.driver.title.startswith("Critical: Swarm simulated is split into 2 sides")
    assert browser.run("return document.querySelectorAll('table.matrix tbody tr').length") == 10
    assert browser.run("return document.querySelectorAll('table.matrix td.parted').length") == 32
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(17, 21, 27)") == (scheme == "dark")
    check_picture(browser, f"split-{width}-{scheme}")
    assert (SCREENSHOTS / f"split-{width}-{scheme}.png").stat().st_size > 10_000


def test_on_the_smallest_screens_wide_tables_scroll_in_their_own_place(browser: Browser, stage: Stage) -> None:
    browser.open(stage.url, width=SMALLEST)
    assert sideways_px(browser) == 0
    matrix = "document.querySelector('.scroll:has(table.matrix)')"
    assert browser.run(f"return {matrix}.scrollWidth > {matrix}.clientWidth")
    name = f"{matrix}.querySelector('tbody th')"
    before = browser.run(f"return {name}.getBoundingClientRect().left")
    browser.run(f"{matrix}.scrollLeft = 60")
    assert browser.run(f"return {matrix}.scrollLeft") == 60
    assert browser.run(f"return {name}.getBoundingClientRect().left") == pytest.approx(before, abs=3), "stays in sight"


def test_the_evidence_is_downloaded_by_a_click_and_checks_out(browser: Browser, stage: Stage) -> None:
    browser.open(stage.url)
    browser.driver.find_element(By.LINK_TEXT, "Download the evidence about peer-5").click()
    path = browser.downloads / "evidence-simulated-peer-5.json"
    awaited(path.exists, "the download")
    assert check_evidence(path.read_bytes(), stage.board.config).peer == "peer-5"
    assert browser.driver.current_url == f"{stage.url}/"


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_hostile_text_is_shown_as_text_and_runs_nothing(browser: Browser, stage: Stage, width: int) -> None:
    attack = "<script>window.ran = 1</script>\"'><img src=x onerror=window.ran=2><a href=javascript:window.ran=3>x</a>"
    stage.show(lab_board(CONFIG, *with_text(attack), *with_text("W" * 3000), *with_text("\u202eright to left")))
    browser.open(stage.url, width=width)
    assert attack in browser.driver.find_element(By.TAG_NAME, "main").text
    assert browser.run("return [window.ran, document.scripts.length, document.images.length]") == [None, 0, 0]
    check_picture(browser, f"hostile-{width}")


def test_the_policy_lets_nothing_run_even_if_a_tag_got_in(browser: Browser, stage: Stage) -> None:
    browser.open(stage.url)
    tags = "<img src=x onerror='window.ran = 1'><p style='position: fixed'>x</p>"
    browser.run("document.body.insertAdjacentHTML('beforeend', arguments[0])", tags)
    browser.run("const s = document.createElement('script'); s.text = 'window.ran = 2'; document.body.append(s)")
    said = awaited(lambda: [one for one in browser.complaints() if "Content Security Policy" in one], "a violation")
    assert said
    assert browser.run("return [window.ran, getComputedStyle(document.querySelector('p:last-of-type')).position]") == [
        None,
        "static",
    ]


def pressed(browser: Browser, key: str) -> dict[str, Any]:
    """What has the focus after a key."""
    ActionChains(browser.driver, duration=0).send_keys(key).perform()
    focused: dict[str, Any] = browser.run(
        """const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
        const all = [...document.querySelectorAll('a, [tabindex="0"]')];
        return {place: all.indexOf(at), count: all.length, tag: at.tagName, id: at.id, text: at.textContent,
                ring: style.outlineStyle, inView: box.left >= 0 && box.top >= 0 && box.top < innerHeight}"""
    )
    return focused


def test_the_keyboard_reaches_everything_in_order_and_can_skip_the_navigation(browser: Browser, stage: Stage) -> None:
    browser.open(stage.url)
    first = pressed(browser, Keys.TAB)
    assert (first["text"], first["place"], first["inView"]) == ("Skip to the content", 0, True)
    for place in range(1, first["count"]):
        focused = pressed(browser, Keys.TAB)
        assert (focused["place"], focused["inView"]) == (place, True)
        assert focused["ring"] == "solid"
    browser.open(stage.url)
    pressed(browser, Keys.TAB)
    assert pressed(browser, Keys.ENTER)["id"] == "main"
    assert pressed(browser, Keys.TAB)["text"] == "Runbook: SplitBrain"


def told(nodes: list[dict[str, Any]], role: str) -> list[str]:
    """The names of all that a screen reader calls so."""
    return [node["name"]["value"] for node in nodes if node["role"]["value"] == role]


def test_a_screen_reader_finds_landmarks_headings_tables_and_links_by_name(browser: Browser, stage: Stage) -> None:
    browser.open(stage.url, width=PHONE)
    nodes = browser.accessible()
    assert [len(told(nodes, role)) for role in ("banner", "main", "contentinfo")] == [1, 1, 1]
    assert told(nodes, "navigation") == ["Pages"]
    headings = told(nodes, "heading")
    assert headings[:2] == ["Swarm simulated is split into 2 sides, and 2 more problems", "Exporter Well"]
    assert {"Acceptance", "Matrix", "Forks", "Open episodes"} <= set(headings)
    assert told(nodes, "region") == [headings[0], "Exporter Well", "Swarm simulated Critical"]
    tables = told(nodes, "table")
    assert len(tables) == 5
    assert all(tables)
    assert any(name.startswith("Segments that each observer (row) does not have") for name in tables)
    assert {"peer-5/a", "peer-2/b silent"} <= set(told(nodes, "columnheader")) & set(told(nodes, "rowheader"))
    links = told(nodes, "link")
    assert "Download the evidence about peer-2" in links
    assert all(links)
    addresses = browser.run("return [...document.links].map((link) => [link.textContent, link.href])")
    assert len({text for text, _ in addresses}) == len({tuple(pair) for pair in addresses}), "one name, one place"


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_healthy_swarm_and_a_large_one_fit_too(browser: Browser, stage: Stage, width: int) -> None:
    stage.show(*story_board("honest", 20))
    browser.open(stage.url, width=width)
    assert browser.driver.title == "All is well · quorumscope"
    check_picture(browser, f"well-{width}")
    config = lab_config(*(f"peer-{number}.of-a-large.swarm.example" for number in range(60)))
    names = list(config.swarms[0].epochs[0].roster)
    parted = {(names[number], names[number * 7 % 60]): number for number in range(1, 60)}
    stage.show(board_of(config, [lab_report(config, parted)]))
    browser.open(stage.url, width=width)
    assert "missed something of the author for longest" in browser.driver.find_element(By.TAG_NAME, "main").text
    check_picture(browser, f"large-{width}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_replicas_that_are_not_in_step_fit_desk_and_phone_in_light_and_dark(
    browser: Browser, stage: Stage, width: int, scheme: str
) -> None:
    attack = "<script>window.ran = 1</script>"
    told = [
        *(replica(f"in step {number}", "in_step") for number in range(30)),
        replica("ledger", "diverged", "digest", lacks=0, events=40),
        replica(attack, "diverged", "branch", lacks=4, events=900, since_ms=0),
        replica("W" * 64, "diverged", "clock", lacks=4_000_000, extra=2, events=60_000, by_clock=True),
        replica("\u202eright to left", "ahead", extra=2, lacks=0, author=lab_author("ann")),
        *(replica(f"page {number}", "behind", lacks=number + 1, events=99) for number in range(40)),
        verdict(BadUpdate, entity=attack.encode().hex(), why="digest", claimed="ab" * 32, expected="cd" * 32),
    ]
    stage.show(lab_board(CONFIG, *told))
    browser.open(stage.url, width=width, scheme=scheme)
    assert browser.driver.title.startswith("Critical: Swarm lab: replicas of bob do not have the events")
    assert f"the replica of '{attack}' at bob" in browser.driver.find_element(By.TAG_NAME, "main").text
    assert browser.run("return [window.ran, document.scripts.length]") == [None, 0]
    check_picture(browser, f"replicas-{width}-{scheme}")


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_runbook_is_one_click_away_and_fits(browser: Browser, stage: Stage, width: int) -> None:
    browser.open(stage.url, width=width)
    browser.driver.find_element(By.LINK_TEXT, "Runbook: ForkDetected").click()
    assert browser.driver.find_element(By.TAG_NAME, "h1").text == "ForkDetected"
    check_picture(browser, f"runbook-{width}")
    browser.driver.find_element(By.LINK_TEXT, "Runbooks").click()
    check_picture(browser, f"runbooks-{width}")


def test_scripts_get_the_same_state(browser: Browser, stage: Stage) -> None:
    browser.open(stage.url)
    headline = browser.driver.find_element(By.TAG_NAME, "h1").text
    browser.driver.find_element(By.LINK_TEXT, "status.json").click()
    text = browser.driver.find_element(By.TAG_NAME, "pre").text
    assert json.loads(text)["sentence"] == headline
