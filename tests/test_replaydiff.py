"""What a replay says otherwise than the live job: of a whole topic every byte, of a part what it decides alone."""

from typing import Any

import msgspec
import pytest

from producers.scenarios import SCENARIOS
from producers.swarm import Settings
from state.config import Config
from state.verdict import Accepted, AnyVerdict, Equivocation, Fork, Known, Signed, Silent, encode_verdict
from streaming.replaydiff import Comparison, Window, compare
from tests.loglab import lab_config, since_config
from tests.topiclab import Spot, Written, fold_alone

CONFIG = lab_config()
LAB = CONFIG.swarms[0]
ALICE = LAB.epochs[0].members[0].hex()
ABOUT: dict[str, Any] = {"swarm": LAB.id, "config": CONFIG.digest, "author": ALICE}
PART = Window(since_ms=1000, until_ms=2000, whole=False)


def known(published_ms: int, known_ms: int, kind: type[Known] = Known) -> Known:
    facts = {"index": 1, "id": "ab" * 32, "epoch_ms": 0, "rule": "majority", "k": 2, "n": 3, "observers": "6"}
    return kind(key="known/1", published_ms=published_ms, known_ms=known_ms, times_ms=9, **facts, **ABOUT)


def signed(mark: str, seen_ms: int) -> Signed:
    return Signed(mark * 32, "00", "00", seen_ms)


def fork(*branches: Signed) -> Fork:
    return Fork(key="fork/1", previous="cd" * 32, branches=branches, **ABOUT)


def equivocation(*evidence: Signed) -> Equivocation:
    return Equivocation(key="equivocation/1", index=2, evidence=(evidence[0], evidence[1]), **ABOUT)


SILENT = Silent(key="silent/1", opened_ms=1500, ended_ms=None, updated_ms=1500, since_ms=1400, **ABOUT)


def compared(live: list[AnyVerdict], replayed: list[AnyVerdict], window: Window = PART) -> Comparison:
    sides = [{verdict.key: encode_verdict(verdict) for verdict in side} for side in (live, replayed)]
    return compare(*sides, window, CONFIG)


def test_of_a_whole_topic_every_verdict_counts() -> None:
    verdicts = [known(10, 20), SILENT, fork(signed("aa", 5), signed("bb", 6))]
    assert compared(verdicts, verdicts, Window()) == Comparison(3, 0, [])


@pytest.mark.parametrize("window", [Window(), PART])
def test_each_difference_is_told_in_words(window: Window) -> None:
    one, other = known(1100, 1200), known(1100, 1300)
    (line,) = compared([one], [other], window).differences
    assert line.startswith("the live job says: segment 1 (abababababab) of ")
    assert "0.1 s after it was published; the replay says: " in line
    (line,) = compared([one], [], window).differences
    assert line.startswith("only the live job says: segment 1")
    (line,) = compared([], [one], window).differences
    assert line.startswith("only the replay says: segment 1")
    assert line.endswith("(known/1)")


def test_verdicts_of_the_same_words_and_other_facts_are_told_by_these() -> None:
    one = known(1100, 1200)
    (line,) = compared([one], [msgspec.structs.replace(one, observers="3")]).differences
    assert line.endswith('but not with the same facts (known/1): observers "6" and "3"')
    (line,) = compared([one], [msgspec.structs.replace(one, config="other")], Window()).differences
    assert ": config " in line


def test_a_part_of_a_topic_is_compared_whatever_configuration_it_was_judged_by() -> None:
    one = known(1100, 1200)
    assert compared([one], [msgspec.structs.replace(one, config="other")]) == Comparison(1, 0, [])


@pytest.mark.parametrize(("published_ms", "known_ms"), [(999, 1200), (1100, 2000), (2000, 2100)])
def test_what_a_part_cannot_show_is_left_out(published_ms: int, known_ms: int) -> None:
    assert compared([known(published_ms, known_ms)], []) == Comparison(0, 1, [])
    assert compared([SILENT], []) == Comparison(0, 1, [])


def test_what_the_live_job_knew_later_must_not_be_known_earlier_to_a_replay() -> None:
    assert len(compared([known(1100, 2000)], [known(1100, 1900)]).differences) == 1


def test_a_copy_in_the_part_of_what_was_published_before_is_left_out() -> None:
    assert compared([known(900, 950)], [known(1100, 1200)]) == Comparison(0, 1, [])


def test_a_fork_is_cut_down_to_the_branches_of_the_part() -> None:
    early, one, two, late = signed("aa", 900), signed("bb", 1100), signed("cc", 1200), signed("dd", 2500)
    assert compared([fork(early, one, two, late)], [fork(one, two)]) == Comparison(1, 0, [])
    assert compared([fork(early, one)], []) == Comparison(0, 1, [])
    assert len(compared([fork(early, one, two)], []).differences) == 1


def test_an_equivocation_counts_if_its_least_pair_is_in_the_part() -> None:
    one, two = equivocation(signed("aa", 1100), signed("bb", 1200)), equivocation(signed("aa", 900), signed("bb", 1200))
    assert compared([one], [one]) == Comparison(1, 0, [])
    assert len(compared([one], []).differences) == 1
    assert compared([two], [one]) == Comparison(0, 1, [])


def test_accepted_goes_by_the_time_of_acceptance() -> None:
    one = known(1100, 1200)
    facts = {name: getattr(one, name) for name in one.__struct_fields__ if name not in ("known_ms", "key")}
    accepted = Accepted(key="accepted/1", accepted_ms=2500, tolerates=0, **facts)
    assert compared([accepted], []) == Comparison(0, 1, [])
    assert len(compared([msgspec.structs.replace(accepted, accepted_ms=1999)], []).differences) == 1


def test_bytes_that_are_no_verdict_are_a_difference_too() -> None:
    assert compare({"x": b"{"}, {}, Window(), CONFIG).differences == [
        "only the live job says: something that is no verdict (x)"
    ]
    assert compare({"x": b"{"}, {}, PART, CONFIG) == Comparison(0, 1, [])


def test_the_configuration_gives_the_names() -> None:
    assert isinstance(CONFIG, Config)
    (line,) = compared([SILENT], [], Window()).differences
    assert f"{LAB.authors[bytes.fromhex(ALICE)]} is silent" in line


@pytest.mark.parametrize("scenario", ["ref-to-nothing", "restored-backup", "whole-story"])
def test_a_part_from_the_beginning_says_what_the_whole_said_of_it(scenario: str) -> None:
    simulation = SCENARIOS[scenario].run(Settings(seed=3, duration_ms=40_000))
    written = [Written(Spot(0, at), *record, {}) for at, record in enumerate(simulation.records)]
    live = in_words(fold_alone(simulation.config, written))
    until_ms = written[len(written) // 2].time_ms
    part = [message for message in written if message.time_ms < until_ms]
    found = compare(
        live, in_words(fold_alone(simulation.config, part)), Window(until_ms=until_ms, whole=False), simulation.config
    )
    assert found.differences == []
    assert found.compared > 50


@pytest.mark.parametrize("scenario", ["ref-to-nothing", "restored-backup", "whole-story", "honest"])
def test_a_part_from_the_middle_on_says_what_the_whole_said_of_it(scenario: str) -> None:
    simulation = SCENARIOS[scenario].run(Settings(seed=3, duration_ms=40_000))
    written = [Written(Spot(0, at), *record, {}) for at, record in enumerate(simulation.records)]
    live = in_words(fold_alone(simulation.config, written))
    since_ms, until_ms = (written[int(len(written) * part)].time_ms for part in (0.3, 0.8))
    part = [message for message in written if since_ms <= message.time_ms < until_ms]
    config = since_config(simulation.config, since_ms)
    found = compare(live, in_words(fold_alone(config, part)), Window(since_ms, until_ms, whole=False), config)
    assert found.compared > 50
    if scenario != "ref-to-nothing":
        assert found.differences == []
        return
    # What is missing from before has stopped acceptance for the live job; to the replay it is gone, so it does not.
    assert all(line.startswith("only the replay says: ") and " is accepted by " in line for line in found.differences)


def in_words(verdicts: dict[bytes, bytes]) -> dict[str, bytes]:
    return {key.decode(): verdict for key, verdict in verdicts.items()}
