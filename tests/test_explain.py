"""Explanations: one noop in words, for each way in which it can stand with its peers."""

from datetime import timedelta

import msgspec
import pytest

from state.config import Config
from state.explain import HOPS_MAX, NAMES_MAX, explain
from state.head import NO_PREVIOUS
from state.history import History
from state.segment import Segment
from state.signing import SigningKey
from tests.loglab import START_MS, SWARM, lab_config, noop
from tests.prooflab import SCENARIO_NAMES, START, Lab, Peers, rival, simulated_lab, small_lab
from tests.prooflab import START_MS as PEERS_START_MS


def told(lab: Lab, segment: Segment) -> list[str]:
    return explain(lab.history, lab.swarm, segment.id)


def line(lines: list[str], start: str) -> str:
    (found,) = [each for each in lines if each.startswith(start)]
    return found


def test_it_says_what_the_segment_is_and_which_ops_are_of_clients() -> None:
    lab = small_lab()
    segment = lab.at("alice", 1)
    lines = told(lab, segment)
    assert lines[0] == f"segment 1 of alice in swarm lab, id {segment.id.hex()}"
    assert lines[1] == "published 2026-01-01T00:00:00.000Z, 4 ops, 3 of the peer itself, from clients: op 2 of client-7"
    assert "4 peers of the epoch that starts 2026-01-01T00:00:00.000Z" in lines[2]


def test_it_says_of_each_peer_since_when_it_has_it_and_by_which_path() -> None:
    lab = small_lab()
    lines = told(lab, lab.at("alice", 1))
    assert line(lines, "alice ") == "alice signed it; endorses it"
    assert line(lines, "bob ") == (
        "bob has it since 2026-01-01T00:00:03.000Z (+3.0 s): bob's 1 entangles alice's 2, which follows it; endorses it"
    )
    assert "carol's 1 entangles bob's 1, which entangles alice's 2, which follows it" in line(lines, "carol ")
    assert line(lines, "dave ") == "dave does not have it; last heard 2026-01-01T00:00:02.000Z, index 1"


def test_it_says_of_each_rule_since_when_or_what_it_waits_for() -> None:
    lab = small_lab()
    lines = told(lab, lab.at("alice", 1))
    since = "since 2026-01-01T00:00:04.000Z (+4.0 s)"
    assert line(lines, "by majority") == f"by majority (3 of 4): known {since}; accepted {since}"
    assert line(lines, "by everyone") == (
        "by everyone (4 of 4): not known yet, it needs 1 more of: dave; not accepted yet, it needs 1 more of: dave"
    )
    newest = told(lab, lab.at("carol", 1))
    assert "it needs 2 more of: alice, bob, dave" in line(newest, "by majority")


def test_a_peer_that_was_never_heard_is_told_so() -> None:
    peers = Peers()
    first = peers.close("alice")
    assert line(told(peers.lab(), first), "dave ") == "dave does not have it; never heard"


def test_a_fork_is_told_with_who_has_which_version() -> None:
    peers = Peers()
    one, other = peers.close("alice"), rival("alice")
    peers.publish(other, PEERS_START_MS + 500)
    peers.tell("bob", "alice")
    peers.close("bob")
    peers.holdings["carol"].receive(other)
    peers.close("carol")
    peers.tell("dave", "bob", "carol")
    peers.close("dave")
    lines = told(peers.lab(), one)
    assert line(lines, "bob ").endswith("endorses it")
    assert line(lines, "carol ").startswith("carol does not have it")
    seen = f"it has another version too, index 1 of alice ({other.id.hex()[:12]})"
    assert line(lines, "dave ").endswith(f"does not endorse it: {seen}")
    assert "it can no longer be accepted: 2 peers have another version" in line(lines, "by majority")
    assert lines[-3:] == [
        "alice forked its log; who has which:",
        "  this version: bob, dave",
        f"  index 1 of alice ({other.id.hex()[:12]}): carol, dave",
    ]


def test_a_past_that_is_not_complete_is_told_with_what_is_missing() -> None:
    peers = Peers()
    lost = peers.close("alice")
    peers.tell("bob", "alice")
    segment = peers.close("bob")
    peers.tell("carol", "bob")
    peers.close("carol")
    peers.copies.pop(0)
    lines = told(peers.lab(), segment)
    missing = f"index 1 of alice ({lost.id.hex()[:12]}), which is not on the topic"
    assert f"its past is not complete: it builds on {missing}" in lines
    named = f"index 1 of bob ({segment.id.hex()[:12]})"
    assert line(lines, "carol ").endswith(f"does not endorse it: {named} builds on {missing}")
    assert line(lines, "by majority").endswith("not accepted, because of its own past")


def test_a_topic_that_has_lost_its_beginning_is_said_to_have() -> None:
    lab = small_lab()
    lost = History(lab.swarm.key, [(lab.at("alice", 2), PEERS_START_MS)], from_start=False)
    assert any("lost its beginning" in each for each in explain(lost, lab.swarm, lab.at("alice", 2).id))


def test_a_segment_that_no_epoch_or_no_roster_judges_is_told_so() -> None:
    lab = small_lab()
    (epoch,) = lab.swarm.epochs
    roster = {name: key for name, key in epoch.roster.items() if name != "alice"}
    later = msgspec.structs.replace(epoch, start=START + timedelta(seconds=1), roster=roster)
    swarm = msgspec.structs.replace(lab.swarm, epochs=(later,))
    assert "before the first epoch" in explain(lab.history, swarm, lab.at("alice", 1).id)[-1]
    both = Lab(Config((msgspec.structs.replace(lab.swarm, epochs=(epoch, later)),)), lab.history)
    assert "its author is not in the roster" in line(told(both, lab.at("alice", 2)), "by majority")


def test_a_stretch_of_one_log_is_told_as_one_hop() -> None:
    peers = Peers()
    first = peers.close("alice")
    peers.tell("bob", "alice")
    for _ in range(5):
        peers.close("bob")
    peers.tell("carol", "bob")
    peers.close("carol")
    path = "carol's 1 entangles bob's 5, which follows bob's 1, which entangles it;"
    assert path in line(told(peers.lab(), first), "carol ")


def test_a_long_path_is_told_by_its_ends() -> None:
    authors = [SigningKey(bytes([n]) * 32).public for n in range(1, HOPS_MAX + 3)]
    made = [noop(authors[0], 1, NO_PREVIOUS)]
    for author in authors[1:]:
        made.append(noop(author, 1, NO_PREVIOUS, refs=[made[-1].ref]))
    history = History(SWARM, [(segment, START_MS) for segment in made])
    lines = explain(history, lab_config(authors).swarms[0], made[0].id)
    assert f"peer-{HOPS_MAX}'s 1 entangles peer-{HOPS_MAX - 1}'s 1, which" in line(lines, f"peer-{HOPS_MAX} ")
    last = line(lines, f"peer-{HOPS_MAX + 1} ")
    assert f": peer-{HOPS_MAX + 1}'s 1, over {HOPS_MAX} others, the last peer-1's 1;" in last


def test_a_large_roster_is_counted_beyond_some_names() -> None:
    lab = small_lab()
    (epoch,) = lab.swarm.epochs
    more = {f"peer-{n:03}": f"{n:064x}" for n in range(1, 100)}
    swarm = msgspec.structs.replace(lab.swarm, epochs=(msgspec.structs.replace(epoch, roster=epoch.roster | more),))
    waiting = line(explain(lab.history, swarm, lab.at("alice", 1).id), "by everyone")
    assert waiting.count("peer-") <= 2 * NAMES_MAX
    assert f"and {100 - NAMES_MAX} more" in waiting


def test_ops_and_times_that_cannot_be_read_are_no_obstacle() -> None:
    odd = rival("alice", ops=[b"\xff\xff", b"\x0a\x02\xff\xfe"])
    lab = small_lab()
    history = History(lab.swarm.key, [(odd, 1 << 53)])
    lines = explain(history, lab.swarm, odd.id)
    assert lines[1] == f"published at {1 << 53} ms, 2 ops, 1 of the peer itself, from clients: op 2 of fffe"


@pytest.mark.parametrize("name", SCENARIO_NAMES)
def test_every_noop_of_a_simulation_can_be_explained(name: str) -> None:
    lab = simulated_lab(name)
    for noop_id in lab.history.segments:
        lines = explain(lab.history, lab.swarm, noop_id)
        assert sum(each.startswith(tuple(lab.swarm.epochs[0].roster)) for each in lines) >= len(lab.swarm.authors)
        assert not any("\n" in each for each in lines)
