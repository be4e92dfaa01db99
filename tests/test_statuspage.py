"""What the status page says of swarms, and that no verdict can make it say it in markup of its own."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboards.board import NUMBER_MAX, Board
from dashboards.pairs import node_labels
from dashboards.replicas import LASTING_MS
from dashboards.spread import LATENCY_BOUNDS_S, Tally
from dashboards.web.acceptancetable import within_s
from dashboards.web.markup import plain
from dashboards.web.matrixtable import mark
from dashboards.web.problems import FACT_MS
from dashboards.web.tables import ROWS_MAX
from dashboards.web.timewords import ago, lasting, utc
from state.config import Config
from state.metric import Histogram
from state.verdict import (
    Accepted,
    BadIndex,
    BadUpdate,
    Belief,
    Believer,
    ClockSkew,
    Equivocation,
    Fork,
    Known,
    Limit,
    Missing,
    OneWay,
    Quarantine,
    Silent,
    Split,
    Undecidable,
    Verdict,
)
from state.words import entity_name
from tests.boardlab import board_of
from tests.pagelab import (
    NOW_MS,
    SPLIT_SECOND,
    Shown,
    health_of,
    lab_author,
    lab_board,
    lab_config,
    lab_report,
    shown,
    story_board,
    verdict_record,
)
from tests.storylab import watched
from tests.verdictlab import BOB, CONFIG, HOSTILE, replica, verdict, versions, with_text


def page_of(*verdicts: Verdict, config: Config = CONFIG, time_ms: int = NOW_MS) -> Shown:
    return shown("/", lab_board(config, *verdicts, time_ms=time_ms))


def headline(page: Shown) -> str:
    return page.text.split("·")[0].strip()


def test_a_swarm_in_which_nothing_is_wrong_is_well_at_the_top_and_in_the_title() -> None:
    page = page_of()
    assert headline(page) == "All is well"
    assert (
        "Nothing found of: forks, missing segments, wrong indexes, bad updates, clocks, limits, open episodes."
        in page.text
    )
    assert "Critical" not in page.text
    assert "Warning" not in page.text


def test_a_split_swarm_tells_the_worst_first_and_how_much_more_there_is() -> None:
    page = shown("/", *story_board("whole-story", SPLIT_SECOND))
    assert headline(page) == "Critical: Swarm simulated is split into 2 sides, and 2 more problems"
    problems = [page.text.index(text) for text in ("Runbook: SplitBrain", "Runbook: ForkDetected", "is silent since")]
    assert problems == sorted(problems)
    assert "7 of 8 active" in page.text
    assert "peer-2 and peer-5 each signed two versions of one log since 2026-01-01 00:00:09 UTC" in page.text


def test_after_healing_the_split_is_told_as_over_with_how_long_it_lasted() -> None:
    page = shown("/", *story_board("whole-story"))
    assert "is split" not in page.text
    ended = page.text[page.text.index("Ended episodes") :]
    assert "main side (3): peer-6, peer-7 and peer-8 side 2 (3): peer-1, peer-3 and peer-4" in ended
    assert "between them: peer-5 (forked)" in ended
    (split,) = [found for found in watched("whole-story").verdicts if isinstance(found, Split)]
    assert split.ended_ms is not None
    assert f"{utc(split.opened_ms)} {utc(split.ended_ms)} {lasting(split.ended_ms - split.opened_ms)}" in ended


def test_the_matrix_is_a_table_whose_cells_are_what_each_observer_misses() -> None:
    board, health = story_board("whole-story", SPLIT_SECOND)
    page = shown("/", board, health)
    (watch,) = board.watches.values()
    assert watch.grid is not None
    assert [one.get("class") for one in page.of("table")].count("matrix") == 1
    names = ["peer-1", "peer-2/a", "peer-2/b", "peer-3", "peer-4", "peer-5/a", "peer-5/b", "peer-6", "peer-7", "peer-8"]
    labels = node_labels(watch.grid, watch.names)
    rows = page.table("Observer", "peer-5/a")
    assert [row[0].removesuffix(" silent") for row in rows] == names
    for observer, row in zip(names, rows, strict=True):
        lags = [int(text.rstrip("!")) if text != "╲" else 0 for text in row[1:]]
        assert lags == [watch.grid.lags[labels.index(observer), labels.index(author)] for author in names]
    sides = ({"peer-1", "peer-3", "peer-4", "peer-5/a"}, {"peer-6", "peer-7", "peer-8", "peer-5/b"})
    for row, observer in zip(rows, names, strict=True):
        for text, author in zip(row[1:], names, strict=True):
            across = any(observer in one and author in other for one, other in (sides, sides[::-1]))
            assert text.endswith("!") == across, (observer, author)


def test_marks_tell_without_colour_what_is_late_and_what_is_parted() -> None:
    assert mark(0, fresh=True, late=False) == "0"
    assert mark(3, fresh=True, late=True) == "3*"
    assert mark(16, fresh=False, late=True) == "16!"
    assert mark(255, fresh=False, late=True) == "255+!"


def test_a_large_roster_has_the_worst_pairs_and_no_grid() -> None:
    names = [f"p{number}" for number in range(40)]
    config = lab_config(*names)
    board = board_of(config, [lab_report(config, {("p1", "p2"): 7, ("p3", "p39"): 9}, silent=["p39"])])
    page = shown("/", board)
    assert not any(one.get("class") == "matrix" for one in page.of("table"))
    assert page.table("Observer", "Author") == [["p1", "p2", "7!", "6 seconds"]], "without what silent peers miss"


def test_forks_tell_the_peer_the_index_the_branches_and_who_holds_which() -> None:
    page = shown("/", *story_board("whole-story", SPLIT_SECOND))
    forks = page.text[page.text.index("peer-5 signed two different segments with index 25") :]
    _, rows = [table[1:] for table in page.tables if "Held by" in table[0]]
    assert [row[:2] for row in rows] == [["peer-5/a", "25"], ["peer-5/b", "25"]]
    assert {row[4] for row in rows} == {"peer-1, peer-3 and peer-4", "peer-6, peer-7 and peer-8"}
    assert {row[3] for row in rows} == {"2026-01-01 00:00:24 UTC"}
    assert "quorumscope verify evidence-simulated-peer-5.json --swarms swarms.yaml" in forks
    assert {"class": "button", "href": "/evidence/simulated/peer-5"} in page.of("a")


def test_many_believers_are_counted_and_all_of_them_are_everyone_else() -> None:
    names = [f"p{number:02}" for number in range(12)]
    config = lab_config(*names)
    fork = verdict(Fork, "fork", author=lab_author("p00"), branches=versions("aa", "bb"))
    believers = [Believer(lab_author(name), NOW_MS) for name in names]
    some = verdict(Belief, "aa", author=lab_author("p00"), branch="aa", believers=tuple(believers[:10]))
    everyone = verdict(Belief, "bb", author=lab_author("p00"), branch="bb", believers=tuple(believers))
    text = page_of(fork, some, everyone, config=config).text
    assert "p01, p02, p03, p04, p05, p06, p07, p08 and 1 more" in text
    assert "everyone else (11)" in text


PROBLEMS = ("whole-story", "ref-to-nothing", "hostile-input", "diverging-replicas")
EXPECTED: list[tuple[Verdict, str]] = [
    (verdict(Fork), "bob forked its log"),
    (verdict(Equivocation, index=7), "bob signed two different segments with index 7"),
    (verdict(Missing, index=9, id="ab" * 32), "segment 9 (abababababab) of bob, named by , is missing"),
    (verdict(BadIndex, index=9), "bob signed index 9 right after index 1 (segment cc)"),
    (verdict(ClockSkew), "the clock of bob is 400 s ahead"),
    (verdict(Limit, limit="branches", maximum=64), "bob went over the limit of 64 branches"),
    (verdict(Quarantine, fold="logs", error="ZeroDivisionError"), "the fold logs failed on key 00: ZeroDivisionError"),
    (verdict(Split, sides=((BOB,), (lab_author("ann"),))), "main side (1): bob side 2 (1): ann"),
    (
        verdict(BadUpdate, why="digest", index=9, position=2, claimed="aa", expected="bb"),
        "segment 9 of bob, an update of 'menu', has a digest that does not follow from what it builds on: aa, expected",
    ),
    (
        replica("menu", "diverged", "digest", lacks=2, events=7),
        "the replica of 'menu' at bob has diverged: it does not have the events that it says it has (lacks 2 of 7",
    ),
    (replica("menu", "behind", lacks=2, events=7), "the replica of 'menu' at bob is behind by 2 of 7 events"),
    (verdict(Silent), "bob is silent"),
    (verdict(OneWay), "bob hears the others and is not heard"),
    (verdict(Undecidable), "cannot be told: its peers sign every 400 s"),
    (verdict(Known), "known to majority 3 of 4 – 1 ≤ 10 s ≤ 10 s 50 seconds ago"),
    (verdict(Accepted), "accepted by majority 3 of 4 1 1 ≤ 10 s ≤ 10 s 50 seconds ago"),
]


@pytest.mark.parametrize(("found", "text"), EXPECTED, ids=[type(found).__name__ for found, _ in EXPECTED])
def test_every_kind_of_verdict_is_told(found: Verdict, text: str) -> None:
    page = page_of(found)
    assert text in page.text
    assert (headline(page) == "All is well") == (
        isinstance(found, Known | Accepted | ClockSkew) or getattr(found, "state", "") == "behind"
    )


def test_a_fact_is_a_problem_for_a_day_and_then_a_note() -> None:
    facts = [verdict(Equivocation), verdict(Limit), verdict(BadIndex), verdict(BadUpdate, "bad"), verdict(ClockSkew)]
    board = lab_board(CONFIG, *facts, time_ms=NOW_MS - FACT_MS + 1)
    assert headline(shown("/", board)) == "Critical: Swarm lab: bob signed two versions of one log, and 3 more problems"
    page = page_of(*facts, time_ms=NOW_MS - FACT_MS)
    assert headline(page) == "All is well"
    assert page.text.count("Note Swarm lab: bob") == 4
    assert "the clock of bob is 400 s ahead" in page.text


def test_replicas_are_counted_and_those_that_are_not_in_step_are_told_the_worst_first() -> None:
    ann = lab_author("ann")
    page = page_of(
        replica("menu", "in_step"),
        replica("board", "behind", lacks=3, events=9),
        replica("vault", "ahead", extra=2, lacks=0, author=ann),
        replica("draft", "diverged", "branch", lacks=4, events=9, author=ann),
        replica("ledger", "diverged", "digest", lacks=0, events=9),
    )
    assert "Entities 5 In step 1 Behind 1 Ahead 1 Diverged 2" in page.text
    rows = [row[:2] for row in page.table("Peer", "What was found", "Since")]
    assert [peer for peer, _ in rows] == ["bob", "ann", "ann", "bob"]
    assert [what.split("'")[1] for _, what in rows] == ["ledger", "draft", "vault", "board"]
    assert {attributes["href"] for attributes in page.of("a")} >= {"/runbooks/ReplicaDiverged"}


def test_a_swarm_that_shares_no_entities_has_no_section_of_replicas() -> None:
    assert "Replicas" not in page_of().text


def test_a_divergence_is_a_problem_when_it_has_lasted_and_a_contradiction_at_once() -> None:
    tick_ms = NOW_MS - 1000
    young = replica("menu", "diverged", "branch", since_ms=tick_ms - LASTING_MS + 1)
    lasting_one = replica("draft", "diverged", "clock", since_ms=tick_ms - LASTING_MS, author=lab_author("ann"))
    contradicted = replica("ledger", "diverged", "digest", since_ms=NOW_MS)
    assert headline(page_of(young, replica("board", "behind", since_ms=0))) == "All is well"
    assert headline(page_of(young, lasting_one)) == "Warning: Swarm lab: replicas of ann have diverged from the others"
    page = page_of(young, lasting_one, contradicted)
    assert headline(page) == (
        "Critical: Swarm lab: replicas of bob do not have the events that they say they have, and 1 more problem"
    )
    assert f"replicas of ann have diverged from the others since {utc(tick_ms - LASTING_MS)}" in page.text


def test_a_peer_with_too_many_entities_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.replicas.PLACES_MAX", 4)
    page = page_of(replica("menu"), replica("draft"))
    assert "Not all entities of bob are looked at: there are too many." in page.text
    assert "Not all entities" not in page_of(replica("menu")).text


def test_long_lists_of_replicas_are_cut_and_the_rest_is_counted() -> None:
    page = page_of(*(replica(f"entity {number}") for number in range(100)))
    assert page.text.count("is behind by") == ROWS_MAX
    assert "… and 80 more" in page.text


@given(st.binary(min_size=1, max_size=64))
def test_an_entity_may_have_any_bytes_for_a_name(name: bytes) -> None:
    one = replica("menu", "diverged", "branch")
    named = msgspec.structs.replace(one, entity=name.hex(), key=one.key.replace(one.entity, name.hex()))
    page = page_of(named)
    assert page.tags == page_of(one).tags
    assert page.strays == []
    assert " ".join(f"the replica of {entity_name(name.hex())} at bob".split()) in page.text


def test_a_liar_that_has_left_the_roster_is_told_and_is_no_problem() -> None:
    (swarm,) = CONFIG.swarms
    (epoch,) = swarm.epochs
    without = msgspec.structs.replace(
        epoch, start=epoch.start.replace(year=2021), roster={n: k for n, k in epoch.roster.items() if k != BOB}
    )
    config = Config((msgspec.structs.replace(swarm, epochs=(epoch, without)),))
    page = page_of(verdict(Equivocation), config=config)
    assert headline(page) == "All is well"
    assert "bob signed two different segments with index 1 Its key is not in the roster now." in page.text


def test_a_swarm_of_which_nothing_new_is_heard_is_not_well() -> None:
    board = lab_board(CONFIG)
    assert headline(shown("/", board, health_of(board, NOW_MS + 50_000))) == "All is well"
    late = headline(shown("/", board, health_of(board, NOW_MS + 120_000)))
    assert late.startswith("Warning: Swarm lab: nothing new for 2 minutes 1 second, because nobody publishes")
    never = shown("/", Board(CONFIG))
    assert headline(never) == "Warning: Swarm lab: nothing has been reported yet"
    assert "No tick has been reported yet" in never.text


def test_an_exporter_that_is_not_ready_says_that_the_page_may_be_old() -> None:
    board = lab_board(CONFIG)
    page = shown("/", board, health_of(board, caught_up=False))
    assert headline(page) == "Warning: What is shown may be incomplete or old: reading the topics"
    assert "Exporter Warning State reading the topics" in page.text


def test_records_that_were_skipped_are_counted() -> None:
    board = lab_board(CONFIG, verdict(Limit))
    bad = verdict_record(verdict(Limit))._replace(value=b"<script>")
    board.absorb([bad, bad])
    assert "Skipped 2 unreadable" in shown("/", board).text


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    missing = [verdict(Missing, f"missing/{number}", index=number) for number in range(100)]
    page = page_of(*missing)
    assert "100 segments of bob, on which others build, are missing" in page.text
    assert page.text.count("is missing") == ROWS_MAX
    assert "… and 80 more" in page.text


def test_several_swarms_have_each_a_section_and_a_link_to_it() -> None:
    (swarm,) = CONFIG.swarms
    config = Config((swarm, msgspec.structs.replace(swarm, id="6b" * 32, name="other.lab")))
    page = shown("/", board_of(config, [lab_report(CONFIG, {})]))
    assert [one["href"] for one in page.of("a") if str(one["href"]).startswith("#swarm")] == [
        "#swarm-lab",
        "#swarm-other.lab",
    ]
    assert [one["id"] for one in page.of("section") if "id" in one] == ["swarm-lab", "swarm-other.lab"]
    assert headline(page) == "Warning: Swarm other.lab: nothing has been reported yet"


def test_the_page_loads_anew_only_if_asked_and_offers_to_stop() -> None:
    board = lab_board(CONFIG)
    asked, plain_page = shown("/", board, refresh="5"), shown("/", board)
    assert {"http-equiv": "refresh", "content": "5"} in asked.of("meta")
    assert {"href": "/"} in asked.of("a")
    for page in (plain_page, shown("/", board, refresh="0"), shown("/", board, refresh="5;url=//evil")):
        assert not any("http-equiv" in one for one in page.of("meta"))
        assert {"href": "/?refresh=5"} in page.of("a")


@pytest.mark.parametrize("name", [*PROBLEMS, "rare-noops", "epochs", "honest"])
def test_pages_of_stories_are_sound_html_that_screen_readers_can_follow(name: str) -> None:
    page = shown("/", *story_board(name))
    assert page.strays == []
    assert page.of("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.tags if tag in {"h1", "h2", "h3", "h4"}]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))
    assert [tag for tag, _ in page.tags if tag in {"header", "main", "footer"}] == ["header", "main", "footer"]
    assert all(one["scope"] in {"row", "col"} for one in page.of("th"))
    assert len(page.of("caption")) == len(page.of("table"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    attributes = {name for _, attributes in page.tags for name in attributes}
    assert not attributes & {"style", "onclick", "onload"}
    assert "script" not in {tag for tag, _ in page.tags}


PLAIN = page_of(*with_text("x"))


@settings(deadline=None)
@given(HOSTILE)
def test_no_text_of_a_verdict_becomes_a_tag_or_an_attribute(text: str) -> None:
    page = page_of(*with_text(text))
    assert page.tags == PLAIN.tags
    assert page.strays == []
    assert " ".join(plain(text).split()) in page.text or len(text) > 300


@settings(deadline=None, max_examples=50)
@given(st.integers(-NUMBER_MAX, NUMBER_MAX), st.integers(-NUMBER_MAX, NUMBER_MAX))
def test_every_time_and_duration_has_words(time_ms: int, now_ms: int) -> None:
    assert utc(time_ms).endswith((" UTC", " ms since 1970"))
    assert ago(time_ms, now_ms).endswith((" ago", " ahead of this clock"))
    episodes = [
        verdict(Silent, since_ms=time_ms, opened_ms=time_ms, ended_ms=now_ms),
        verdict(Split, "split", last_contact_ms=time_ms, opened_ms=now_ms),
        verdict(Undecidable, "undecidable", opened_ms=time_ms, interval_ms=time_ms),
        verdict(Missing, "missing", since_ms=time_ms, index=now_ms),
        verdict(ClockSkew, "skew", ahead_ms=time_ms, behind_ms=now_ms),
        verdict(Known, "known", published_ms=time_ms, known_ms=now_ms),
        replica("menu", "diverged", "branch", since_ms=time_ms),
    ]
    board = lab_board(CONFIG, *episodes)
    assert shown("/", board, health_of(board, now_ms)).strays == []


@given(st.lists(st.floats(0, 1000), max_size=50), st.sampled_from([50, 99]))
def test_a_percentile_is_the_least_bound_that_so_many_are_within(latencies: list[float], percent: int) -> None:
    histogram = Histogram(LATENCY_BOUNDS_S, with_total=False)
    for latency in latencies:
        histogram.observe(latency)
    bound = within_s(Tally("majority", len(latencies), histogram.distribution(), 0), percent)
    if not latencies:
        assert bound is None
        return
    assert bound is not None
    assert 100 * sum(latency <= bound for latency in latencies) >= percent * len(latencies)
    less = max((other for other in LATENCY_BOUNDS_S if other < bound), default=-1.0)
    assert 100 * sum(latency <= less for latency in latencies) < percent * len(latencies)
