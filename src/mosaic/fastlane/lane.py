"""One stream as a training loop sees it: is a frame due, take this one, and never, ever get in the way."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from mosaic.fastlane.frames import Shrinker, normalise, shrink_factor, shrunk_shape
from mosaic.fastlane.layout import FastLaneError, StreamTaken
from mosaic.fastlane.settings import Settings
from mosaic.fastlane.streams import prepare_directory, stream_path
from mosaic.fastlane.writer import NAN, FastLaneWriter, Pixels

UNWATCHED_INTERVAL_NS = 1_000_000_000
UNWATCHED_BUDGET = 0.002
_EMPTY_RENDERS = 50
_log = logging.getLogger("mosaic.fastlane")


class Metrics(NamedTuple):
    """What a frame says about its moment, in the order of `FastLaneWriter.publish`."""

    episode: int = 0
    step: int = 0
    last_reward: float = 0.0
    rolling_return: float = NAN
    step_rate_hz: float = 0.0
    agent: bytes = b""
    extra: bytes = b""


class Lane:
    """Throttles and publishes one stream. Whatever goes wrong turns it off, with one line in the log.

    While somebody watches, frames are `interval_ms` apart, or further where rendering is so slow that it would take
    more than the budget's share of the time. While nobody does, about one a second, so that who comes finds a
    picture.
    """

    def __init__(self, settings: Settings, names: Iterable[str]) -> None:
        self.settings = settings
        self.names = tuple(names)  # the first that no other process holds is taken, when the first frame comes
        self.off = not settings.is_on or not self.names
        self._writer: FastLaneWriter | None = None
        self._shrinker = Shrinker()
        self._last_ns = 0
        self._warm = False
        self._costs: deque[int] = deque(maxlen=5)
        self._cost_ns = 0
        self._empty = 0
        _lanes.add(self)

    def is_watched(self, now_ns: int) -> bool:
        return self._writer is not None and self._writer.is_watched(now_ns)

    def period_ns(self, now_ns: int) -> int:
        """How far apart frames are at present."""
        return max(self._terms(now_ns))

    def is_due(self, now_ns: int, worked_ns: int) -> bool:
        """Whether to make a frame now, when the training loop has worked for `worked_ns` since the last one.

        The work is what the budget is a share of: a process that does something else meanwhile earns no frames by it.
        """
        if self.off:
            return False
        interval, earned = self._terms(now_ns)
        return now_ns >= self._last_ns + interval and worked_ns >= earned

    def _terms(self, now_ns: int) -> tuple[int, int]:
        """The shortest time from frame to frame, and how much work a frame must be earned by."""
        if self.is_watched(now_ns):
            return int(self.settings.interval_ms * 1e6), int(self._cost_ns / self.settings.budget)
        return UNWATCHED_INTERVAL_NS, int(self._cost_ns / UNWATCHED_BUDGET)

    def emit(self, render: Callable[[], Any], metrics: Callable[[], Metrics]) -> None:
        """Render one frame and publish it."""

        def draw() -> None:
            frame = render()
            if frame is not None:
                self.publish(frame, metrics())
                return
            self._empty += 1
            if self._empty >= _EMPTY_RENDERS and self._writer is None:
                raise FastLaneError("render() gives no pictures (render_mode must be 'rgb_array')")

        self.guard(draw)

    def guard(self, action: Callable[[], None]) -> None:
        """Do what makes a frame, take its time, and turn the lane off should it fail."""
        if self.off:
            return
        start = time.monotonic_ns()
        try:
            action()
        except StreamTaken as error:
            _log.debug("fastlane: %s", error)
            self.close()
        except Exception as error:  # a renderer is other people's code: whatever it raises, the training goes on
            self.turn_off(f"{type(error).__name__}: {error}")
        self._last_ns = time.monotonic_ns()
        if self._warm:
            self._costs.append(self._last_ns - start)
            self._cost_ns = sorted(self._costs)[len(self._costs) // 4]  # the others may have met other processes
        self._warm = True  # the first rendering opens windows and loads fonts: it says nothing about the next

    def publish(self, frame: Any, metrics: Metrics) -> None:
        """Publish a picture of any usual form and size, shrunk where it is larger than it may be.

        For use under `guard`.
        """
        pixels = normalise(frame)
        factor = shrink_factor(pixels.shape[0], pixels.shape[1], self.settings.max_dim)
        if factor == 1:
            self._writer_for(pixels.shape).publish(pixels, *metrics)
            return
        with self.canvas(shrunk_shape(pixels.shape, factor), metrics) as target:
            self._shrinker.shrink(pixels, factor, target)

    def canvas(self, shape: tuple[int, int, int], metrics: Metrics) -> AbstractContextManager[Pixels]:
        """The ring's next slot, to draw a frame of this shape into. For use under `guard`."""
        return self._writer_for(shape).frame_buffer(*metrics)

    def turn_off(self, reason: str) -> None:
        """End the stream for good and say why, once."""
        if not self.off:
            _log.warning("fastlane %s off: %s", self.names[0] if self.names else "", " ".join(reason.split()))
        self.close()

    def close(self) -> None:
        self.off = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def leave_to_parent(self) -> None:
        """In a forked child: the ring is the parent's; should frames come here too, they get a stream of their own."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None

    def _writer_for(self, shape: tuple[int, ...]) -> FastLaneWriter:
        height, width, channels = shape
        if self._writer is None:
            self._writer = self._open((height, width, channels))
        elif self._writer.shape != shape:
            self._writer.reopen((height, width, channels))
        return self._writer

    def _open(self, shape: tuple[int, int, int]) -> FastLaneWriter:
        directory = self.settings.directory
        if directory is None:
            raise FastLaneError("no directory of streams")
        prepare_directory(directory)
        for name in self.names:
            try:
                return FastLaneWriter(stream_path(directory, name), shape)
            except StreamTaken:
                continue
        raise StreamTaken(f"streams {', '.join(self.names)}: all written by other living processes")


_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()


def _forked() -> None:
    for lane in list(_lanes):
        lane.leave_to_parent()


os.register_at_fork(after_in_child=_forked)
