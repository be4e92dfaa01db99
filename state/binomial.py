"""The upper tail of the binomial distribution, as a logarithm, for any size: P(at least `successes` of `trials`).

No sum over outcomes, no gamma functions of large numbers: of millions, the one is slow and the other loses its digits.
- With t = p eᵘ the incomplete beta function is  tail = successes · P(exactly successes) · ∫ exp(f(u)) du  over u < 0,
  f(u) = successes · u + failures · log((1 - p eᵘ) / (1 - p)),  and one minus the tail is the same integral over u > 0.
- f is concave and 0 at 0. The side on which it falls from there is the lesser part: that one is integrated, as far as
  it counts, at a fixed number of points. So the cost does not depend on the numbers, and tiny tails keep their digits.
- P(exactly) is Stirling's formula with its error term and the deviance written so that nothing large is subtracted.
The error of a logarithm x is below 10⁻¹² · (1 + |x|), measured up to 10⁸ successes.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(40)
"""With 40 points the integral of exp from 0 to -40, the worst that is left of f, has an error below 10⁻¹⁴."""
_DEPTH = 40.0
"""What lies below exp(-40) of the greatest value is lost in rounding anyway."""
_SMALL = 16
"""Below it, the error of Stirling's formula is taken from a table, because its series is not yet exact."""

_STIRLING_ERRORS = np.array(
    [0.0, *(math.lgamma(n + 1) - ((n + 0.5) * math.log(n) - n + math.log(2 * math.pi) / 2) for n in range(1, _SMALL))]
)


def log_upper_tails(successes: NDArray[np.integer], trials: int, chance: float) -> Floats:
    """The log of P(Binomial(trials, chance) ≥ s) for each s. Requires 0 < chance ≤ 1, successes ≥ 0."""
    logs = np.zeros(len(successes))
    logs[successes > trials] = -math.inf
    if chance >= 1:
        return logs
    logs[successes == trials] = trials * math.log(chance)
    between = (successes > 0) & (successes < trials)
    if between.any():
        logs[between] = _inner_tails(successes[between].astype(np.float64), float(trials), chance)
    return logs


def _inner_tails(successes: Floats, trials: float, chance: float) -> Floats:
    """The same for 0 < s < trials."""
    is_upper = successes >= trials * chance
    log_part = (
        np.log(successes)
        + _log_exactly(successes, trials, chance)
        + np.log(_integral(successes, trials - successes, chance, np.where(is_upper, -1.0, 1.0)))
    )
    part = np.exp(np.minimum(log_part, 0.0))
    with np.errstate(divide="ignore"):  # where the tail itself was integrated, the other value is not used
        return np.where(is_upper, np.minimum(log_part, 0.0), np.log1p(-part))


def _log_exactly(successes: Floats, trials: float, chance: float) -> Floats:
    """The log of P(exactly s), in Loader's saddle-point form."""
    failures = trials - successes
    excess = successes - trials * chance
    deviance = _deviance(successes, trials * chance, excess) + _deviance(failures, trials * (1 - chance), -excess)
    stirling = _stirling_error(np.array([trials])) - _stirling_error(successes) - _stirling_error(failures)
    return stirling - deviance + 0.5 * np.log(trials / (2 * math.pi * successes * failures))


def _deviance(found: Floats, expected: float, excess: Floats) -> Floats:
    """The value of found · log(found / expected) - excess; a ratio near 1 enters as its distance to 1."""
    return found * np.log1p(excess / expected) - excess


def _stirling_error(numbers: Floats) -> Floats:
    """The log of n! less Stirling's formula. Requires n ≥ 1."""
    inverse = 1 / np.maximum(numbers, _SMALL)
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    table = _STIRLING_ERRORS[np.minimum(numbers, _SMALL - 1).astype(np.int64)]
    return np.where(numbers < _SMALL, table, series)


def _integral(successes: Floats, failures: Floats, chance: float, sides: Floats) -> Floats:
    """∫ exp(f(u)) du from 0 towards the side (-1 or 1) on which f falls."""
    widths = _widths(successes, failures, chance, sides)
    at = (sides * widths)[:, None] * ((_POINTS + 1) / 2)
    return widths / 2 * (np.exp(_log_ratio(successes[:, None], failures[:, None], chance, at)) @ _WEIGHTS)


def _log_ratio(successes: Floats, failures: Floats, chance: float, at: Floats) -> Floats:
    """f(u): zero at zero, concave."""
    return successes * at + failures * np.log1p(-chance / (1 - chance) * np.expm1(at))


def _widths(successes: Floats, failures: Floats, chance: float, sides: Floats) -> Floats:
    """How far from 0 f falls to -40 or somewhat below: what its curvature at 0 suggests, then two steps of Newton's
    method, which on a concave function end on the far side.
    """
    curvature = failures * chance / (1 - chance) ** 2
    width = np.sqrt(2 * _DEPTH / curvature)
    edge = -math.log(chance) * (1 - 1e-9)
    for _ in range(2):
        width = np.where(sides > 0, np.minimum(width, edge), width)
        odds = chance * np.exp(sides * width)
        slope = sides * (successes - failures * odds / (1 - odds))
        width -= (_DEPTH + _log_ratio(successes, failures, chance, sides * width)) / slope
    return width
