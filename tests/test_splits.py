"""The splits fold: what it finds is a function of the set of reports, and is what brute force finds tick by tick."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.flow import Parting, Picture
from state.fold import Arrivals, Message
from state.report import Report
from state.splits import WAITING_TICKS_MAX, SplitsFold
from state.verdict import (
    Episode,
    OneWay,
    Silent,
    Split,
    Suspect,
    Undecidable,
    Verdict,
    decode_verdict,
    encode_verdict,
    join,
    key_of,
)
from tests.test_episodes import UNTOLD, naive_episodes
from tests.test_flow import (
    OLD,
    PEERS,
    SPLIT_AFTER_MS,
    START_MS,
    STEP_MS,
    SWARM,
    Being,
    Scene,
    flow_config,
    meshes,
    naive_picture,
    peers,
    scenes,
)

A, B, C, D, E, F = PEERS
CONFIG = flow_config()
SWARM_HEX = SWARM.hex()


class GrowingArchive(dict[bytes, bytes]):
    """As the host gives it: nothing can be deleted, nothing listed."""

    def __delitem__(self, name: bytes) -> None:
        raise TypeError("an archive only grows")

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("an archive is not listed")


class Run:
    """The fold over batches of reports. After each it is packed; the next one opens it again, or goes on with it."""

    def __init__(self) -> None:
        self.fold = SplitsFold(CONFIG)
        self.archive = GrowingArchive()
        self.blob: bytes | None = None
        self.machine = self.fold.open(SWARM, self.blob, self.archive)
        self.said: list[Message] = []
        self.counts = dict.fromkeys(SplitsFold.tallies, 0)

    def absorb(self, reports: Sequence[Report], *, again: bool = True) -> None:
        if again:
            self.machine = self.fold.open(SWARM, self.blob, self.archive)
        routed = list(self.fold.route(Arrivals([], [], reports)))
        assert {key for key, _ in routed} <= set(self.fold.all_keys())
        outcome = self.machine.absorb([payload for _, payload in routed], START_MS)
        self.blob = self.machine.pack()
        assert self.fold.open(SWARM, self.blob, self.archive).check_invariants() == []
        self.said += outcome.messages
        for name, amount in outcome.tallies:
            self.counts[name] += amount

    @property
    def compacted(self) -> dict[bytes, bytes | None]:
        return {message.key: message.value for message in self.said}


def run_splits(*batches: Sequence[Report]) -> Run:
    run = Run()
    for batch in batches:
        run.absorb(batch)
    return run


def ticks_of(story: Sequence[tuple[int, Scene]], blocks: int = 1) -> list[list[Report]]:
    """The reports of each tick of a story."""
    befores = [0, *(tick_ms for tick_ms, _ in story)]
    return [
        scene.reports(tick_ms, before_ms=before_ms, blocks=blocks)
        for before_ms, (tick_ms, scene) in zip(befores, story, strict=False)
    ]


def in_a_row(*told: Scene) -> list[tuple[int, Scene]]:
    return [(START_MS + at * STEP_MS, scene) for at, scene in enumerate(told)]


def verdicts(*told: Scene) -> list[Verdict]:
    """The compacted verdicts of a story of one scene a tick."""
    found = run_splits(*ticks_of(in_a_row(*told))).compacted
    return [decode_verdict(value or b"") for value in found.values()]


# The slow, obviously right answer


def oracle(story: Sequence[tuple[int, Scene]]) -> dict[bytes, bytes]:
    """What must be found: for each subject a list of what holds at each tick, and the episodes of that list."""
    pictures = [naive_picture(scene, tick_ms) for tick_ms, scene in story]
    found: list[Episode] = []
    for peer in PEERS:
        found += _told(pictures, lambda p, peer=peer: p.silent.get(peer), _silent(peer))
        for way in ("hears", "heard"):

            def is_one_way(p: Picture, peer: bytes = peer, way: str = way) -> object:
                return UNTOLD if p.flow is None else (peer in getattr(p.flow, way) or None)

            found += _told(pictures, is_one_way, _one_way(peer, way))
    found += _told(pictures, lambda p: p.interval_ms, _undecidable)
    found += _told(pictures, lambda p: p.flow.parting if p.flow else UNTOLD, _split)
    return {verdict.key.encode(): encode_verdict(verdict) for verdict in found}


Make = Callable[[int, list[Any]], tuple[type[Episode], tuple[str, ...], dict[str, Any]]]


def _told(pictures: list[Picture], says: Callable[[Picture], object], make: Make) -> Iterator[Episode]:
    series = [says(picture) for picture in pictures]
    for opened, ended, held in naive_episodes(series):
        opened_ms = pictures[opened].tick_ms
        # What the verdict says after each tick at which the condition held; the first tick alone opens nothing.
        steps = [make(opened_ms, [series[at] for at in held[: count + 1]]) for count in range(1, len(held))]
        changed = [at for at, step, before in zip(held[1:], steps, [None, *steps], strict=False) if step != before]
        kind, subject, facts = steps[-1]
        yield kind(
            key=key_of(kind, SWARM_HEX, *subject, opened_ms),
            swarm=SWARM_HEX,
            config=CONFIG.digest,
            opened_ms=opened_ms,
            ended_ms=None if ended is None else pictures[ended].tick_ms,
            updated_ms=pictures[changed[-1] if ended is None else ended + 1].tick_ms,
            **facts,
        )


def _silent(peer: bytes) -> Make:
    return lambda _, held: (Silent, (peer.hex(),), {"author": peer.hex(), "since_ms": held[0]})


def _one_way(peer: bytes, way: str) -> Make:
    return lambda _, __: (OneWay, (peer.hex(),), {"author": peer.hex(), "direction": way})


def _undecidable(_: int, held: list[Any]) -> tuple[type[Episode], tuple[str, ...], dict[str, Any]]:
    return Undecidable, (), {"interval_ms": held[0], "split_after_ms": SPLIT_AFTER_MS}


def _split(opened_ms: int, held: list[Parting]) -> tuple[type[Episode], tuple[str, ...], dict[str, Any]]:

    def shown(one: Parting) -> tuple[object, tuple[Suspect, ...]]:
        suspects = {Suspect(author.hex(), why) for author, why in one.suspects}
        suspects |= {
            Suspect(author.hex(), "silent")
            for author, newest_ms in one.links.items()
            if newest_ms >= opened_ms - 2 * SPLIT_AFTER_MS
        }
        return tuple(tuple(peer.hex() for peer in side) for side in one.sides), tuple(sorted(suspects))

    opening, _ = sides, suspects = shown(held[0])
    for before, now in pairwise(map(shown, held)):
        if before == now:
            sides, suspects = now
    return (
        Split,
        (),
        {
            "sides_opening": opening,
            "sides": sides,
            "last_contact_ms": max(one.last_contact_ms for one in held),
            "suspects": suspects,
        },
    )


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[int, Scene]]:
    """A few scenes that come again and again, some after a pause."""
    cast = draw(st.lists(scenes(), min_size=1, max_size=3))
    tick_ms, story = START_MS, []
    for scene in draw(st.lists(st.sampled_from(cast), min_size=1, max_size=9)):
        story.append((tick_ms, scene))
        tick_ms += STEP_MS * draw(st.sampled_from([1, 1, 1, 1, 30]))
    return story


def batches_of(draw: st.DrawFn, reports: list[Report]) -> list[list[Report]]:
    """The same reports in any order, some of them several times, cut anywhere."""
    again = draw(st.lists(st.sampled_from(reports), max_size=4))
    batches: list[list[Report]] = [[]]
    for report in draw(st.permutations(reports + again)):
        if draw(st.booleans()):
            batches.append([])
        batches[-1].append(report)
    return batches


slow_ok = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow_ok
@given(stories())
def test_the_fold_finds_what_brute_force_finds(story: list[tuple[int, Scene]]) -> None:
    run = run_splits([report for tick in ticks_of(story) for report in tick])
    assert run.compacted == oracle(story)
    assert run.counts == {"ticks_judged": len(story), "reports_dropped": 0, "tick_gaps": 0}


@slow_ok
@given(st.data(), st.sampled_from([1, 2, 4]))
def test_any_order_duplication_batching_and_number_of_blocks_gives_the_same_bytes(
    data: st.DataObject, blocks: int
) -> None:
    story = data.draw(stories())
    reports = [report for tick in ticks_of(story, blocks) for report in tick]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("state.splits.CHUNK_BYTES", 200)
        run = Run()
        for batch in batches_of(data.draw, reports):
            run.absorb(batch, again=data.draw(st.booleans()))
    assert run.compacted == oracle(story)
    assert run.counts == {"ticks_judged": len(story), "reports_dropped": 0, "tick_gaps": 0}


@slow_ok
@given(stories())
def test_each_verdict_holds_all_that_was_said_under_its_key(story: list[tuple[int, Scene]]) -> None:
    """SPEC: DESIGN, verdicts: each one emitted holds the join of all before it; and none is said twice."""
    said: dict[bytes, Verdict] = {}
    for message in run_splits(*ticks_of(story)).said:
        verdict = decode_verdict(message.value or b"")
        before = said.get(message.key)
        assert before is None or join(before, verdict) == verdict != before
        said[message.key] = verdict


# Stories


WHOLE = meshes(peers(5), "abcde")
SPLIT = meshes(peers(5), "abc", "de")


def test_a_healthy_swarm_gives_no_verdict() -> None:
    assert verdicts(*[WHOLE] * 8) == []


def test_a_split_opens_at_its_first_tick_and_ends_at_the_first_tick_without_it() -> None:
    (split,) = verdicts(WHOLE, SPLIT, SPLIT, SPLIT, WHOLE, WHOLE)
    assert isinstance(split, Split)
    assert split.sides == ((A.hex(), B.hex(), C.hex()), (D.hex(), E.hex()))
    assert (split.opened_ms, split.ended_ms) == (START_MS + STEP_MS, START_MS + 4 * STEP_MS)


def test_a_split_that_flaps_from_tick_to_tick_is_none() -> None:
    assert verdicts(*[SPLIT, WHOLE] * 6) == []


def test_a_bridge_that_tells_each_side_another_story_is_found_as_the_liar_between_them() -> None:
    beings = [Being(A), Being(B), Being(C, b"\1"), Being(C, b"\2"), Being(D), Being(E)]
    (split,) = verdicts(*[meshes(beings, "abc", "def")] * 2)
    assert isinstance(split, Split)
    assert split.sides == ((A.hex(), B.hex()), (D.hex(), E.hex()))
    assert split.suspects == (Suspect(C.hex(), "forked"),)


def test_a_listener_is_one_way_and_a_suspect_of_the_split_that_it_does_not_hide() -> None:
    one_way, split = sorted(verdicts(*[meshes(peers(5), "ab", "cd", one_way="ae ce")] * 2), key=lambda v: v.key)
    assert isinstance(one_way, OneWay)
    assert (one_way.author, one_way.direction) == (E.hex(), "hears")
    assert isinstance(split, Split)
    assert split.suspects == (Suspect(E.hex(), "one_way"),)


def test_a_bridge_that_dies_is_silent_and_a_suspect() -> None:
    dead = [Being(A), Being(B), Being(C, newest_age_ms=OLD), Being(D), Being(E)]
    silent, split = sorted(verdicts(*[meshes(dead, "ab", "de")] * 2), key=lambda v: v.key)
    assert isinstance(silent, Silent)
    assert (silent.author, silent.since_ms) == (C.hex(), START_MS - OLD)
    assert isinstance(split, Split)
    assert split.suspects == (Suspect(C.hex(), "silent"),)


def test_a_swarm_that_wakes_up_after_a_pause_is_not_split_and_an_open_split_goes_on_over_it() -> None:
    waking = meshes([Being(peer, since_age_ms=100) for peer in PEERS[:5]])
    assert verdicts(WHOLE, waking, waking, waking, WHOLE) == []
    pause = [*in_a_row(SPLIT, SPLIT), *((START_MS + (90 + at) * STEP_MS, waking) for at in range(4))]
    found = [decode_verdict(value or b"") for value in run_splits(*ticks_of(pause)).compacted.values()]
    assert [verdict.ended_ms for verdict in found if isinstance(verdict, Split)] == [None]


def test_rare_noops_are_undecidable_and_no_split() -> None:
    rare = meshes(peers(2), "a", "b")
    rare.intervals_ms.extend([2000, 2000])
    (verdict,) = verdicts(rare, rare, rare)
    assert isinstance(verdict, Undecidable)
    assert (verdict.interval_ms, verdict.split_after_ms) == (2000, SPLIT_AFTER_MS)


# The chain of ticks


def test_a_tick_waits_for_all_its_blocks_and_for_the_tick_before_it() -> None:
    first, second = ticks_of(in_a_row(SPLIT, SPLIT), blocks=4)
    run = run_splits(second, first[:3])
    assert (run.said, run.counts["ticks_judged"]) == ([], 0)
    run.absorb(first[3:])
    assert len(run.said) == 1
    assert run.counts["ticks_judged"] == 2


def test_reports_of_a_tick_that_was_judged_change_nothing() -> None:
    ticks = ticks_of(in_a_row(*[SPLIT] * 3))
    run = run_splits(*ticks)
    before = run.blob
    run.absorb(ticks[0] + ticks[2])
    assert run.blob == before


def test_reports_of_another_swarm_are_not_taken() -> None:
    stranger = Report(b"\7" * 32, 0, 1, START_MS, 0, [], [], b"", b"", b"", b"", [], [])
    assert list(SplitsFold(CONFIG).route(Arrivals([], [], [stranger]))) == []


def test_reports_by_another_number_of_blocks_do_not_add_up() -> None:
    ((whole,),) = ticks_of(in_a_row(SPLIT), blocks=1)
    (halves,) = ticks_of(in_a_row(SPLIT), blocks=2)
    run = run_splits([halves[1]], [whole])
    assert run.counts == {"ticks_judged": 1, "reports_dropped": 1, "tick_gaps": 0}


@pytest.mark.parametrize("again", [True, False])
def test_places_in_the_archive_are_used_again_and_the_blob_stays_small(again: bool) -> None:
    run = Run()
    ticks = ticks_of(in_a_row(*[SPLIT] * 60), blocks=2)
    for one, other in ticks:
        run.absorb([one], again=again)
        run.absorb([one], again=again)
        assert run.archive.keys() == {b"sheet/0"}
        run.absorb([other], again=again)
        assert not run.archive.keys()
    assert run.counts["ticks_judged"] == 60
    assert run.blob is not None
    assert len(run.blob) < 900


def test_when_too_many_ticks_wait_and_none_is_complete_the_newest_are_dropped() -> None:
    ticks = ticks_of(in_a_row(*[WHOLE] * (WAITING_TICKS_MAX + 3)), blocks=2)
    run = run_splits([one for one, _ in ticks])
    assert run.counts == {"ticks_judged": 0, "reports_dropped": 3, "tick_gaps": 0}
    run.absorb([other for _, other in ticks[:WAITING_TICKS_MAX]])
    assert run.counts["ticks_judged"] == WAITING_TICKS_MAX


def test_when_too_many_ticks_wait_for_one_that_does_not_come_they_are_judged_without_it() -> None:
    ticks = ticks_of(in_a_row(*[SPLIT] * (WAITING_TICKS_MAX + 2)))
    run = run_splits(ticks[1] + ticks[2], [report for tick in ticks[3 : WAITING_TICKS_MAX + 1] for report in tick])
    assert run.counts["ticks_judged"] == 0
    run.absorb(ticks[WAITING_TICKS_MAX + 1])
    assert run.counts == {"ticks_judged": WAITING_TICKS_MAX + 1, "reports_dropped": 0, "tick_gaps": 1}
    assert len(run.compacted) == 1
