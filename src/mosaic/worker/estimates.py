"""What a sample says about its mean, with its uncertainty. Needs NumPy; the rest of `mosaic.worker` does not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 5_000
# The normal distribution's quantile for that confidence.
_Z = 1.959964


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
    means = [sample[chance.integers(sample.size, size=sample.size)].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(float(sample.mean()), float(low), float(high), int(sample.size))


def share(successes: int, trials: int) -> Estimate:
    """A share with Wilson's interval, which stays sensible at 0 and 1."""
    if trials == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    rate = successes / trials
    centre = (rate + _Z**2 / (2 * trials)) / (1 + _Z**2 / trials)
    margin = _Z * math.sqrt(rate * (1 - rate) / trials + _Z**2 / (4 * trials**2)) / (1 + _Z**2 / trials)
    return Estimate(rate, max(0.0, centre - margin), min(1.0, centre + margin), trials)
