"""Which attempt a row belongs to, and which rows a later attempt has superseded."""

from __future__ import annotations

import math
import sqlite3
from bisect import bisect_right
from typing import NamedTuple

from mosaic.store.schema import INTEGER_MAX


class Segment(NamedTuple):
    """The rows of one attempt: seqs from `first_seq` to before `stop_seq`. Steps past `cutoff` are superseded."""

    attempt: int
    first_seq: int
    stop_seq: int
    cutoff: float  # an int, or an infinity

    @property
    def visible(self) -> bool:
        return self.first_seq < self.stop_seq and self.cutoff != -math.inf

    @property
    def last_step(self) -> int:
        """The cutoff as SQL can compare it."""
        return INTEGER_MAX if self.cutoff == math.inf else int(self.cutoff)


class Lineage:
    """All attempts of a run at one moment."""

    def __init__(self, database: sqlite3.Connection) -> None:
        rows = database.execute("SELECT attempt, first_seq, resumed_step FROM attempts ORDER BY attempt").fetchall()
        segments = []
        cutoff, stop = math.inf, INTEGER_MAX
        for attempt, first_seq, resumed_step in reversed(rows):
            segments.append(Segment(attempt, first_seq, stop, cutoff))
            cutoff = min(cutoff, -math.inf if resumed_step is None else resumed_step)
            stop = first_seq
        self.segments = segments[::-1]
        self._starts = [segment.first_seq for segment in self.segments]

    def of(self, seq: int) -> Segment:
        return self.segments[bisect_right(self._starts, seq) - 1]
