"""Live frames for viewers: read from FastLane, encoded once for all who watch a stream, off the event loop.

A feed exists while a stream has viewers, with a thread that takes the newest frame and encodes it whenever at least one
viewer can take another one. A viewer has a window of frames that it has not acknowledged; while that is full, frames
pass it by. So nothing is ever queued: a slow path sees fewer frames, all of them fresh.
"""

from __future__ import annotations

import asyncio
import io
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import simplejpeg  # type: ignore[import-untyped]
from PIL import Image

from mosaic.fastlane import FastLaneReader, Frame

Format = Literal["image", "rgb"]

JPEG_QUALITY = 85
# Up to here PNG is small and quick enough: small frames are pixel art, which JPEG spoils.
PNG_PIXELS = 210 * 160
# How long the thread looks for a new frame before it asks whether it is still wanted.
LOOK_S = 0.2
FIRST_WINDOW, LARGEST_WINDOW = 2, 12


class Window:
    """How many frames may be under way to a viewer: enough to fill the path, few enough not to queue in it.

    Starts at two. Grows by one when acknowledgements come promptly and frames were held back for want of room; halves
    when they come late, measured against the quickest of them.
    """

    def __init__(self) -> None:
        self.size = FIRST_WINDOW
        self._sent: dict[int, float] = {}
        self._quickest = math.inf
        self._held_back = False

    @property
    def has_room(self) -> bool:
        return len(self._sent) < self.size

    def hold_back(self) -> None:
        self._held_back = True

    def send(self, number: int, now: float) -> None:
        self._sent[number] = now

    def acknowledge(self, number: int, now: float) -> None:
        """That frame has arrived, and with it all before it."""
        sent = self._sent.get(number)
        self._sent = {other: when for other, when in self._sent.items() if other > number}
        if sent is None:
            return
        took = now - sent
        self._quickest = min(took, self._quickest)
        if took > 2 * self._quickest + 0.03:
            self.size = max(1, self.size // 2)
            # What was quick once may never be again, on a path that has changed.
            self._quickest *= 1.1
        elif self._held_back:
            self.size = min(self.size + 1, LARGEST_WINDOW)
        self._held_back = False


class Viewer:
    def __init__(self, form: Format, max_fps: float) -> None:
        self.form: Format = form
        self.window = Window()
        self._interval = 1 / max_fps
        self._next = 0.0
        self._seen = 0
        self._wake = asyncio.Event()
        self.closed = False

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake()

    def acknowledge(self, number: int) -> None:
        self.window.acknowledge(number, time.monotonic())
        self.wake()

    async def messages(self, feed: Feed) -> AsyncIterator[bytes]:
        """The newest frame whenever there is room for one, until the viewer is closed."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self.closed:
                return
            number, message = feed.newest(self.form)
            if message is None or number <= self._seen:
                if self.window.has_room:
                    feed.want()
                continue
            if not self.window.has_room:
                self.window.hold_back()
                continue
            now = time.monotonic()
            if now < self._next:
                asyncio.get_running_loop().call_later(self._next - now, self.wake)
                continue
            self._next = max(self._next + self._interval, now)
            self._seen = number
            self.window.send(number, now)
            yield message
            # The next frame is made while this one travels.
            self.wake()


class Feed:
    """One stream that somebody watches."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._viewers: set[Viewer] = set()
        self._newest: dict[Format, tuple[int, bytes]] = {}
        self._wanted = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._read, name=f"frames {path.name}", daemon=True)
        self._thread.start()

    @property
    def is_watched(self) -> bool:
        return bool(self._viewers)

    def add(self, viewer: Viewer) -> None:
        # The first frame for it may be of a form that nobody asked for so far.
        self._viewers.add(viewer)
        self.want()
        viewer.wake()

    def remove(self, viewer: Viewer) -> None:
        self._viewers.remove(viewer)

    def stop(self) -> None:
        self._stopped = True
        self._wanted.set()

    def newest(self, form: Format) -> tuple[int, bytes | None]:
        return self._newest.get(form, (0, None))

    def want(self) -> None:
        self._wanted.set()

    def _read(self) -> None:
        try:
            self._follow_stream()
        finally:
            if not self._stopped:
                # A frame that cannot be encoded: better no picture than one that stands still for ever.
                self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        for viewer in self._viewers:
            viewer.close()

    def _follow_stream(self) -> None:
        number = 0
        last: Frame | None = None
        with FastLaneReader(self._path) as reader:
            while True:
                self._wanted.wait()
                if self._stopped:
                    return
                forms = {viewer.form for viewer in self._viewers.copy()}
                frame = reader.wait(LOOK_S, last.pixels if last else None)
                if frame is not None:
                    last = frame
                    number += 1
                    self._wanted.clear()
                else:
                    # A run that stands still, and a viewer that wants what it shows in another form.
                    forms -= self._newest.keys()
                if last is not None and forms:
                    made = {form: (number, encode(last, form, number)) for form in forms}
                    self._loop.call_soon_threadsafe(self._publish, made)

    def _publish(self, made: dict[Format, tuple[int, bytes]]) -> None:
        self._newest.update(made)
        for viewer in self._viewers:
            viewer.wake()


class FrameService:
    def __init__(self) -> None:
        self._feeds: dict[Path, Feed] = {}

    @contextmanager
    def watch(self, path: Path, viewer: Viewer) -> Iterator[Feed]:
        """The stream's feed, made for its first viewer and stopped after its last."""
        feed = self._feeds.get(path)
        if feed is None:
            feed = self._feeds[path] = Feed(path)
        feed.add(viewer)
        try:
            yield feed
        finally:
            feed.remove(viewer)
            if not feed.is_watched:
                feed.stop()
                self._feeds.pop(path, None)

    @property
    def watched(self) -> int:
        return len(self._feeds)


def encode(frame: Frame, form: Format, number: int) -> bytes:
    """A message: four bytes with the length of the header (little endian), the header as JSON, the picture."""
    height, width, channels = frame.pixels.shape
    if form == "rgb":
        name, picture = "rgb", frame.rgb().tobytes()
    elif height * width <= PNG_PIXELS:
        name, picture = "png", encode_png(frame)
    else:
        gray = channels == 1
        name = "jpeg"
        picture = simplejpeg.encode_jpeg(
            frame.pixels,
            quality=JPEG_QUALITY,
            colorspace="GRAY" if gray else "RGB",
            colorsubsampling="Gray" if gray else "420",
            fastdct=True,
        )
    header = msgspec.json.encode({"id": number, "format": name, "width": width, "height": height, **facts(frame)})
    return len(header).to_bytes(4, "little") + header + picture


def encode_png(frame: Frame) -> bytes:
    pixels = frame.pixels
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def facts(frame: Frame) -> dict[str, Any]:
    """What the writer said with the frame. msgspec writes NaN, for what nobody measured, as null."""
    info = frame.info
    return {
        "generation": info.generation,
        "number": info.number,
        "time": info.wall_ns / 1e9,
        "episode": info.episode,
        "step": info.step,
        "last_reward": info.last_reward,
        "rolling_return": info.rolling_return,
        "step_rate_hz": info.step_rate_hz,
        "agent": info.agent,
        "extra": info.extra,
    }
