"""Any part of a metric in a few thousand points, out of the rollups.

The buckets of one attempt form a forest: the highest level first, then what follows it on the level below, down to
single points. Buckets that lie partly outside of the wanted steps are opened until every bucket is inside or out; then
the heaviest are opened until there are enough to draw; then neighbours are merged into at most `max_points`.
"""

from __future__ import annotations

import math
import sqlite3
from operator import itemgetter
from typing import NamedTuple

from mosaic.store.lineage import Lineage, Segment
from mosaic.store.rollup import FACTOR, Bucket, merge, of_point
from mosaic.store.schema import INTEGER_MAX, INTEGER_MIN

# How many buckets to read for one point of the plot, at most. The level below has FACTOR times as many as the one that
# is too coarse, so a plot has at least DETAIL / FACTOR of the points that it might have.
DETAIL = 3

_BUCKETS = """
    SELECT first_seq, seq, step_min, step_max, numbers, nan, min, max, mean, last FROM rollups
    WHERE series = ? AND level = ? AND seq BETWEEN ? AND ? ORDER BY seq
"""
_POINTS = "SELECT seq, step, value FROM points WHERE series = ? AND seq BETWEEN ? AND ? ORDER BY seq"


class Range(NamedTuple):
    """Steps, both ends included."""

    start: int
    stop: int

    def holds(self, bucket: Bucket) -> bool:
        return self.start <= bucket.step_min and bucket.step_max <= self.stop

    def touches(self, bucket: Bucket) -> bool:
        return self.start <= bucket.step_max and bucket.step_min <= self.stop


# Buckets by level; 0: single points.
Levels = list[list[Bucket]]


class Curve:
    """One metric of a store at one moment."""

    def __init__(self, database: sqlite3.Connection, series: int) -> None:
        self._database = database
        self._series = series

    def buckets(self, lineage: Lineage, max_points: int, start: int | None, stop: int | None) -> list[Bucket]:
        """The visible points between two steps, in at most `max_points` buckets, in order of step."""
        first = INTEGER_MIN if start is None else start
        last = INTEGER_MAX if stop is None else stop
        inside: Levels = []
        for segment in lineage.segments:
            if segment.visible:
                self._collect(segment, Range(first, min(last, segment.last_step)), inside)
        if not any(inside):
            return []
        self._open_heavy(inside, max_points)
        return _merge_neighbours([bucket for level in inside for bucket in level], max_points)

    def _collect(self, segment: Segment, steps: Range, inside: Levels) -> None:
        """Add the largest buckets that hold all points of the segment at these steps, and no others."""
        roots = self._roots(segment)
        inside.extend([] for _ in range(len(roots) - len(inside)))
        astride: list[Bucket] = []
        for level in reversed(range(len(roots))):
            buckets = roots[level] + self._children(level, astride)
            inside[level] += [bucket for bucket in buckets if steps.holds(bucket)]
            astride = [bucket for bucket in buckets if steps.touches(bucket) and not steps.holds(bucket)]

    def _roots(self, segment: Segment) -> Levels:
        """The buckets without a parent, by level."""
        first, last = segment.first_seq, segment.stop_seq - 1
        levels: Levels = []
        top = self._database.execute("SELECT max(level) FROM rollups WHERE series = ?", (self._series,)).fetchone()[0]
        for level in reversed(range((top or 0) + 1)):
            roots = self._read(level, first, last)
            if roots:
                first = roots[-1].seq + 1
            levels.append(roots)
        return levels[::-1]

    def _children(self, level: int, parents: list[Bucket]) -> list[Bucket]:
        """The buckets on `level` that the parents, on the level above, are made of."""
        children: list[Bucket] = []
        for parent in parents:
            children += self._read(level, parent.first_seq, parent.seq)
        return children

    def _read(self, level: int, first: int, last: int) -> list[Bucket]:
        if level == 0:
            found = self._database.execute(_POINTS, (self._series, first, last))
            return [of_point(seq, step, math.nan if value is None else value) for seq, step, value in found]
        found = self._database.execute(_BUCKETS, (self._series, level, first, last))
        new = tuple.__new__  # what _make does, in half the time
        return [new(Bucket, row) if None not in row else _with_nans(row) for row in found]

    def _open_heavy(self, inside: Levels, max_points: int) -> None:
        """Replace buckets that are too much for one point of the plot by their children, as affordable."""
        total = sum(len(buckets) * FACTOR**level for level, buckets in enumerate(inside))
        everything = [bucket for buckets in inside for bucket in buckets]
        span = max(1, max(b.step_max for b in everything) - min(b.step_min for b in everything))
        all_raw = total <= max_points
        budget = max(total if all_raw else 0, DETAIL * max_points) - len(everything)
        for level in reversed(range(1, len(inside))):
            # Half of a bucket's weight are its points, half its steps; this is as many steps as it may have.
            widest = -1.0 if all_raw else (2 * FACTOR / DETAIL / max_points - FACTOR**level / total) * span
            heavy = [bucket for bucket in inside[level] if bucket.step_max - bucket.step_min > widest]
            affordable = max(budget // (FACTOR - 1), 0)
            if len(heavy) > affordable:
                heavy.sort(key=lambda bucket: bucket.step_min - bucket.step_max)
                del heavy[affordable:]
            budget -= len(heavy) * (FACTOR - 1)
            opened = {bucket.seq for bucket in heavy}
            inside[level - 1] += self._children(level - 1, heavy)
            inside[level] = [bucket for bucket in inside[level] if bucket.seq not in opened]


def _with_nans(row: tuple[float | None, ...]) -> Bucket:
    return Bucket._make(math.nan if value is None else value for value in row)


def _merge_neighbours(buckets: list[Bucket], max_points: int) -> list[Bucket]:
    """At most `max_points` buckets, of about the same weight, in order of step.

    Half of a bucket's weight are its points, half the steps to the next one, so that sparse parts keep their shape.
    """
    buckets.sort(key=itemgetter(2, 3, 1))  # step_min, step_max, seq
    if len(buckets) <= max_points:
        return buckets
    start, end = buckets[0].step_min, buckets[-1].step_max
    by_point = max_points / 2 / sum(bucket.numbers + bucket.nan for bucket in buckets)
    by_step = max_points / 2 / max(end - start, 1)
    groups: list[list[Bucket]] = [[] for _ in range(max_points)]
    before = 0
    for bucket in buckets:
        position = before * by_point + (bucket.step_min - start) * by_step
        groups[min(int(position), max_points - 1)].append(bucket)
        before += bucket.numbers + bucket.nan
    return [merge(group) for group in groups if group]
