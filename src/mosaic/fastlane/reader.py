"""The reading end of a ring: takes the newest whole frame, never in the writer's way."""

from __future__ import annotations

import json
import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from mosaic.fastlane import layout
from mosaic.fastlane.barriers import reader_fence
from mosaic.fastlane.layout import FastLaneError, Header
from mosaic.fastlane.writer import Pixels, is_written

_HEARTBEAT_EVERY_NS = 250_000_000
_LOOK_FOR_SUCCESSOR_NS = 250_000_000
_ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """What a slot says about its frame. Numbers nobody measured are NaN (rolling_return before the first episode)."""

    generation: int
    number: int
    wall_ns: int
    monotonic_ns: int
    episode: int
    step: int
    last_reward: float
    rolling_return: float
    step_rate_hz: float
    agent: str
    extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame: `pixels` is C-contiguous uint8, height x width x 1 or 3, and belongs to whoever asked for it."""

    pixels: Pixels
    info: FrameInfo

    def rgb(self) -> Pixels:
        """The pixels with three channels, contiguous, as an encoder wants them."""
        if self.pixels.shape[2] == 3:
            return self.pixels
        return np.repeat(self.pixels, 3, axis=2)


class FrameView:
    """A frame where it lies, uncopied. Use the pixels, then ask `is_valid`: if not, the writer has been over them."""

    __slots__ = ("_fence", "_promised", "_word", "_words", "info", "pixels")

    def __init__(self, ring: _Ring, slot: int, number: int, info: FrameInfo) -> None:
        self.pixels = ring.slots[slot]
        self.info = info
        self._words = ring.words
        self._word = layout.SEQUENCES + slot * layout.WORDS_PER_LINE
        self._promised = 2 * number
        self._fence = ring.fence

    def is_valid(self) -> bool:
        if self._fence is not None:
            self._fence()
        return bool(self._words[self._word] == self._promised)


class _Ring:
    """One generation of a stream, mapped."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            status = os.fstat(self.descriptor)
            self.identity = (status.st_dev, status.st_ino)
            self.header = Header.unpack(os.pread(self.descriptor, layout.HEADER_BYTES, 0), status.st_size)
            self.memory = mmap.mmap(self.descriptor, self.header.file_bytes)
        except BaseException:
            os.close(self.descriptor)
            raise
        self.words = memoryview(self.memory)[: layout.HEADER_BYTES].cast("Q")
        self.fence = reader_fence()
        self.slots: list[Pixels] = []
        for slot in range(self.header.slots):
            start = self.header.slot_offset(slot) + layout.METADATA_BYTES
            flat = np.frombuffer(self.memory, np.uint8, self.header.frame_bytes, start)
            flat.flags.writeable = False
            self.slots.append(flat.reshape(self.header.shape))

    def newest(self) -> FrameView | None:
        """The newest frame with its own metadata; None if there is none yet, or the writer was quicker."""
        number = self.words[layout.PUBLISHED]
        if number == 0:
            return None
        slot = (number - 1) % self.header.slots
        word = layout.SEQUENCES + slot * layout.WORDS_PER_LINE
        fence = self.fence
        if fence is not None:
            fence()
        if self.words[word] != 2 * number:
            return None
        if fence is not None:
            fence()
        fields, extra = self.metadata(slot)
        if fence is not None:
            fence()
        if self.words[word] != 2 * number:
            return None
        return FrameView(self, slot, number, self.info(fields, extra))

    def metadata(self, slot: int) -> tuple[tuple[Any, ...], bytes]:
        offset = self.header.slot_offset(slot)
        fields = layout.METADATA.unpack_from(self.memory, offset)
        length = min(fields[8], layout.MAX_EXTRA_BYTES)
        start = offset + layout.EXTRA_OFFSET
        return fields, self.memory[start : start + length] if length else b""

    def info(self, fields: tuple[Any, ...], extra: bytes) -> FrameInfo:
        agent = fields[9].rstrip(b"\0").decode("utf-8", "ignore")
        try:
            parsed = json.loads(extra) if extra else {}
        except ValueError:  # a writer may be anybody's
            parsed = {"unreadable": extra.decode("utf-8", "replace")}
        number, wall, monotonic, episode, step, reward, rolling, rate = fields[:8]
        return FrameInfo(
            self.header.generation, number, wall, monotonic, episode, step, reward, rolling, rate, agent, parsed
        )

    def close(self) -> None:
        os.close(self.descriptor)


class FastLaneReader:
    """Follows one stream by path: attaches at any moment, before the writer too, and stays through its replacements.

    While it reads it stamps the heartbeat that makes the writer render; with `watch=False` it takes what there is and
    leaves the writer idle.
    """

    def __init__(self, path: Path, *, watch: bool = True) -> None:
        self.path = path
        self.watch = watch
        self._ring: _Ring | None = None
        self._seen = 0
        self._stamped_ns = 0
        self._looked_ns = 0
        self._attach()

    @property
    def header(self) -> Header | None:
        """The current generation's header; None while there is no such stream."""
        return self._ring.header if self._ring else None

    @property
    def published(self) -> int:
        """Number of the newest frame of the current generation."""
        return self._ring.words[layout.PUBLISHED] if self._ring else 0

    def latest(self, out: Pixels | None = None) -> Frame | None:
        """The newest frame, copied (into `out` where its shape fits), or None if there is none that is new to this
        reader.

        None also when the writer overtook every attempt to copy, which takes a writer that does nothing but publish.
        """
        ring = self._current_ring()
        if ring is None:
            return None
        for _ in range(_ATTEMPTS):
            if ring.words[layout.PUBLISHED] == self._seen:
                return None
            view = ring.newest()
            if view is None:
                continue
            if out is None or out.shape != ring.header.shape:
                out = np.empty(ring.header.shape, np.uint8)
            out[...] = view.pixels
            if view.is_valid():
                self._seen = view.info.number
                return Frame(out, view.info)
        return None

    def view(self) -> FrameView | None:
        """The newest frame where it lies, new or not; its pixels count only if `is_valid` holds after their use."""
        ring = self._current_ring()
        if ring is None:
            return None
        for _ in range(_ATTEMPTS):
            view = ring.newest()
            if view is not None:
                self._seen = view.info.number
                return view
        return None

    def wait(self, timeout: float, out: Pixels | None = None, *, poll_s: float = 0.001) -> Frame | None:
        """The next new frame, or None when none came within `timeout` seconds; looks every `poll_s`."""
        deadline = time.monotonic() + timeout
        while True:
            frame = self.latest(out)
            if frame is not None:
                return frame
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(poll_s, left))

    def stamp(self) -> None:
        """Tell the writer that somebody is watching. `latest`, `view` and `wait` do it by themselves."""
        if self._ring is not None:
            self._stamped_ns = time.monotonic_ns()
            self._ring.words[layout.HEARTBEAT] = self._stamped_ns

    def has_writer(self) -> bool:
        """Whether a living process holds this stream open for writing."""
        ring = self._current_ring()
        return ring is not None and is_written(ring.descriptor)

    def is_gone(self) -> bool:
        """Whether the stream's file has been removed: its run is over. The last frame can still be read."""
        return not self.path.exists()

    def close(self) -> None:
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def __enter__(self) -> FastLaneReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _current_ring(self) -> _Ring | None:
        now = time.monotonic_ns()
        ring = self._ring
        replaced = ring is not None and ring.words[layout.STATE] == layout.REPLACED
        if replaced or now - self._looked_ns > _LOOK_FOR_SUCCESSOR_NS:
            self._looked_ns = now
            self._attach()
            ring = self._ring
        if self.watch and ring is not None and now - self._stamped_ns > _HEARTBEAT_EVERY_NS:
            self.stamp()
        return ring

    def _attach(self) -> None:
        """Map what now lies under the name, if it is not what is mapped already."""
        try:
            status = self.path.stat()
            if self._ring is not None and self._ring.identity == (status.st_dev, status.st_ino):
                return
            ring = _Ring(self.path)
        except (FileNotFoundError, FastLaneError):
            return  # not there (any more), or not a ring: keep what is mapped
        self.close()
        self._ring = ring
        self._seen = 0
        self._stamped_ns = 0


__all__ = ["FastLaneReader", "Frame", "FrameInfo", "FrameView"]
