"""Means and shares with their uncertainty."""

import math

import numpy as np
import pytest

from mosaic.worker.estimates import mean_of, mean_of_few, share


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says() -> None:
    chance = np.random.default_rng(1)
    estimates = [mean_of(chance.exponential(2.0, size=50)) for _ in range(200)]
    held = sum(estimate.low <= 2.0 <= estimate.high for estimate in estimates)
    assert 0.87 <= held / len(estimates) <= 0.99  # nominally 0.95; a skewed sample of 50 comes a little short of it


def test_the_same_sample_gives_the_same_interval() -> None:
    assert mean_of([1.0, 2.0, 4.0]) == mean_of([1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (45, 50, 0.7864, 0.9565)]
)
def test_shares_have_wilsons_interval(successes: int, trials: int, low: float, high: float) -> None:
    estimate = share(successes, trials)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-4)


def test_nothing_says_nothing() -> None:
    for estimate in (mean_of([]), share(0, 0)):
        assert math.isnan(estimate.value)
        assert estimate.count == 0


def test_a_handful_of_values_has_students_interval() -> None:
    # 2.7764, Student's quantile for 4 degrees of freedom, times the standard error.
    few = mean_of_few([1, 2, 3, 4, 10])
    assert (few.value, few.count) == (4.0, 5)
    assert (few.low, few.high) == pytest.approx((-0.3899, 8.3899), abs=1e-3)
    many = mean_of_few(range(200))
    assert many.high - many.value == pytest.approx(1.96 * 57.879 / 200**0.5, rel=1e-3)
    for count, alone in ((1, mean_of_few([7.0])), (0, mean_of_few([]))):
        assert alone.count == count and math.isnan(alone.low) and math.isnan(alone.high)
