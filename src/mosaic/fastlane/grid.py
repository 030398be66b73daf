"""The `grid` stream: several environments of one process in one picture."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.fastlane.frames import Tiling, normalise
from mosaic.fastlane.lane import Lane, Metrics
from mosaic.fastlane.settings import Settings
from mosaic.fastlane.streams import GRID
from mosaic.fastlane.writer import NAN, Pixels

if TYPE_CHECKING:
    from mosaic.fastlane.hooks import Hook


class _GridCoordinator:
    """Slot 0, or the lowest still open, renders all the others when the grid is due and tiles them into the ring."""

    def __init__(self, settings: Settings) -> None:
        self.lane = Lane(settings, (GRID,))
        self._max_dim = settings.max_dim
        self._limit = settings.grid_limit
        self._members: dict[int, weakref.ref[Hook]] = {}
        self._tiling: Tiling | None = None
        self._frame_step = 0  # the leader's step at the last frame

    @classmethod
    def join(cls, hook: Hook, settings: Settings) -> _GridCoordinator:
        grid = _grids.get(settings.directory)
        if grid is None or grid.lane.off:
            grid = cls(settings)
            _grids[settings.directory] = grid
        grid._members[hook.slot] = weakref.ref(hook)
        return grid

    def leave(self, hook: Hook) -> None:
        self._members.pop(hook.slot, None)
        if not self._alive():
            self.lane.close()

    def is_due(self, hook: Hook, now_ns: int) -> bool:
        worked = hook.worked_ns(min(self._frame_step, hook._steps))  # the leader may have changed
        return self._leader() is hook and self.lane.is_due(now_ns, worked)

    def look(self, hook: Hook, now_ns: int) -> None:
        """One member's look at the clock: the leader draws when the grid is due."""
        if not self.is_due(hook, now_ns):
            return
        # A renderer belongs to the thread that steps it (OpenGL insists); members elsewhere are left out.
        here = threading.get_ident()
        members = [member for member in self._alive() if member._started and member._thread == here]
        self.lane.guard(lambda: self._draw(members))
        self._frame_step = hook._steps

    def _draw(self, members: list[Hook]) -> None:
        rendered = [picture for member in members for picture in member.pictures()]
        frames: list[Pixels] = [normalise(frame) for frame in rendered[: self._limit] if frame is not None]
        if not frames:
            return
        shapes = tuple(frame.shape for frame in frames)
        if self._tiling is None or self._tiling.shapes != shapes:
            self._tiling = Tiling(shapes, self._max_dim)
        with self.lane.canvas(self._tiling.shape, self._metrics(members)) as out:
            self._tiling.draw(frames, out)

    def _alive(self) -> list[Hook]:
        return [hook for slot in sorted(self._members) if (hook := self._members[slot]()) is not None]

    def _leader(self) -> Hook | None:
        return next((hook for hook in self._alive() if hook._started), None)

    @staticmethod
    def _metrics(members: list[Hook]) -> Metrics:
        each = [member.metrics() for member in members]
        known = [one.rolling_return for one in each if one.rolling_return == one.rolling_return]
        return Metrics(
            episode=sum(one.episode for one in each),
            step=sum(one.step for one in each),
            last_reward=each[0].last_reward,
            rolling_return=sum(known) / len(known) if known else NAN,
            step_rate_hz=sum(one.step_rate_hz for one in each),
        )


_grids: weakref.WeakValueDictionary[Path | None, _GridCoordinator] = weakref.WeakValueDictionary()
