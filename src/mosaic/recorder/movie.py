"""Movie files: MP4 and WebM by PyAV, GIF by Pillow. Frames carry their own times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
FORMATS = (".mp4", ".webm", ".gif")
_MILLISECOND = Fraction(1, 1000)
_GIF_MAX_FRAMES = 1200
_GIF_MAX_BYTES = 256 << 20


class Movie(Protocol):
    """A file being written.

    `add` takes RGB frames of one size with ascending times in ms; `close` makes the file whole.
    """

    frames: int

    @property
    def is_full(self) -> bool: ...

    def add(self, pixels: Pixels, time_ms: int) -> None: ...

    def close(self) -> None: ...


def open_movie(path: Path, height: int, width: int) -> Movie:
    if path.suffix == ".gif":
        return GifMovie(path)
    if path.suffix in FORMATS:
        return VideoMovie(path, height, width)
    raise ValueError(f"{path.name}: got {path.suffix or 'no suffix'!r}, allowed: {', '.join(FORMATS)}")


class VideoMovie:
    """H.264 in a fragmented MP4, or VP9 in WebM: both can be played as far as they got, whatever ends the recorder."""

    def __init__(self, path: Path, height: int, width: int) -> None:
        self.frames = 0
        self.is_full = False  # never
        self._last_ms = -1
        mp4 = path.suffix == ".mp4"
        options = {"flush_packets": "1"}
        if mp4:
            options |= {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "1000000"}
        self._container = av.open(str(path), "w", format="mp4" if mp4 else "webm", options=options)
        # Small pictures are blown up so that chroma subsampling does not smear them and players show more than a stamp.
        self._scale = max(1, 240 // max(height, width))
        # About 8 ms of CPU for 640x480 of noise, since the run trains on the same machine; VP9 without cpu-used: 400.
        quality = {"crf": "20", "preset": "veryfast", "bf": "0"}
        if not mp4:
            quality = {"crf": "30", "b": "0", "deadline": "realtime", "cpu-used": "8"}
        stream: Any = self._container.add_stream("libx264" if mp4 else "libvpx-vp9", rate=30, options=quality)
        stream.height = height * self._scale + height * self._scale % 2  # 4:2:0 needs even sides
        stream.width = width * self._scale + width * self._scale % 2
        stream.pix_fmt = "yuv420p"
        stream.time_base = stream.codec_context.time_base = _MILLISECOND
        stream.codec_context.gop_size = 60
        self._stream = stream

    def add(self, pixels: Pixels, time_ms: int) -> None:
        height, width = self._stream.height, self._stream.width
        if self._scale > 1:
            pixels = pixels.repeat(self._scale, 0).repeat(self._scale, 1)
        missing = ((0, height - pixels.shape[0]), (0, width - pixels.shape[1]), (0, 0))
        if any(after for _, after in missing):
            pixels = np.pad(pixels, missing, mode="edge")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
        self._last_ms = max(time_ms, self._last_ms + 1)
        frame.pts, frame.time_base = self._last_ms, _MILLISECOND
        self._container.mux(self._stream.encode(frame))
        self.frames += 1

    def close(self) -> None:
        self._container.mux(self._stream.encode())
        self._container.close()


class GifMovie:
    """A GIF is written at the end, out of memory: for short pieces, at most 1200 frames and 256 MiB of them."""

    def __init__(self, path: Path) -> None:
        self.frames = 0
        self._path = path
        self._images: list[Image.Image] = []
        self._times: list[int] = []

    def add(self, pixels: Pixels, time_ms: int) -> None:
        image = Image.fromarray(pixels)
        # Exact where a palette can be; else ten times as quick at much the same loss.
        exact = image.getcolors(256) is not None
        method = Image.Quantize.MEDIANCUT if exact else Image.Quantize.FASTOCTREE
        self._images.append(image.quantize(256, method, dither=Image.Dither.NONE))
        self._times.append(time_ms)
        self.frames += 1

    @property
    def is_full(self) -> bool:
        return (
            self.frames >= _GIF_MAX_FRAMES
            or self.frames * self._images[0].width * self._images[0].height >= _GIF_MAX_BYTES
        )

    def close(self) -> None:
        if not self._images:
            return
        # GIF counts in hundredths; viewers slow anything below 20 ms down to 100.
        durations = [max(20, int(step)) for step in np.diff(self._times)] + [100]
        first, *rest = self._images
        first.save(self._path, save_all=True, append_images=rest, duration=durations, loop=0, format="GIF")
