"""What a sample says about its mean, with its uncertainty. Needs NumPy; the rest of `mosaic.worker` does not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 5_000
_DRAWS_AT_ONCE = 100_000
# The normal distribution's quantile for that confidence, and Student's for 1, 2, 3, ... degrees of freedom.
_Z = 1.959964
_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)


@dataclass(frozen=True)
class Estimate:
    """A mean, or a share, with its 95% confidence interval."""

    value: float
    low: float
    high: float
    count: int


def mean_of(values: Iterable[float]) -> Estimate:
    """The mean, with a bootstrap interval: returns are rarely normal."""
    sample = np.fromiter(values, float)
    if sample.size == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    chance = np.random.default_rng(0)
    rows = max(1, min(RESAMPLES, _DRAWS_AT_ONCE // sample.size))
    means = np.empty(RESAMPLES)
    for first in range(0, RESAMPLES, rows):
        part = means[first : first + rows]
        part[:] = sample[chance.integers(sample.size, size=(part.size, sample.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(sample.mean()), float(low), float(high), int(sample.size))


def mean_of_few(values: Iterable[float]) -> Estimate:
    """The mean of a handful of values, such as one for each seed, with Student's interval: a bootstrap is too sure."""
    sample = np.fromiter(values, float)
    count = int(sample.size)
    if count < 2:
        return Estimate(float(sample[0]) if count else math.nan, math.nan, math.nan, count)
    mean, error = float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(count)
    margin = (_T[count - 2] if count - 2 < len(_T) else _Z) * error
    return Estimate(mean, mean - margin, mean + margin, count)


def share(successes: int, trials: int) -> Estimate:
    """A share with Wilson's interval, which stays sensible at 0 and 1."""
    if trials == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    rate = successes / trials
    centre = (rate + _Z**2 / (2 * trials)) / (1 + _Z**2 / trials)
    margin = _Z * math.sqrt(rate * (1 - rate) / trials + _Z**2 / (4 * trials**2)) / (1 + _Z**2 / trials)
    return Estimate(rate, max(0.0, centre - margin), min(1.0, centre + margin), trials)
