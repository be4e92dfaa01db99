"""What the exporter answers at which address: pages, runbooks, evidence, the state for scripts, and nothing else."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.board import Board
from dashboards.web import pages
from dashboards.web.problems import KINDS
from dashboards.web.runbookpages import render_markdown, runbook_names
from dashboards.web.snapshot import Snapshot
from state.config import Config
from state.evidence import check_evidence, find_evidence
from state.verdict import Equivocation, Fork
from tests.boardlab import board_of, large_report, large_swarm
from tests.pagelab import NOW_MS, SPLIT_SECOND, Shown, get, health_of, lab_board, shown, story_board, verdict_record
from tests.storylab import watched
from tests.verdictlab import BOB, CONFIG, replica, verdict, with_text

ROOT = Path(__file__).parent.parent


def text_of(path: str, board: Board, status: int) -> str:
    """A plain sentence that is answered."""
    response = get(path, board)
    assert (response.status, response.content_type) == (status, "text/plain; charset=utf-8")
    return response.body.decode().strip()


@pytest.mark.parametrize(
    "path",
    [
        *("/nothing", "/status", "/style.css/", "/pages.py", "//", "", "/evidence", "/evidence/lab"),
        *("/runbooks/Nothing", "/runbooks/README", "/runbooks/../../README", "/runbooks/..", "/runbooks/%2e%2e"),
        *("/runbooks/ForkDetected/", "/runbooks/ForkDetected.md", "/../style.css", "/evidence/lab/bob/more"),
    ],
)
def test_what_is_not_there_is_not_found(path: str) -> None:
    assert text_of(path, lab_board(CONFIG), 404) == "There is no such page."


@given(st.text(max_size=30))
def test_no_path_makes_the_pages_fail(path: str) -> None:
    board = lab_board(CONFIG)
    for prefix in ("", "/", "/runbooks/", "/evidence/", "/evidence/lab/"):
        assert get(prefix + path, board).status in {200, 404}


@pytest.mark.parametrize("peer", ["peer-2", "peer-5"])
def test_the_evidence_against_a_liar_is_a_file_that_checks_out(peer: str) -> None:
    board, _ = story_board("whole-story")
    response = get(f"/evidence/simulated/{peer}", board)
    assert response.headers == (("Content-Disposition", f'attachment; filename="evidence-simulated-{peer}.json"'),)
    proved = check_evidence(response.body, board.config)
    assert (proved.swarm.name, proved.peer) == ("simulated", peer)
    assert response.body == find_evidence(watched("whole-story").verdicts, proved.author.hex()), (
        "what the command gives"
    )


def test_a_fork_alone_is_evidence_too() -> None:
    config = watched("whole-story").simulation.config
    forks = [found for found in watched("whole-story").verdicts if isinstance(found, Fork)]
    board = board_of(config, list(map(verdict_record, forks)))
    assert check_evidence(get("/evidence/simulated/peer-2", board).body, config).peer == "peer-2"
    assert "peer-2 forked its log" in shown("/", board).text


def test_without_a_fork_there_is_a_sentence_instead_of_evidence() -> None:
    board, _ = story_board("whole-story")
    text = text_of("/evidence/simulated/peer-1", board, 404)
    assert text == "There is no evidence against peer-1: no fork of its log has been found."
    for path in ("/evidence/simulated/nobody", "/evidence/nowhere/peer-1", "/evidence//"):
        assert text_of(path, board, 404) == "There is no such peer in the configuration."


def test_a_verdict_that_proves_nothing_is_not_given_as_evidence() -> None:
    board = lab_board(CONFIG, *with_text("<b>"))
    assert text_of("/evidence/lab/bob", board, 404).endswith("what its verdicts hold proves nothing.")
    config = watched("whole-story").simulation.config
    (real, _) = [found for found in watched("whole-story").verdicts if isinstance(found, Equivocation)]
    (other,) = [author.hex() for author, name in config.swarms[0].authors.items() if name == "peer-1"]
    board = board_of(config, [verdict_record(msgspec.structs.replace(real, author=other))])
    assert get("/evidence/simulated/peer-1", board).status == 404, "the heads are those of another peer"


def test_a_key_whose_name_has_a_newer_key_has_its_evidence_under_its_digits() -> None:
    run = watched("whole-story")
    (swarm,) = run.simulation.config.swarms
    (epoch,) = swarm.epochs
    newer = msgspec.structs.replace(
        epoch,
        start=epoch.start.replace(hour=1),
        roster=epoch.roster | {"peer-2": CONFIG.swarms[0].epochs[0].roster["bob"]},
    )
    config = Config((msgspec.structs.replace(swarm, epochs=(epoch, newer)),))
    board = board_of(config, [verdict_record(found) for found in run.verdicts if isinstance(found, Equivocation)])
    old = epoch.roster["peer-2"]
    assert {"class": "button", "href": f"/evidence/simulated/{old}"} in shown("/", board).of("a")
    assert check_evidence(get(f"/evidence/simulated/{old}", board).body, config).author.hex() == old
    assert get("/evidence/simulated/peer-2", board).status == 404


@pytest.mark.parametrize("second", [5, SPLIT_SECOND, 1000])
def test_every_link_of_the_status_page_leads_somewhere(second: float) -> None:
    board, health = story_board("whole-story", second)
    page = shown("/", board, health)
    links = {str(one["href"]) for one in [*page.of("a"), *page.of("link")]}
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert "#main" in links
    for link in links - {"/metrics"}:
        assert link[1:] in ids if link.startswith("#") else get(link.split("?", maxsplit=1)[0], board).status == 200, (
            link
        )


def test_every_kind_of_problem_has_a_runbook() -> None:
    assert {kind.runbook for kind in KINDS.values()} <= set(runbook_names())


def test_runbooks_are_all_those_of_the_folder_and_the_index_leads_to_each() -> None:
    names = runbook_names()
    assert names == sorted(path.stem for path in (ROOT / "docs/runbooks").glob("*.md") if path.stem != "README")
    board = lab_board(CONFIG)
    for path in ("/runbooks/", "/runbooks"):
        assert {f"/runbooks/{name}" for name in names} <= {one["href"] for one in shown(path, board).of("a")}


@pytest.mark.parametrize("name", runbook_names())
def test_a_runbook_is_a_sound_page_whose_links_lead_somewhere(name: str) -> None:
    board = lab_board(CONFIG)
    page = shown(f"/runbooks/{name}", board)
    assert page.strays == []
    assert page.text.startswith(f"Runbook {name} · quorumscope")
    levels = [int(tag[1]) for tag, _ in page.tags if tag in {"h1", "h2", "h3"}]
    assert levels.count(1) == 1
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))
    assert not any("style" in attributes for _, attributes in page.tags)
    for link in (str(one["href"]) for one in page.of("a")):
        assert link in {"/metrics", "#main"} or link.startswith("http") or get(link.split("#")[0], board).status == 200


def test_markdown_has_no_markup_of_its_own_and_links_that_work_here() -> None:
    page = Shown(
        render_markdown(
            "# Title & more\n\n<script>alert(1)</script> [evil](javascript:alert(1)) [data](data:text/html,x)\n\n"
            "[other](Other.md#what-to-do) [list](README.md) [file](../acceptance.md) [out](https://example.org/x)\n\n"
            "| a | b |\n|---|---:|\n| `<i>` | 2 |\n\n```\n<b>code</b> & more\n```\n![picture](x.png)\n"
        ).encode()
    )
    assert page.strays == []
    assert [one["href"] for one in page.of("a")] == [
        "/runbooks/Other#what-to-do",
        "/runbooks/",
        "https://example.org/x",
    ]
    table_tags = {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _ in page.tags} == {"h1", "p", "a", "code", "pre"} | table_tags
    assert page.of("h1") == [{"id": "title-more"}]
    assert page.of("td") == [{}, {"class": "number"}]
    assert page.of("pre") == [{"tabindex": "0"}]
    assert all(text in page.text for text in ("<script>alert(1)</script>", "<b>code</b> & more", "file", "<i>"))


def test_the_state_for_scripts_says_what_the_page_says() -> None:
    board, health = story_board("whole-story", SPLIT_SECOND)
    response = get("/status.json", board, health)
    assert response.content_type == "application/json"
    state: dict[str, Any] = json.loads(response.body)
    assert state["state"] == "critical"
    assert f"Critical: {state['sentence']} · quorumscope" in shown("/", board, health).text
    assert [(one["severity"], one["kind"], one["peers"]) for one in state["problems"]] == [
        ("critical", "split", []),
        ("critical", "fork", ["peer-2", "peer-5"]),
        ("warning", "silent", ["peer-2"]),
    ]
    assert [one["runbook"] for one in state["problems"]] == [
        "/runbooks/SplitBrain",
        "/runbooks/ForkDetected",
        "/runbooks/PeerSilent",
    ]
    (swarm,) = state["swarms"]
    assert (swarm["name"], swarm["peers"], swarm["active"], swarm["silent"], swarm["sides"]) == (
        *("simulated", 8, 7),
        *(["peer-2"], 2),
    )
    assert [one["rule"] for one in swarm["rules"]] == ["majority", "everyone"]
    assert swarm["rules"][0]["accepted"] > 100
    assert [(one["peer"], one["index"], one["evidence"]) for one in swarm["forked"]] == [
        ("peer-2", 10, "/evidence/simulated/peer-2"),
        ("peer-5", 25, "/evidence/simulated/peer-5"),
    ]
    assert state["exporter"]["ready"] is True


def test_the_state_for_scripts_is_well_where_nothing_is_wrong() -> None:
    board = lab_board(CONFIG)
    state = json.loads(get("/status.json", board).body)
    assert (state["state"], state["sentence"], state["problems"]) == ("well", "All is well", [])
    assert state["time_ms"] == NOW_MS
    (swarm,) = state["swarms"]
    none = dict.fromkeys(("entities", "in_step", "behind", "ahead", "diverged", "contradicted"), 0)
    assert swarm["replicas"] == none | {"worst": []}
    never = json.loads(get("/status.json", Board(CONFIG)).body)
    assert never["swarms"][0]["tick_ms"] is None
    assert never["swarms"][0]["rules"][0]["accepted_p99_s"] is None


def test_the_state_for_scripts_has_the_replicas_that_are_not_in_step() -> None:
    board = lab_board(
        CONFIG,
        replica("menu", "diverged", "digest", lacks=2, events=9, index=4, position=1, since_ms=NOW_MS - 5),
        replica("draft", "in_step"),
        replica("draft", "behind", author=CONFIG.swarms[0].epochs[0].roster["ann"]),
    )
    (swarm,) = json.loads(get("/status.json", board).body)["swarms"]
    counts = {name: count for name, count in swarm["replicas"].items() if name != "worst"}
    assert counts == {"entities": 2, "in_step": 1, "behind": 1, "ahead": 0, "diverged": 1, "contradicted": 1}
    worst, other = swarm["replicas"]["worst"]
    assert worst == {
        "peer": "bob",
        "entity": b"menu".hex(),
        "state": "diverged",
        "why": "digest",
        "events": 9,
        "lacks": 2,
        "extra": 0,
        "segment": "cc" * 32,
        "index": 4,
        "position": 1,
        "since_ms": NOW_MS - 5,
        "sentence": "the replica of 'menu' at bob has diverged: it does not have the events that it says it has "
        "(lacks 2 of 9 events)",
    }
    assert (other["peer"], other["state"]) == ("ann", "behind")


def test_pages_are_made_without_holding_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    board = lab_board(CONFIG)
    held = []

    def status_page(snapshot: Snapshot, *, refreshing: bool) -> bytes:
        held.append(board.lock.locked())
        return b""

    monkeypatch.setattr(pages, "status_page", status_page)
    get("/", board)
    assert held == [False]


def test_what_comes_later_does_not_change_a_page_that_is_being_made() -> None:
    board = lab_board(CONFIG)
    snapshot = pages.take_snapshot(board, health_of(board))
    before = pages.status_page(snapshot, refreshing=False)
    told = [verdict(Equivocation), verdict(Fork, "fork"), replica("menu", "diverged", "branch"), replica("draft")]
    board.absorb(map(verdict_record, told))
    assert pages.status_page(snapshot, refreshing=False) == before
    assert BOB in {one.verdict.author for one in pages.take_snapshot(board, health_of(board)).swarms[0].of(Fork)}


def test_the_page_of_a_thousand_peers_is_small() -> None:
    config = large_swarm(1000)
    board = board_of(config, [large_report(config, NOW_MS)])
    body = get("/", board).body
    assert len(body) < 30_000
    assert b"1,000 of 1,000 active" in body


def test_style_and_icon_are_served() -> None:
    board = lab_board(CONFIG)
    assert get("/style.css", board).content_type == "text/css; charset=utf-8"
    assert get("/icon.svg", board).content_type == "image/svg+xml"
    assert b"prefers-color-scheme: dark" in get("/style.css", board).body
    assert b"url(" not in get("/style.css", board).body
