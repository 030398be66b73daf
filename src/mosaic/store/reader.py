"""Readers of a store: as many as you like, at any time."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mosaic.store.rows import AttemptInfo, PlotPoint, Progress, SeriesInfo

# A journal row, ready for JSON: {"seq", "attempt", "type", "time", ...all fields of the message, defaults included},
# and "superseded": True if a later attempt resumed from before it. Numbers that JSON cannot say are strings.
Row = dict[str, Any]


class RunReader:
    """Reads a run's store and never writes to it; made anywhere, at any time, also on a copied or read-only folder.

    Every method sees one consistent snapshot and what was committed up to its call. One reader may move between
    threads, but serves one call at a time.
    """

    def __init__(self, path: Path) -> None:
        """Raises StoreMissing, StoreForeign or StoreTooNew."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError

    def last_seq(self) -> int:
        """The newest row's number; 0 if there is none. Cheap: this is what followers poll."""
        raise NotImplementedError

    def read(self, since: int = 0, *, kinds: Collection[str] | None = None, limit: int = 1000) -> list[Row]:
        """The first `limit` rows after `since`, in order of seq: of all kinds, or of `kinds` (see `mosaic.store.KINDS`).

        Superseded rows are there and say so. Following is `since = rows[-1]["seq"]`. Raises ValueError on unknown kinds.
        """
        raise NotImplementedError

    def series(self) -> list[SeriesInfo]:
        """All metrics, by name."""
        raise NotImplementedError

    def plot(
        self, name: str, *, max_points: int = 2000, start: int | None = None, stop: int | None = None
    ) -> list[PlotPoint]:
        """The metric between the steps `start` and `stop` (both included), in at most `max_points` points.

        In ascending order of `step_min`; superseded points are left out; nothing else is: counts, minima and maxima
        are exact, means to float rounding. Few enough points come as they are, each with count 1. An unknown name gives [].
        """
        raise NotImplementedError

    def attempts(self) -> list[AttemptInfo]:
        """All attempts, the oldest first."""
        raise NotImplementedError

    def last_attempt(self) -> AttemptInfo | None:
        """The newest attempt: its state is the run's state while a shepherd lives."""
        raise NotImplementedError

    def counters(self, attempt: int | None = None) -> dict[str, int]:
        """What was odd, of one attempt or over all of them."""
        raise NotImplementedError

    def episodes(self, *, limit: int = 100, before: int | None = None) -> list[Row]:
        """The newest episodes that are not superseded, newest first; only those with a seq below `before`, for paging."""
        raise NotImplementedError

    def checkpoints(self) -> list[Row]:
        """All `checkpoint` rows, the oldest first, superseded ones too."""
        raise NotImplementedError

    def stages(self) -> list[Row]:
        """All `stage` rows, the oldest first, superseded ones too."""
        raise NotImplementedError

    def logs(self, *, limit: int = 100, before: int | None = None, level: str | None = None) -> list[Row]:
        """The newest `log` rows, newest first; only those with a seq below `before`, for paging, or of one level."""
        raise NotImplementedError

    def progress(self) -> Progress:
        """How far the run is; all None before its first attempt."""
        raise NotImplementedError
