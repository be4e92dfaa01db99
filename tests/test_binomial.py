"""Binomial tails: held against exact fractions, and for large numbers against a sum in decimals of sixty digits."""

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.binomial import log_upper_tails
from tests.bloomgraphs import laws

TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194989")
EPSILON = Decimal("1e-25")


def exact_tails(trials: int, chance: Fraction) -> list[Fraction]:
    """P(at least s) for s from 0 to the number of trials."""
    mass = [math.comb(trials, s) * chance**s * (1 - chance) ** (trials - s) for s in range(trials + 1)]
    return list(accumulate(reversed(mass)))[::-1]


def log_of(share: Fraction) -> float:
    if 1 - share < Fraction(1, 2):
        return math.log1p(-float(1 - share))
    return math.log(share.numerator) - math.log(share.denominator)


def log_factorial(number: int) -> Decimal:
    """By Stirling's series; ten terms are exact to fifty digits from 1,000 on."""
    if number < 1_000:
        return Decimal(math.factorial(number)).ln()
    bernoulli = ["1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510", "43867/798", "-174611/330"]
    n = Decimal(number)
    series = Decimal(0)
    for j, term in enumerate(map(Fraction, bernoulli), 1):
        series += Decimal(term.numerator) / term.denominator / (2 * j * (2 * j - 1) * n ** (2 * j - 1))
    return (n + Decimal("0.5")) * n.ln() - n + TWO_PI.ln() / 2 + series


def ratios(successes: int, trials: int, odds: Decimal) -> Iterator[Decimal]:
    """How likely further outcomes are beside `successes`, away from the mean."""
    rising = successes * (1 + odds) >= trials * odds
    term = Decimal(1)
    for s in range(successes, trials) if rising else range(successes, 0, -1):
        term *= Decimal(trials - s) / (s + 1) * odds if rising else Decimal(s) / (trials - s + 1) / odds
        yield term


def summed(successes: int, trials: int, counters: int) -> float:
    """The log of the tail for a chance of one by `counters`, from the outcomes one by one."""
    with localcontext() as context:
        context.prec = 60
        chance = Decimal(1 / counters)
        failures = trials - successes
        log_mass = log_factorial(trials) - log_factorial(successes) - log_factorial(failures)
        log_mass += successes * chance.ln() + failures * (1 - chance).ln()
        context.prec = 35
        total = Decimal(1)
        for term in ratios(successes, trials, chance / (1 - chance)):
            total += term
            if term < EPSILON * total:
                break
        log_part = log_mass + total.ln()
        if successes >= trials * chance:
            return float(log_part)
        return float((1 - (log_part.exp() - log_mass.exp())).ln())


def close(found: float, expected: float) -> bool:
    return abs(found - expected) <= 1e-12 * (1 + abs(expected))


@laws
@given(st.integers(0, 60), st.sampled_from([2, 3, 7, 64, 1_000, 65_536]))
def test_small_tails_are_those_of_exact_fractions(trials: int, counters: int) -> None:
    expected = [log_of(tail) for tail in exact_tails(trials, Fraction(1 / counters))]
    found = log_upper_tails(np.arange(trials + 1), trials, 1 / counters)
    assert all(map(close, found, expected))


MEANS = (10, 3_000, 200_000, 30_000_000)
LARGE = [(mean, counters, away) for mean in MEANS for counters in (2, 1_024) for away in (-5, -0.01, 0, 3, 40)]


@pytest.mark.parametrize(("mean", "counters", "away"), LARGE)
def test_large_tails_are_those_of_a_sum_of_outcomes(mean: int, counters: int, away: float) -> None:
    """With as many trials as give the mean, at so many standard deviations from it."""
    trials = mean * counters
    successes = min(max(1, mean + round(away * math.sqrt(mean))), trials - 1)
    found = log_upper_tails(np.array([successes]), trials, 1 / counters).item()
    assert close(found, summed(successes, trials, counters)), found


@laws
@given(st.integers(1, 2**48), st.integers(1, 65_536), st.lists(st.integers(0, 2**32), min_size=1))
def test_tails_of_any_size_are_chances_that_fall_with_the_height(
    trials: int, counters: int, heights: list[int]
) -> None:
    with np.errstate(all="raise", under="ignore"):
        found = log_upper_tails(np.array(sorted(heights)), trials, 1 / counters).tolist()
    assert not any(map(math.isnan, found))
    assert all(log <= 0 for log in found)
    assert all(higher <= lower or close(higher, lower) for lower, higher in pairwise(found))


def test_a_tail_is_certain_at_zero_and_impossible_above_the_trials() -> None:
    assert log_upper_tails(np.array([0, 5, 6]), 5, 0.25).tolist() == [0, 5 * math.log(0.25), -math.inf]
    assert log_upper_tails(np.array([0, 5, 6]), 5, 1.0).tolist() == [0, 0, -math.inf]
    assert log_upper_tails(np.array([0, 1]), 0, 0.25).tolist() == [0, -math.inf]
