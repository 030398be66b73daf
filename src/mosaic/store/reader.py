"""Readers of a store: as many as you like, at any time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from mosaic.store import journal
from mosaic.store.access import Access
from mosaic.store.journal import Row, number
from mosaic.store.lineage import Lineage
from mosaic.store.plot import Curve
from mosaic.store.rollup import Bucket
from mosaic.store.rows import KINDS, AttemptInfo, PlotPoint, Progress, SeriesInfo

T = TypeVar("T")

_ATTEMPTS = f"SELECT {', '.join(AttemptInfo.__struct_fields__)} FROM attempts ORDER BY attempt"
_PROGRESS = (
    "SELECT last_step, total_steps, last_heard, last_heartbeat, rate FROM attempts ORDER BY attempt DESC LIMIT 1"
)


class RunReader:
    """Reads a run's store and never writes to it; made anywhere, at any time, also on a copied or read-only folder.

    Every method sees one consistent snapshot and what was committed up to its call. One reader may move between
    threads, but serves one call at a time.
    """

    def __init__(self, path: Path) -> None:
        """Raises StoreMissing, StoreForeign or StoreTooNew."""
        self._access = Access(path)
        self._names: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._access.close()

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Anything else: what `question` finds in one snapshot (`mosaic.store.schema` explains the tables).

        It may be asked again if a writer came in between, so it should only look.
        """
        return self._access.ask(question)

    def last_seq(self) -> int:
        """The newest row's number; 0 if there is none. Cheap: this is what followers poll."""
        last = self.ask(lambda database: database.execute("SELECT max(last_seq) FROM attempts").fetchone()[0])
        return 0 if last is None else int(last)

    def read(self, since: int = 0, *, kinds: Collection[str] | None = None, limit: int = 1000) -> list[Row]:
        """The first `limit` rows after `since`, in order of seq: all, or those of `kinds` (see `mosaic.store.KINDS`).

        Superseded rows are there and say so. Following is `since = rows[-1]["seq"]`. Raises ValueError on wrong kinds.
        """
        if unknown := sorted(set(kinds or ()).difference(KINDS)):
            raise ValueError(f"kinds: got {', '.join(unknown)}, allowed: {', '.join(KINDS)}")
        if kinds is not None and not kinds:
            return []
        limit = _positive("limit", limit)
        return self.ask(lambda database: self._read(database, max(since, 0), kinds, limit))

    def series(self) -> list[SeriesInfo]:
        """All metrics, by name."""
        return self.ask(_series)

    def plot(
        self, name: str, *, max_points: int = 2000, start: int | None = None, stop: int | None = None
    ) -> list[PlotPoint]:
        """The metric between the steps `start` and `stop` (both included), in at most `max_points` points.

        In ascending order of `step_min`; superseded points are left out; nothing else is: counts, minima and maxima
        are exact, means to float rounding. Few enough points come as they are, each with count 1 (or nan 1). An unknown
        name gives [].
        """
        max_points = _positive("max_points", max_points)

        def buckets(database: sqlite3.Connection) -> list[Bucket]:
            found = database.execute("SELECT id FROM series WHERE name = ?", (name,)).fetchone()
            return Curve(database, found[0]).buckets(Lineage(database), max_points, start, stop) if found else []

        return [_plot_point(bucket) for bucket in self.ask(buckets)]

    def attempts(self) -> list[AttemptInfo]:
        """All attempts, the oldest first."""
        return self.ask(lambda database: _attempts(database, _ATTEMPTS))

    def last_attempt(self) -> AttemptInfo | None:
        """The newest attempt: its state is the run's state while a shepherd lives."""
        found = self.ask(lambda database: _attempts(database, f"{_ATTEMPTS} DESC LIMIT 1"))
        return found[0] if found else None

    def counters(self, attempt: int | None = None) -> dict[str, int]:
        """What was odd, of one attempt or over all of them."""
        sql = "SELECT name, sum(count) FROM counters WHERE ?1 IS NULL OR attempt = ?1 GROUP BY name ORDER BY name"
        return self.ask(lambda database: dict(database.execute(sql, (attempt,)).fetchall()))

    def episodes(self, *, limit: int = 100, before: int | None = None) -> list[Row]:
        """The newest episodes that are not superseded, newest first; of those with a seq below `before`, for paging."""
        limit = _positive("limit", limit)
        return self.ask(lambda database: journal.newest_episodes(database, limit, before))

    def checkpoints(self) -> list[Row]:
        """All `checkpoint` rows, the oldest first, superseded ones too."""
        return self.ask(lambda database: journal.all_events(database, "checkpoint"))

    def stages(self) -> list[Row]:
        """All `stage` rows, the oldest first, superseded ones too."""
        return self.ask(lambda database: journal.all_events(database, "stage"))

    def logs(self, *, limit: int = 100, before: int | None = None, level: str | None = None) -> list[Row]:
        """The newest `log` rows, newest first; only those with a seq below `before`, for paging, or of one level."""
        limit = _positive("limit", limit)
        return self.ask(lambda database: journal.newest_logs(database, limit, before, level))

    def progress(self) -> Progress:
        """How far the run is; all None before its first attempt."""
        found = self.ask(lambda database: database.execute(_PROGRESS).fetchone())
        step, total, last_heard, last_heartbeat, rate = found or (None,) * 5
        return Progress(step=step, total=total, last_heard=last_heard, last_heartbeat=last_heartbeat, rate=rate)

    def _read(self, database: sqlite3.Connection, since: int, kinds: Collection[str] | None, limit: int) -> list[Row]:
        def name(id: int) -> str:
            if id not in self._names:
                self._names = dict(database.execute("SELECT id, name FROM series").fetchall())
            return self._names[id]

        return journal.read(database, since, kinds, limit, name)


def _series(database: sqlite3.Connection) -> list[SeriesInfo]:
    lineage = Lineage(database)
    infos = []
    for id, name in database.execute("SELECT id, name FROM series ORDER BY name").fetchall():
        for whole in Curve(database, id).buckets(lineage, 1, None, None):
            infos.append(
                SeriesInfo(
                    name=name,
                    points=whole.numbers + whole.nan,
                    first_step=whole.step_min,
                    last_step=whole.step_max,
                    last_value=number(whole.last),
                )
            )
    return infos


def _plot_point(bucket: Bucket) -> PlotPoint:
    empty = bucket.numbers == 0
    return PlotPoint(
        step_min=bucket.step_min,
        step_max=bucket.step_max,
        min=None if empty else number(bucket.min),
        max=None if empty else number(bucket.max),
        mean=None if empty else number(bucket.mean),
        count=bucket.numbers,
        nan=bucket.nan,
        last=number(bucket.last),
    )


def _attempts(database: sqlite3.Connection, sql: str) -> list[AttemptInfo]:
    fields = AttemptInfo.__struct_fields__
    return [AttemptInfo(**dict(zip(fields, row, strict=True))) for row in database.execute(sql)]


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name}: got {value}, allowed: 1 or more")
    return value
