"""How far noops have come: counts and latencies, as they are shown."""

from state.verdict import Accepted, Known
from streaming.acceptance import Acceptance, Latency
from tests.storylab import watched


def accepted(key: str, after_ms: int, rule: str = "majority") -> Accepted:
    about = {"swarm": "", "config": "", "author": "", "index": 1, "id": key, "epoch_ms": 0, "observers": "f"}
    spread = {"rule": rule, "k": 3, "n": 4, "times_ms": 0, "published_ms": 1000}
    return Accepted(key=key, **about, **spread, accepted_ms=1000 + after_ms, tolerates=1)


def test_ranks_are_latencies_that_were_measured() -> None:
    acceptance = Acceptance()
    for number in range(1, 201):
        acceptance.add(accepted(f"noop {number}", 10 * number), 10_000)
    assert list(acceptance.latencies()) == [Latency("accepted", "majority", 200, 1000, 1980)]


def test_of_one_noop_both_ranks_are_its_own() -> None:
    acceptance = Acceptance()
    acceptance.add(accepted("one", 700), 2000)
    assert list(acceptance.latencies()) == [Latency("accepted", "majority", 1, 700, 700)]
    assert acceptance.seen_after_ms() == 300


def test_a_verdict_that_comes_again_replaces_the_latency_and_was_seen_when_it_came_first() -> None:
    acceptance = Acceptance()
    acceptance.add(accepted("one", 700), 2000)
    acceptance.add(accepted("one", 500), 9000)
    assert list(acceptance.latencies()) == [Latency("accepted", "majority", 1, 500, 500)]
    assert acceptance.seen_after_ms() == 300


def test_before_the_first_verdict_there_is_nothing() -> None:
    assert list(Acceptance().latencies()) == []
    assert Acceptance().seen_after_ms() is None


def test_the_whole_story_has_each_kind_by_each_rule_and_the_split_in_the_highest_rank() -> None:
    story = watched("whole-story")
    found = {(one.done, one.rule): one for one in story.scene_at(60).acceptance.latencies()}
    assert sorted(found) == [(done, rule) for done in ("accepted", "known") for rule in ("everyone", "majority")]
    counted = [verdict for verdict in story.verdicts if isinstance(verdict, Known | Accepted)]
    assert sum(one.noops for one in found.values()) == len(counted)
    assert found["accepted", "majority"].p50_ms < 2000
    assert found["accepted", "majority"].p99_ms > 15_000
