"""Buckets of neighbouring points of one metric: how they are merged, and how the writer builds them."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

FACTOR = 8

Point = tuple[int, int, float]  # seq, step, value


class Bucket(NamedTuple):
    """Points of one metric. min, max and mean are of the `numbers` values that are not NaN; NaN if there are none."""

    first_seq: int
    seq: int
    step_min: int
    step_max: int
    numbers: int
    nan: int
    min: float
    max: float
    mean: float
    last: float


def of_point(seq: int, step: int, value: float) -> Bucket:
    if value != value:
        return Bucket(seq, seq, step, step, 0, 1, nan, nan, nan, nan)
    return Bucket(seq, seq, step, step, 1, 0, value, value, value, value)


def of_points(points: Sequence[Point]) -> Bucket:
    """The bucket of points in order of seq."""
    values = [value for _, _, value in points if value == value]
    steps = [step for _, step, _ in points]
    numbers = len(values)
    if numbers:
        share = 1.0 / numbers  # scaled before they are summed: no overflow
        extremes = (min(values), max(values), sum([value * share for value in values]))
    else:
        extremes = (nan, nan, nan)
    first, last = points[0], points[-1]
    return Bucket(first[0], last[0], min(steps), max(steps), numbers, len(points) - numbers, *extremes, last[2])


def merge(buckets: Sequence[Bucket]) -> Bucket:
    """One bucket out of several, in any order, that have no point in common."""
    if len(buckets) == 1:
        return buckets[0]
    first_seqs, seqs, step_mins, step_maxs, numbers, nans, minima, maxima, means, lasts = zip(*buckets, strict=True)
    total = sum(numbers)
    if total == 0:
        extremes = (nan, nan, nan)
    elif 0 in numbers:
        filled = merge([bucket for bucket in buckets if bucket.numbers])
        extremes = (filled.min, filled.max, filled.mean)
    else:
        mean = sum([mean * (number / total) for mean, number in zip(means, numbers, strict=True)])
        extremes = (min(minima), max(maxima), mean)
    seq = max(seqs)
    last = lasts[seqs.index(seq)]
    return Bucket(min(first_seqs), seq, min(step_mins), max(step_maxs), total, sum(nans), *extremes, last)


class Tail:
    """What the writer remembers of one metric in this attempt: the points and buckets that do not fill a bucket yet."""

    __slots__ = ("_buckets", "_points", "series")

    def __init__(self, series: int) -> None:
        self.series = series
        self._points: list[Point] = []
        self._buckets: list[list[Bucket]] = []

    def add(self, seq: int, step: int, value: float) -> list[tuple[int, Bucket]]:
        """Take the next point; return the buckets that it filled, each with its level."""
        points = self._points
        points.append((seq, step, value))
        if len(points) < FACTOR:
            return []
        bucket = of_points(points)
        points.clear()
        filled = [(1, bucket)]
        for level, waiting in enumerate(self._buckets, start=2):
            waiting.append(bucket)
            if len(waiting) < FACTOR:
                return filled
            bucket = merge(waiting)
            waiting.clear()
            filled.append((level, bucket))
        self._buckets.append([bucket])
        return filled
