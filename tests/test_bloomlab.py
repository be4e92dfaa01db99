"""The lab that measures Bloom clocks: its matrices against `state.bloom` and brute force; its figures on the page."""

from functools import cache, reduce

import numpy as np
import pytest

from state.bloom import Clock, Parameters, Relation
from tests.bloomexperiment import (
    PAGE,
    PLOT,
    PLOTTED,
    RATIOS,
    SIZES,
    bin_rows,
    calibration,
    compare,
    outcome_rows,
    plot,
    size_rows,
)
from tests.bloomlab import NOBODY, Comparisons, History, Setup, simulate


@cache
def small(internal: float = 0.3) -> History:
    return simulate(Setup(6, internal))


def compared(counters: int, hashes: int = 2) -> Comparisons:
    return Comparisons(small(), Parameters(counters, hashes))


@cache
def clocks(parameters: Parameters) -> list[Clock]:
    """The stamps of the events that are looked at, made one by one."""
    history, made = small(), list[Clock]()
    for event, parents in enumerate(history.parents):
        known = [made[parent] for parent in parents if parent != NOBODY]
        made.append(reduce(Clock.merge, known, Clock.zero(parameters)).after(history.ids[event]))
    return [made[event] for event in history.looked_at]


@pytest.mark.parametrize("counters", [1, 3, 12, 60])
def test_the_stamps_are_those_of_bloom_clocks(counters: int) -> None:
    one = compared(counters)
    assert one.stamps.tolist() == [clock.counters.tolist() for clock in clocks(one.parameters)]


def test_the_truth_is_what_can_be_reached_through_parents() -> None:
    history = small()
    pasts: list[set[int]] = []
    for event, parents in enumerate(history.parents):
        pasts.append({event}.union(*(pasts[parent] for parent in parents if parent != NOBODY)))
    looked = history.looked_at.tolist()
    assert history.before.tolist() == [[y != z and y in pasts[z] for z in looked] for y in looked]
    assert 0.1 < history.before.mean() < 0.5


@pytest.mark.parametrize("counters", [3, 12, 60])
def test_relations_and_estimates_are_those_of_bloom_clocks(counters: int) -> None:
    one = compared(counters)
    stamps = clocks(one.parameters)
    for y, z in np.argwhere(one.all_pairs):
        found = stamps[y].compare(stamps[z])
        looks = found.relation in {Relation.BEFORE, Relation.EQUAL}
        assert one.looks_before[y, z] == looks
        if looks:
            assert one.ramabaja[y, z] == pytest.approx(found.ramabaja, rel=1e-9)
            assert one.misra[y, z] == pytest.approx(found.misra, rel=1e-9)


def test_each_event_has_the_one_before_it_in_its_process_as_a_parent_and_what_it_receives() -> None:
    history = small()
    newest: dict[int, int] = {}
    received = set()
    for event, (author, (own, heard)) in enumerate(zip(history.authors, history.parents, strict=True)):
        assert own == newest.get(author, NOBODY)
        newest[author] = event
        if heard != NOBODY:
            assert history.authors[heard] != author
            assert heard < event
            assert heard not in received
            received.add(heard)
    assert len(received) > len(history.parents) / 4


def test_outcomes_count_each_pair_once_and_no_clock_misses_an_ancestor() -> None:
    one = compared(12)
    found = one.outcome(one.all_pairs)
    looked = len(small().looked_at)
    assert sum(found) == looked * (looked - 1)
    assert sum(one.outcome(one.later_pairs)) == looked * (looked - 1) // 2
    assert found.false_negatives == 0
    assert found.true_positives == small().before.sum()
    assert found.accuracy == 1 - found.false_positives / sum(found)
    assert found.false_positives > 0


def test_the_page_has_the_figures_of_the_smallest_run() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = [*outcome_rows(50), *size_rows()]
    assert len(rows) == len(RATIOS) + len(SIZES)
    assert all(row in page for row in rows), "run `python -m tests.bloomexperiment`"


@pytest.mark.slow
def test_the_page_and_the_plot_have_the_figures_of_the_run_that_is_plotted() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(row in page for row in [*outcome_rows(PLOTTED), *bin_rows(*calibration())])
    assert PLOT.read_text(encoding="utf-8") == plot(), "run `python -m tests.bloomexperiment`"


@pytest.mark.slow
def test_the_bins_hold_all_pairs_that_look_before() -> None:
    history = simulate(Setup(100))
    later = [compare(history, ratio) for ratio in RATIOS]
    looks = sum(int((one.later_pairs & one.looks_before).sum()) for one in later)
    wrong = sum(one.outcome(one.later_pairs).false_positives for one in later)
    for bins in calibration():
        assert (sum(one.pairs for one in bins), sum(one.wrong for one in bins)) == (looks, wrong)
