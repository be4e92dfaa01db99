"""Episodes: two ticks open one, two end it, for every sequence of ticks as the plain rule has it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.episodes import Change, Chronicle, Episodes, Spell, SplitFact, advance, interrupt
from state.flow import Flow, Parting, Picture
from state.verdict import Episode, OneWay, Silent, Split, Suspect, Undecidable
from tests.test_flow import EPOCH, PEERS, SPLIT_AFTER_MS, START_MS, STEP_MS

A, B, C, D, E, F = PEERS


class Untold:
    """What stands for a tick at which nothing can be told."""


UNTOLD = Untold()


class Found(NamedTuple):
    """An episode as places in a list of ticks: `held` are those in it at which the condition held."""

    opened: int
    ended: int | None
    held: list[int]


def naive_episodes(ticks: Sequence[object]) -> list[Found]:
    """Over the whole list at once: each tick says something that holds, None if nothing does, or UNTOLD."""

    def holds(at: int) -> bool:
        return at < len(ticks) and ticks[at] is not None and ticks[at] is not UNTOLD

    def fails(at: int) -> bool:
        return at < len(ticks) and ticks[at] is None

    found, at = [], 0
    while at < len(ticks):
        if not (holds(at) and holds(at + 1)):
            at += 1
            continue
        ended = next((end for end in range(at + 2, len(ticks)) if fails(end) and fails(end + 1)), None)
        until = len(ticks) if ended is None else ended
        found.append(Found(at, ended, [tick for tick in range(at, until) if holds(tick)]))
        at = until + 1
    return found


def tell(
    ticks: Sequence[int | Untold | None], renew: Callable[[int, int | None, int], int] | None = None
) -> list[Change[int]]:
    spells: dict[bytes, Spell[int]] = {}
    changes: list[Change[int]] = []
    for at, fact in enumerate(ticks):
        if isinstance(fact, Untold):
            interrupt(spells)
            continue
        holding = {} if fact is None else {A: fact}
        changes += advance(spells, at + 1, holding, renew) if renew else advance(spells, at + 1, holding)
    return changes


@settings(max_examples=500)
@given(st.lists(st.sampled_from([None, None, 1, 1, 2, UNTOLD]), max_size=16))
def test_any_sequence_of_ticks_gives_the_episodes_of_the_plain_rule(ticks: list[int | Untold | None]) -> None:
    last = {change.opened_ms: change for change in tell(ticks)}
    want = naive_episodes(ticks)
    assert [(one.opened_ms, one.ended_ms) for one in last.values()] == [
        (found.opened + 1, None if found.ended is None else found.ended + 1) for found in want
    ]
    assert [one.fact for one in last.values()] == [ticks[found.opened] for found in want]
    renewed = {change.opened_ms: change for change in tell(ticks, lambda held, _before, now: max(held, now))}
    assert [one.fact for one in renewed.values()] == [max(ticks[at] for at in found.held) for found in want]


@given(st.integers(2, 20), st.booleans())
def test_what_flaps_from_tick_to_tick_opens_nothing(count: int, starts: bool) -> None:
    assert tell([1 if at % 2 == starts else None for at in range(count)]) == []


def test_what_flaps_does_not_end_what_is_open() -> None:
    assert tell([1, 1, None, 1, None, 1, None, 1]) == [Change(A, 1, 1, None)]


def test_a_tick_that_does_not_tell_stands_between_two_that_do() -> None:
    assert tell([1, UNTOLD, 1]) == []
    assert tell([1, 1, None, UNTOLD, None, 1]) == [Change(A, 1, 1, None)]


def test_nothing_is_said_when_nothing_changes() -> None:
    assert tell([1, 1, 1, 1, 5], lambda _held, _before, now: now) == [Change(A, 1, 1, None), Change(A, 5, 1, None)]


# What a chronicle tells


def picture(at: int, **facts: object) -> Picture:
    return Picture(START_MS + at * STEP_MS, **({"silent": {}, "interval_ms": None, "flow": None} | facts))


def told(*pictures: Picture) -> list[Episode]:
    chronicle = Chronicle("aa" * 32, "digest", Episodes())
    verdicts = []
    for one in pictures:
        verdicts += chronicle.tell(one, EPOCH)
        assert chronicle.problems(one.tick_ms) == []
    return verdicts


WHOLE = Flow([], [], None)


def parted(*sides: list[bytes], contact_ms: int = 0, **facts: object) -> Flow:
    return Flow([], [], Parting(list(sides), contact_ms, **({"suspects": [], "links": {}} | facts)))


def test_a_split_tells_its_sides_when_it_opened_and_now_and_keeps_them_when_it_ends() -> None:
    first, second = parted([A, B], [C], contact_ms=7), parted([A, B], [C], [D], contact_ms=3)
    flows = [WHOLE, first, second, second, WHOLE, WHOLE, WHOLE]
    opened, changed, ended = told(*(picture(at, flow=flow) for at, flow in enumerate(flows)))
    assert isinstance(opened, Split)
    assert isinstance(changed, Split)
    assert opened.key == changed.key == ended.key == f"split/{'aa' * 32}/{START_MS + STEP_MS}"
    assert opened.sides_opening == ((A.hex(), B.hex()), (C.hex(),))
    assert opened.sides == opened.sides_opening == changed.sides_opening
    assert changed.sides == ((A.hex(), B.hex()), (C.hex(),), (D.hex(),))
    assert opened.last_contact_ms == 7
    assert (opened.opened_ms, opened.ended_ms, opened.updated_ms) == (START_MS + 1000, None, START_MS + 2000)
    assert isinstance(ended, Split)
    assert (ended.ended_ms, ended.updated_ms) == (START_MS + 4000, START_MS + 5000)
    assert (ended.sides, ended.suspects) == (changed.sides, changed.suspects)


def test_the_last_contact_of_a_split_only_ever_moves_on() -> None:
    flows = [parted([A], [B], contact_ms=contact_ms) for contact_ms in (5, 5, 3, 9, 4)]
    verdicts = told(*(picture(at, flow=flow) for at, flow in enumerate(flows)))
    assert [v.last_contact_ms for v in verdicts if isinstance(v, Split)] == [5, 9]


def test_a_silent_link_is_a_suspect_if_it_was_heard_not_long_before_the_split_opened() -> None:
    edge_ms = START_MS - 2 * SPLIT_AFTER_MS
    flow = parted([A], [B], links={C: edge_ms, D: edge_ms - 1}, suspects=[(E, "forked")])
    (opened,) = told(*(picture(at, flow=flow) for at in range(4)))
    assert isinstance(opened, Split)
    assert opened.suspects == tuple(sorted([Suspect(C.hex(), "silent"), Suspect(E.hex(), "forked")]))


def test_an_open_split_goes_on_while_nothing_can_be_told() -> None:
    split = parted([A], [B])
    flows = [split, split, None, WHOLE, None, WHOLE, split, None]
    (opened,) = told(*(picture(at, flow=flow) for at, flow in enumerate(flows)))
    assert opened.ended_ms is None


def test_a_peer_that_turns_from_hearing_to_being_heard_ends_one_episode_and_opens_another() -> None:
    flows = [Flow([A], [], None)] * 3 + [Flow([], [A], None)] * 2
    hears, over, heard = told(*(picture(at, flow=flow) for at, flow in enumerate(flows)))
    assert isinstance(hears, OneWay)
    assert isinstance(heard, OneWay)
    assert (hears.direction, hears.key) == ("hears", f"one_way/{'aa' * 32}/{A.hex()}/{START_MS}")
    assert (over.key, over.ended_ms) == (hears.key, START_MS + 3000)
    assert (heard.direction, heard.opened_ms, heard.ended_ms) == ("heard", START_MS + 3000, None)


def test_a_silence_tells_since_when_and_that_it_is_over() -> None:
    silences = [{A: 5}, {A: 5}, {A: 5, B: 9}, {}, {}]
    opened, ended = told(*(picture(at, silent=silent) for at, silent in enumerate(silences)))
    assert isinstance(opened, Silent)
    assert (opened.author, opened.since_ms, opened.opened_ms, opened.ended_ms) == (A.hex(), 5, START_MS, None)
    assert isinstance(ended, Silent)
    assert (ended.key, ended.ended_ms) == (opened.key, START_MS + 3000)


def test_a_stretch_that_cannot_be_judged_tells_the_interval_at_its_opening_only() -> None:
    (verdict,) = told(*(picture(at, interval_ms=interval_ms) for at, interval_ms in enumerate([2000, 3000, 4000])))
    assert isinstance(verdict, Undecidable)
    assert (verdict.interval_ms, verdict.split_after_ms, verdict.updated_ms) == (2000, SPLIT_AFTER_MS, START_MS + 1000)


@pytest.mark.parametrize(
    ("episodes", "problem"),
    [
        (Episodes(silent={A: Spell(5, 1)}), "begins to open at 5"),
        (Episodes(silent={A: Spell(5, 1, is_open=True, over_ms=7)}), "begins to end at 7"),
        (Episodes(silent={A: Spell(9, 1, is_open=True)}), "is open since 9"),
        (Episodes(hears={A: Spell(9, None)}, heard={A: Spell(8, None, is_open=True)}), "hears and is heard"),
        (Episodes(split={b"": Spell(9, SplitFact([[A], [B]], [[A]], 0, []))}), "has 1 sides"),
        (Episodes(split={b"": Spell(9, SplitFact([[A], [B]], [[A], [A]], 0, []))}), "a peer on two sides"),
        (Episodes(split={b"": Spell(9, SplitFact([[A], [B]], [[A], [B, C]], 0, []))}), "larger than the main one"),
    ],
)
def test_a_state_that_cannot_be_is_told(episodes: Episodes, problem: str) -> None:
    (found,) = Chronicle("aa" * 32, "digest", episodes).problems(9)
    assert problem in found
