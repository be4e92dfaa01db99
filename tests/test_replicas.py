"""How the exporter keeps replicas: joined by the core, withdrawn by a tombstone, counted by state, each peer its part.

And updates that cannot be right, of which each reason is counted by itself.
"""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards import replicas
from dashboards.board import Board, Record
from dashboards.findings import KEPT_MAX, WHYS
from dashboards.replicas import STATES, Standings
from dashboards.watch import OTHER
from state.config import Config
from state.fold import Topic
from state.limits import ENTITY_BYTES_MAX
from state.verdict import BadUpdate, Replica, Verdict, encode_verdict, join
from tests.boardlab import board_of, compacted, counters, records_of, samples_of
from tests.pagelab import NOW_MS, lab_author, verdict_record
from tests.simlab import simulated
from tests.verdictlab import BOB, CONFIG, replica, verdict

ANN = lab_author("ann")
STRANGER = "ab" * 32
STORY = "diverging-replicas"


def board_with(*verdicts: Verdict) -> Board:
    return board_of(CONFIG, [verdict_record(one) for one in verdicts])


def standings(board: Board, worst_max: int = 20) -> Standings:
    (watch,) = board.watches.values()
    return watch.replicas.standings(watch.peers, worst_max)


def values(board: Board, metric: str) -> dict[tuple[str, ...], Any]:
    """The samples of a metric, by their labels without the swarm."""
    return {labels[1:]: value for (name, labels), value in samples_of(board).items() if name == metric}


def tombstone(one: Verdict) -> Record:
    return verdict_record(one)._replace(value=None)


def test_replicas_are_counted_by_state_and_peer() -> None:
    board = board_with(
        replica("menu", "in_step"),
        replica("board", "behind", lacks=3),
        replica("draft", "behind", lacks=8),
        replica("vault", "ahead", extra=2, lacks=0),
        replica("menu", "diverged", "branch", author=ANN, lacks=5, since_ms=NOW_MS - 4000),
        replica("draft", "diverged", "clock", author=ANN, lacks=1, since_ms=NOW_MS - 9000),
        replica("ledger", "diverged", "digest", author=ANN, lacks=0, since_ms=NOW_MS - 99_000),
    )
    counts = values(board, "replicas")
    assert {state: counts["bob", state] for state in STATES} == {"in_step": 1, "behind": 2, "ahead": 1, "diverged": 0}
    assert {state: counts["ann", state] for state in STATES} == {"in_step": 0, "behind": 0, "ahead": 0, "diverged": 3}
    assert {state: counts["cleo", state] for state in STATES} == dict.fromkeys(STATES, 0), "a peer that said nothing"
    assert values(board, "entities") == {(): 5}
    assert values(board, "replica_lacks_events_max") == {("ann",): 5, ("bob",): 8, ("cleo",): 0, ("dora",): 0}
    assert values(board, "replicas_contradicted") == {("ann",): 1, ("bob",): 0, ("cleo",): 0, ("dora",): 0}
    since = values(board, "replica_diverged_since_timestamp_seconds")
    assert since == {("ann",): (NOW_MS - 9000) / 1000}, "a contradiction is none that lasts"


def test_a_swarm_that_shares_no_entities_has_no_series_of_replicas() -> None:
    samples = {name for name, _ in samples_of(board_with(verdict(BadUpdate, why="stamp")))}
    assert {"entities", "bad_updates_total"} <= samples
    assert not {"replicas", "replicas_contradicted", "replica_lacks_events_max"} & samples


def test_the_worst_come_first_and_only_so_many() -> None:
    worst_first = [
        replica("e", "diverged", "digest", since_ms=NOW_MS - 1),
        replica("d", "diverged", "branch", since_ms=NOW_MS - 500),
        replica("c", "diverged", "clock", since_ms=NOW_MS - 400),
        replica("b", "ahead", since_ms=NOW_MS - 900),
        replica("a", "behind", since_ms=NOW_MS - 800),
        replica("b", "behind", author=ANN, since_ms=NOW_MS - 700),
    ]
    board = board_with(*reversed(worst_first), replica("f", "in_step"))
    found = [(one.author, one.entity) for one in standings(board).worst]
    assert found == [(one.author, one.entity) for one in worst_first]
    assert len(standings(board, 2).worst) == 2
    assert standings(board, 2).apart == 6
    assert standings(board, 2).replicas == 7


def test_of_two_verdicts_about_a_replica_the_one_that_knows_more_stands_in_any_order() -> None:
    old = replica("menu", "diverged", "digest", events=3, index=7)
    new = replica("menu", "in_step", events=4, index=8)
    for verdicts in ([old, new], [new, old], [old, new, new, old]):
        board = board_with(*verdicts)
        assert standings(board).by_author[BOB].states == {"in_step": 1, "behind": 0, "ahead": 0, "diverged": 0}
        assert standings(board).worst == []
        assert values(board, "entities") == {(): 1}


def test_the_scenario_of_replicas_that_part_is_told_as_it_was() -> None:
    simulation = simulated(STORY)
    (swarm,), truth = simulation.config.swarms, simulation.truth
    for records in (records_of(STORY), compacted(records_of(STORY))):
        board = board_of(simulation.config, records)
        names = {author.hex(): name for author, name in swarm.authors.items()}
        expected = Counter((names[one.author], one.state) for one in truth.replicas)
        assert {labels: count for labels, count in values(board, "replicas").items() if count} == expected
        contradicted = Counter((names[one.author],) for one in truth.replicas if one.why == "digest")
        assert {at: count for at, count in values(board, "replicas_contradicted").items() if count} == contradicted
        faults = Counter((names[one.author], one.why) for one in truth.bad_updates)
        assert {labels: count for labels, count in values(board, "bad_updates_total").items() if count} == faults
        assert values(board, "entities") == {(): len({one.entity for one in truth.replicas})}
        assert expected.keys() >= {("peer-1", "in_step"), ("peer-2", "behind"), ("peer-3", "diverged")}


numbers = st.integers(0, 2)
verdicts_about_one = st.builds(
    lambda state, why, facts: replica("menu", state, why, **facts),
    st.sampled_from(STATES),
    st.sampled_from(["", "branch", "clock", "digest"]),
    st.fixed_dictionaries(
        dict.fromkeys(("events", "index", "position", "stated_ms", "since_ms", "lacks", "extra"), numbers)
    ),
)


@given(st.lists(verdicts_about_one, min_size=1, max_size=6))
def test_what_is_kept_is_what_the_core_joins(verdicts: list[Replica]) -> None:
    board, whole = board_with(*verdicts), verdicts[0]
    for one in verdicts[1:]:
        whole = join(whole, one)
    (watch,) = board.watches.values()
    (kept,) = watch.replicas._kept[BOB].values()
    same = ("state", "why", "events", "lacks", "extra", "segment", "index", "position", "stated_ms", "since_ms")
    assert [getattr(kept, name) for name in same] == [getattr(whole, name) for name in same]


def test_a_withdrawn_replica_is_gone_and_can_come_again() -> None:
    menu, other = replica("menu", "diverged", "branch"), replica("menu", "diverged", "branch", author=ANN)
    board = board_with(menu, other)
    board.absorb([tombstone(menu), tombstone(menu)])
    assert standings(board).count("diverged") == 1
    assert values(board, "entities") == {(): 1}
    assert ("bob",) not in values(board, "replica_diverged_since_timestamp_seconds")
    board.absorb([tombstone(other)])
    assert values(board, "entities") == {(): 0}
    assert values(board, "replicas") == {}
    board.absorb([verdict_record(menu)])
    assert standings(board).count("diverged") == 1


@pytest.mark.parametrize("key", ["replica", "replica/", "replica/a/b/c", "replica/a/b/c/d", "replica//////", "/" * 9])
def test_a_tombstone_of_any_key_withdraws_nothing_else(key: str) -> None:
    board = board_with(replica("menu"))
    board.absorb([Record(Topic.VERDICTS, key.encode(), None, 1)])
    assert standings(board).replicas == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "replica/other"},
        {"state": "lost"},
        {"entity": ""},
        {"entity": "6d656e7"},
        {"entity": "6D65"},
        {"entity": "<script>"},
        {"entity": "00" * (ENTITY_BYTES_MAX + 1)},
        {"segment": "x" * 64},
        {"segment": ""},
        {"lacks": 1 << 60},
        {"since_ms": -(1 << 60)},
    ],
    ids=str,
)
def test_what_cannot_be_a_replica_is_counted_and_skipped(wrong: dict[str, Any]) -> None:
    good = replica("menu")
    key = good.key.replace(good.entity, wrong.get("entity", good.entity))
    bad = msgspec.structs.replace(good, **({"key": key} | wrong))
    board = board_with(bad)
    assert board.unreadable[Topic.VERDICTS] == 1
    assert standings(board).replicas == 0
    assert samples_of(board)


@given(st.binary(min_size=1, max_size=ENTITY_BYTES_MAX), st.sampled_from(STATES), st.text(max_size=20))
def test_entities_may_have_any_name_and_stand_in_no_label(name: bytes, state: str, why: str) -> None:
    one = replica("menu", state, why)
    named = msgspec.structs.replace(one, entity=name.hex(), key=one.key.replace(one.entity, name.hex()))
    board = board_with(named)
    assert values(board, "replicas")["bob", state] == 1
    labels = {label for _, labels in samples_of(board) for label in labels}
    assert labels == {label for _, labels in samples_of(board_with(one)) for label in labels}
    board.absorb([tombstone(named)])
    assert standings(board).replicas == 0


def test_replicas_of_keys_that_no_roster_has_are_not_looked_at() -> None:
    board = board_with(replica("menu", author=STRANGER), replica("a/b" * 3, author="x/y"))
    assert standings(board).replicas == 0
    assert values(board, "entities") == {(): 0}
    assert sum(board.unreadable.values()) == 0


def test_replicas_of_a_peer_that_left_the_roster_are_not_told() -> None:
    (swarm,) = CONFIG.swarms
    (epoch,) = swarm.epochs
    without = msgspec.structs.replace(
        epoch, start=epoch.start.replace(year=2021), roster={n: k for n, k in epoch.roster.items() if k != BOB}
    )
    config = Config((msgspec.structs.replace(swarm, epochs=(epoch, without)),))
    board = board_of(config, [verdict_record(replica("menu", "diverged", "branch"))])
    assert {peer for peer, _ in values(board, "replicas")} == {"ann", "cleo", "dora"}
    assert standings(board).count("diverged") == 0


def test_a_peer_that_invents_entities_fills_its_own_part_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "PLACES_MAX", 4 * 10)
    many = [replica(f"entity {at}") for at in range(50)]
    board = board_with(*many, replica("menu", "in_step", author=ANN))
    assert standings(board).by_author[BOB].states["behind"] == 10
    assert standings(board).by_author[ANN].states["in_step"] == 1
    assert values(board, "limits_exceeded") == {("bob", "entities"): 1}
    first = msgspec.structs.replace(many[0], state="in_step", events=9)
    board.absorb([verdict_record(first)])
    assert standings(board).by_author[BOB].states["in_step"] == 1, "one that is kept still changes"


def test_many_peers_and_entities_are_counted_right_while_they_change() -> None:
    names, board = [f"entity {at}" for at in range(30)], Board(CONFIG)
    authors = [lab_author(name) for name in ("ann", "bob", "cleo", "dora")]
    for turn, state in enumerate(STATES * 2):
        board.absorb(
            verdict_record(replica(name, state, author=author, events=turn + 1))
            for at, name in enumerate(names)
            for author in authors[at % 4 :]
        )
        counts = values(board, "replicas")
        expected = {"ann": 8, "bob": 16, "cleo": 23, "dora": 30}
        assert {peer: counts[peer, state] for peer in expected} == expected
        assert sum(counts.values()) == sum(expected.values())
        assert values(board, "entities") == {(): 30}


# Updates that cannot be right


def bad(entity: str, why: str, author: str = BOB) -> BadUpdate:
    found: BadUpdate = verdict(BadUpdate, f"bad_update/{author}/{entity}/{why}", entity=entity, why=why, author=author)
    return found


def test_bad_updates_are_counted_by_peer_and_reason() -> None:
    board = board_with(
        replica("menu"),
        *(bad("menu", why) for why in WHYS),
        bad("draft", "digest"),
        bad("draft", "digest"),
        bad("draft", "no such reason"),
        bad("draft", "stamp", STRANGER),
    )
    counts = values(board, "bad_updates_total")
    assert {why: counts["bob", why] for why in WHYS} == {"malformed": 1, "parameters": 1, "stamp": 1, "digest": 2}
    assert counts["bob", OTHER] == counts[OTHER, "stamp"] == 1
    assert {why: counts["ann", why] for why in WHYS} == dict.fromkeys(WHYS, 0), "so that an increase shows"


def test_a_reason_that_is_given_without_end_hides_no_other_and_no_count_falls_by_compaction() -> None:
    records = [verdict_record(bad(f"{at:04x}", "malformed")) for at in range(KEPT_MAX + 50)]
    records += [verdict_record(bad("menu", "digest")), *records[:100]]
    whole, short = board_of(CONFIG, records), board_of(CONFIG, compacted(records))
    assert values(whole, "bad_updates_total")["bob", "malformed"] == KEPT_MAX
    assert values(whole, "bad_updates_total")["bob", "digest"] == 1
    assert dict(counters(short)) == dict(counters(whole))


def test_a_key_whose_name_has_a_newer_key_is_counted_under_the_name() -> None:
    (swarm,) = CONFIG.swarms
    (epoch,) = swarm.epochs
    newer = msgspec.structs.replace(
        epoch, start=epoch.start.replace(year=2021), roster=epoch.roster | {"bob": lab_author("new bob")}
    )
    config = Config((msgspec.structs.replace(swarm, epochs=(epoch, newer)),))
    told = [bad("menu", "stamp"), bad("menu", "stamp", lab_author("new bob"))]
    board = board_of(config, [Record(Topic.VERDICTS, one.key.encode(), encode_verdict(one), NOW_MS) for one in told])
    assert values(board, "bad_updates_total") == {("bob", "stamp"): 2}


def test_a_withdrawn_bad_update_is_gone() -> None:
    one = bad("menu", "stamp")
    board = board_with(one)
    board.absorb([tombstone(one)])
    assert values(board, "bad_updates_total") == {}
