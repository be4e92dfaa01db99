"""What a Bloom clock tells of its own errors: the two estimates beside their definitions, and the choice of a size."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.bloom import COUNTERS_MAX, DEFAULT_PARAMETERS, HASHES_MAX, Clock, Parameters, Relation, recommend
from tests.bloomgraphs import chain, laws

counters_of_three = st.lists(st.integers(0, 4), min_size=3, max_size=3)


def clock(counters: list[int] | np.ndarray) -> Clock:
    return Clock(Parameters(len(counters), 1), np.array(counters, np.uint32))


def reached(counters: int, raises: int, height: int) -> Fraction:
    """How often, of all ways in which raises can fall, the first counter is at least so high."""
    ways = list(product(range(counters), repeat=raises))
    return Fraction(sum(way.count(0) >= height for way in ways), len(ways))


def share(counters: int, raises: int, height: int) -> Fraction:
    """The same for many raises, by the definition of the binomial distribution."""
    below = (math.comb(raises, s) * Fraction(counters - 1) ** (raises - s) for s in range(height))
    return 1 - sum(below, Fraction(0)) / Fraction(counters) ** raises


# The estimates.


@laws
@given(st.lists(st.integers(0, 2), min_size=2, max_size=3), st.data())
def test_estimates_are_what_all_ways_in_which_raises_can_fall_give(smaller: list[int], data: st.DataObject) -> None:
    larger = [one + data.draw(st.integers(0, 1)) for one in smaller]
    compared = clock(smaller).compare(clock(larger))
    chances = [reached(len(smaller), sum(larger), height) for height in smaller]
    touched = reached(len(smaller), sum(larger), 1) if sum(larger) else Fraction(0)
    assert compared.misra == pytest.approx(float(math.prod(chances)), rel=1e-12)
    assert compared.ramabaja == pytest.approx(float(touched ** sum(smaller)), rel=1e-12)


@laws
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.data())
def test_estimates_are_those_of_exact_fractions(smaller: list[int], data: st.DataObject) -> None:
    larger = [one + data.draw(st.integers(0, 40)) for one in smaller]
    compared = clock(smaller).compare(clock(larger))
    chances = [share(len(smaller), sum(larger), height) for height in smaller]
    touched = share(len(smaller), sum(larger), 1)
    assert compared.misra == pytest.approx(float(math.prod(chances)), rel=1e-10)
    assert compared.ramabaja == pytest.approx(float(touched ** sum(smaller)), rel=1e-10)


@laws
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 100, 10**4, 10**6, 10**9]), st.integers(1, 1024))
def test_estimates_of_clocks_of_any_height_are_chances(seed: int, height: int, counters: int) -> None:
    chance = np.random.default_rng(seed)
    smaller = chance.integers(0, height, counters)
    larger = smaller + chance.integers(0, 1 + height // chance.choice([1, 100]), counters)
    with np.errstate(all="raise", under="ignore"):
        compared = clock(smaller).compare(clock(larger))
        estimates = compared.misra, compared.ramabaja
    assert 0 <= estimates[0] <= estimates[1] * (1 + 1e-9) <= 1 + 1e-9
    assert estimates[1] <= 1


def test_estimates_of_clocks_with_counters_in_the_millions_keep_their_digits() -> None:
    base = np.full(64, 3_000_000)
    larger = clock(base + 2_000)
    one_high = base - 2_000_000
    one_high[7] = 3_001_000
    compared = clock(one_high).compare(larger)
    # one counter at 3,001,000 of a mean of 3,002,000: that is 0.5818 standard deviations below it
    assert compared.misra == pytest.approx(0.5 * math.erfc(-1_000.5 / math.sqrt(2 * 3_002_000 * 63 / 64)), rel=1e-3)
    assert compared.ramabaja == 1.0


def test_what_has_no_events_is_before_all_by_chance_one() -> None:
    compared = clock([0, 0]).compare(clock([3, 0]))
    assert compared.relation is Relation.BEFORE
    assert compared.misra == compared.ramabaja == 1
    assert clock([0, 0]).compare(clock([0, 0])).misra == 1


def test_concurrent_clocks_are_so_for_certain() -> None:
    compared = clock([0, 1]).compare(clock([1, 0]))
    assert compared.misra == compared.ramabaja == 0


# The choice of a size.

WANTED = [(5, 0.2, 1), (20, 0.05, 1), (12, 0.1, 2)]
ROUNDS = 1_000


def coincidences(parameters: Parameters, concurrent: int, lacking: int, shared: int) -> float:
    """How often a version with `lacking` events of its own looks before one with `concurrent` events of its own."""
    found = 0
    for number in range(ROUNDS):
        events = range(1_000 * number, 1_000 * (number + 1))
        past = chain(parameters, events[:shared])
        ours = chain(parameters, events[shared : shared + lacking], past)
        theirs = chain(parameters, events[500 : 500 + concurrent], past)
        found += ours.relation(theirs) in {Relation.BEFORE, Relation.EQUAL}
    return found / ROUNDS


@pytest.mark.parametrize(("concurrent", "chance", "lacking"), WANTED)
@pytest.mark.parametrize("shared", [0, 15])
def test_a_recommended_clock_reaches_its_chance(concurrent: int, chance: float, lacking: int, shared: int) -> None:
    parameters = recommend(concurrent_events=concurrent, chance_max=chance, lacking_events=lacking)
    assert coincidences(parameters, concurrent, lacking, shared) < chance + 3 * math.sqrt(chance / ROUNDS)


@pytest.mark.parametrize(("concurrent", "chance", "lacking"), WANTED)
def test_a_clock_of_half_the_recommended_size_misses_the_chance(concurrent: int, chance: float, lacking: int) -> None:
    parameters = recommend(concurrent_events=concurrent, chance_max=chance, lacking_events=lacking)
    halved = Parameters(parameters.counters // 2, parameters.hashes)
    assert coincidences(halved, concurrent, lacking, 0) > chance + 3 * math.sqrt(chance / ROUNDS)


@laws
@given(st.integers(1, 25), st.sampled_from([0.5, 0.1, 0.01]), st.integers(1, 4))
def test_no_smaller_clock_keeps_the_documented_limit(concurrent: int, chance: float, lacking: int) -> None:
    def limit(counters: int, hashes: int) -> float:
        covered = share(counters, hashes * concurrent, 1)
        return float(covered) ** (hashes * lacking)

    size, best = recommend(concurrent_events=concurrent, chance_max=chance, lacking_events=lacking)
    assert limit(size, best) <= chance * (1 + 1e-9)
    assert all(limit(size, hashes) > chance for hashes in range(1, best))
    assert all(limit(size - 1, hashes) > chance for hashes in range(1, HASHES_MAX + 1)) or size == 1


def test_the_default_keeps_what_its_documentation_says() -> None:
    counters, hashes = DEFAULT_PARAMETERS
    for concurrent, chance in ((53, 0.01), (194, 0.1)):
        assert share(counters, hashes * concurrent, 1) ** hashes <= chance
        assert share(counters, hashes * (concurrent + 1), 1) ** hashes > chance


def test_a_chance_that_no_clock_reaches_is_refused() -> None:
    for chance in (1e-3, 1e-300, 5e-324):
        with pytest.raises(ValueError, match=f"expected a chance that {COUNTERS_MAX} counters reach"):
            recommend(concurrent_events=10**9, chance_max=chance)


def test_a_version_that_lacks_very_much_is_told_by_a_small_clock() -> None:
    assert recommend(concurrent_events=100, chance_max=0.01, lacking_events=10**18).counters < 10
    assert recommend(concurrent_events=0, chance_max=0.5) == Parameters(2, 1)


@pytest.mark.parametrize("wrong", [(1, 0.0, 1), (1, 1.0, 1), (-1, 0.5, 1), (1, 0.5, 0), (1, math.nan, 1)])
def test_what_is_wanted_of_a_clock_must_be_possible(wrong: tuple[int, float, int]) -> None:
    concurrent, chance, lacking = wrong
    with pytest.raises(ValueError, match="expected 0 < chance_max < 1"):
        recommend(concurrent_events=concurrent, chance_max=chance, lacking_events=lacking)
