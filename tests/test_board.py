"""The exporter's state: what it counts does not depend on when it was started, and nothing on a topic stops it."""

import copy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards import findings
from dashboards.board import Board, Record
from dashboards.watch import OTHER
from producers.scenarios import SCENARIOS
from state.config import Config
from state.fold import Topic
from state.signing import SigningKey
from state.verdict import (
    Accepted,
    BadIndex,
    Equivocation,
    Fork,
    Missing,
    OneWay,
    Silent,
    Split,
    Verdict,
    decode_verdict,
    encode_verdict,
)
from tests.boardlab import board_of, compacted, counters, records_of, samples_of
from tests.simlab import simulated
from tests.verdictlab import CONFIG, verdict, versions

SCENARIO_NAMES = sorted(SCENARIOS)
QUICK = ("lying-peer", "whole-story", "withheld-story", "diverging-replicas")
EACH = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in SCENARIO_NAMES]
STORY = "whole-story"


def config_of(name: str) -> Any:
    return simulated(name).config


@pytest.mark.parametrize("name", EACH)
def test_a_compacted_topic_counts_as_the_whole_one(name: str) -> None:
    config, records = config_of(name), records_of(name)
    whole, short = board_of(config, records), board_of(config, compacted(records))
    assert len(compacted(records)) < len(records) or name != STORY
    counted, again = dict(counters(whole)), dict(counters(short))
    assert counted.keys() == again.keys()
    for key, count in counted.items():
        # Buckets may only rise: the last verdict of a key knows of earlier observers than the first one did.
        assert again[key] == count or (key[0].endswith("latency_seconds") and again[key] > count), key


def test_a_peer_that_got_a_new_key_under_its_name_keeps_the_forks_of_the_old_one() -> None:
    """As the runbook of ForkDetected advises: an epoch with another key for the name."""
    (swarm,) = config_of("lying-peer").swarms
    (epoch,) = swarm.epochs
    (liar,) = {fork.author for fork in simulated("lying-peer").truth.forks}
    name = swarm.authors[bytes.fromhex(liar)]
    renewed = {**epoch.roster, name: SigningKey(b"renewed".ljust(32)).public.hex()}
    halfway = simulated("lying-peer").records[len(simulated("lying-peer").records) // 2].time_ms
    later = msgspec.structs.replace(epoch, start=datetime.fromtimestamp(halfway // 1000, UTC), roster=renewed)
    config = Config((msgspec.structs.replace(swarm, epochs=(epoch, later)),))
    samples = samples_of(board_of(config, records_of("lying-peer")))
    assert samples["forks_total", (swarm.name, name)] == 1
    assert samples["last_fork_timestamp_seconds", (swarm.name, name)] > 0


@pytest.mark.parametrize("name", [*QUICK, pytest.param("gone-for-good", marks=pytest.mark.slow)])
def test_no_counter_ever_falls_also_when_the_exporter_starts_anew_at_any_moment(name: str) -> None:
    config, records = config_of(name), records_of(name)
    board, before = Board(config), dict[Any, float]()
    for start in range(0, len(records), 97):
        board.absorb(records[start : start + 97])
        now = dict(counters(board))
        anew = dict(counters(board_of(config, compacted(records[: start + 97]))))
        for key, count in before.items():
            assert now[key] >= count, key
            assert anew[key] >= count, key
        before = now


@pytest.mark.parametrize("name", EACH)
def test_reading_the_same_records_twice_changes_no_count(name: str) -> None:
    config, records = config_of(name), records_of(name)
    once, twice = board_of(config, records), board_of(config, [*records, *compacted(records)])
    assert dict(counters(twice)) == dict(counters(once))


def test_what_is_withdrawn_is_gone() -> None:
    missing = [record for record in records_of("withheld-story") if (record.key or b"").startswith(b"missing/")]
    assert missing
    board = board_of(config_of("withheld-story"), missing[:1])
    (watch,) = board.watches.values()
    (author,) = watch.findings.authors(Missing)
    assert len(watch.findings.of(Missing, author)) == 1
    board.absorb([missing[0]._replace(value=None)])
    assert watch.findings.of(Missing, author) == []
    assert list(watch.findings.authors(Missing)) == []


def is_text(key: bytes) -> bool:
    return key.decode(errors="replace").encode() == key


@given(st.lists(st.tuples(st.sampled_from([Topic.VERDICTS, Topic.MATRIX]), st.binary(), st.binary() | st.none())))
def test_any_bytes_are_counted_and_skipped(junk: list[tuple[str, bytes, bytes | None]]) -> None:
    board = Board(config_of(STORY))
    board.absorb(Record(topic, key, value, 1) for topic, key, value in junk)
    withdrawals = sum(topic == Topic.VERDICTS and value is None and is_text(key) for topic, key, value in junk)
    assert sum(board.unreadable.values()) == len(junk) - withdrawals
    assert samples_of(board)


def one_of_each_kind() -> dict[str, Record]:
    found: dict[str, Record] = {}
    for name in QUICK:
        for record in records_of(name):
            if record.topic == Topic.VERDICTS and record.value:
                found.setdefault((record.key or b"").decode().partition("/")[0], record)
    return found


JUNK = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.text(max_size=5), st.none(), st.booleans(), st.lists(st.integers(), max_size=2)
)


@given(st.data())
def test_verdicts_with_wrong_facts_are_skipped_or_shown_and_never_fatal(data: st.DataObject) -> None:
    record = data.draw(st.sampled_from(sorted(one_of_each_kind().values())))
    tree = msgspec.json.decode(record.value or b"")
    tree = copy.deepcopy(tree)
    for field in data.draw(st.lists(st.sampled_from(sorted(tree.keys() - {"kind", "key", "swarm"})), min_size=1)):
        tree[field] = data.draw(JUNK)
    config = next(config_of(name) for name in QUICK if record in records_of(name))
    board = board_of(config, [record, record._replace(value=msgspec.json.encode(tree))])
    assert samples_of(board)
    assert sum(board.unreadable.values()) + sum(board.foreign.values()) <= 1


def test_what_no_roster_has_is_called_other() -> None:
    records = [r for r in records_of("lying-peer") if (r.key or b"").startswith((b"fork/", b"equivocation/"))]
    stranger = "ab" * 32
    verdicts: list[Verdict] = [
        msgspec.structs.replace(decode_verdict(record.value or b""), author=stranger) for record in records
    ]
    board = board_of(
        config_of("lying-peer"),
        [Record(Topic.VERDICTS, one.key.encode(), encode_verdict(one), 1) for one in verdicts],
    )
    (watch,) = board.watches.values()
    assert list(watch.findings.authors(Fork)) == [OTHER]
    assert samples_of(board)["forks_total", (watch.swarm.name, OTHER)] == 1
    assert not any(stranger in label for _, labels in samples_of(board) for label in labels)


def test_a_peer_that_forks_without_end_does_not_fill_the_memory() -> None:
    record = next(r for r in records_of("lying-peer") if (r.key or b"").startswith(b"fork/"))
    fork = decode_verdict(record.value or b"")
    many = [msgspec.structs.replace(fork, key=f"{fork.key}{at}") for at in range(2 * findings.KEPT_MAX)]
    board = board_of(
        config_of("lying-peer"), [Record(Topic.VERDICTS, one.key.encode(), encode_verdict(one), 1) for one in many]
    )
    assert isinstance(fork, Fork)
    (watch,) = board.watches.values()
    assert len(watch.findings.of(Fork, fork.author)) == findings.KEPT_MAX


def test_episodes_open_end_and_are_counted_once() -> None:
    board, seen_open = Board(config_of(STORY)), 0
    (watch,) = board.watches.values()
    for record in records_of(STORY):
        board.absorb([record])
        seen_open = max(seen_open, len(watch.episodes.open(Split)))
    assert seen_open == 1
    assert watch.episodes.open(Split) == []
    assert len(watch.episodes.ended(Split)) == watch.episodes.opened["split"] == 1
    assert watch.episodes.opened["silent"] == len(watch.episodes.ended(Silent)) + len(watch.episodes.open(Silent))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 700_000)), min_size=1, max_size=30), st.integers(0, 30))
def test_verdicts_that_come_again_with_earlier_times_lower_no_bucket(told: list[tuple[int, int]], cut: int) -> None:
    """Each verdict of a key holds the join of all before it: its time is the least so far."""
    record = next(r for r in records_of(STORY) if (r.key or b"").startswith(b"accepted/"))
    accepted = decode_verdict(record.value or b"")
    assert isinstance(accepted, Accepted)
    least: dict[int, int] = {}
    records = []
    for index, latency_ms in told:
        least[index] = min(least.get(index, latency_ms), latency_ms)
        done_ms = accepted.published_ms + least[index]
        one = msgspec.structs.replace(accepted, key=f"accepted/{index}", index=index, accepted_ms=done_ms)
        records.append(Record(Topic.VERDICTS, one.key.encode(), encode_verdict(one), done_ms))
    before = dict(counters(board_of(config_of(STORY), records[:cut])))
    anew = dict(counters(board_of(config_of(STORY), compacted(records))))
    assert all(anew[key] >= count for key, count in before.items())


def test_verdicts_that_do_not_join_with_what_stands_under_their_key_are_skipped() -> None:
    same = versions("aa", "aa")
    odd = [
        [verdict(Fork, branches=same)],
        [verdict(Equivocation, evidence=same)],
        [verdict(BadIndex), verdict(BadIndex, segment=versions("ee")[0])],
        [verdict(Silent), verdict(OneWay)],
    ]
    for verdicts in odd:
        board = board_of(CONFIG, [Record(Topic.VERDICTS, v.key.encode(), encode_verdict(v), 1) for v in verdicts])
        assert board.unreadable[Topic.VERDICTS] == 1, verdicts
        assert samples_of(board)
