"""Follow a stream and write what passes: all of it into one movie, or a clip every so many episodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mosaic.fastlane import FastLaneReader, Frame, discover, stream_path
from mosaic.recorder.movie import Movie, open_movie

_LOOK_S = 0.25
_END_AFTER_S = 1.0
_POLL_S, _IDLE_POLL_S = 0.004, 0.05
CLIP_MIN_MS = 2_000
CLIP_MAX_MS = 60_000


class Take:
    """One movie, named `x.part.mp4` until it is whole. A change of size closes it and goes on in `x-2.mp4`."""

    def __init__(self, path: Path, *, fps: float | None = None) -> None:
        self.files: list[Path] = []
        self.frames = 0
        self._path = path
        self._fps = fps
        self._movie: Movie | None = None
        self._shape: tuple[int, ...] = ()
        self._start_ns = 0
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def is_full(self) -> bool:
        return self._movie is not None and self._movie.is_full

    def add(self, frame: Frame) -> None:
        pixels = frame.rgb()
        if self._movie is None or pixels.shape != self._shape:
            self._finish()
            self._shape = pixels.shape
            self._start_ns = frame.info.monotonic_ns
            self._movie = open_movie(self._part(), pixels.shape[0], pixels.shape[1])
        if self._fps is None:
            time_ms = (frame.info.monotonic_ns - self._start_ns) // 1_000_000
        else:
            time_ms = int(self._movie.frames * 1000 / self._fps)
        self._movie.add(pixels, time_ms)
        self.frames += 1

    def close(self) -> list[Path]:
        self._finish()
        return self.files

    def _target(self) -> Path:
        number = len(self.files) + 1
        return self._path if number == 1 else self._path.with_stem(f"{self._path.stem}-{number}")

    def _part(self) -> Path:
        return self._target().with_stem(self._target().stem + ".part")

    def _finish(self) -> None:
        if self._movie is not None:
            self._movie.close()
            target = self._target()
            self._part().replace(target)
            self.files.append(target)
            self._movie = None


@dataclass
class Clips:
    """Decides which frames belong to which clip: one begins with the first frame seen of every N-th episode.

    It ends with the episode, but not before two seconds, since training may run through episodes between two frames.
    """

    every: int
    folder: Path
    stream: str
    suffix: str = ".mp4"
    fps: float | None = None
    written: list[Path] = field(default_factory=list)
    _take: Take | None = None
    _episode: int = 0
    _start_ns: int = 0
    _next: int = 1

    def is_recording(self) -> bool:
        return self._take is not None

    def add(self, frame: Frame) -> None:
        episode = frame.info.episode
        if self._take is not None:
            elapsed_ms = (frame.info.monotonic_ns - self._start_ns) / 1e6
            ended = episode != self._episode and elapsed_ms >= CLIP_MIN_MS
            if ended or elapsed_ms >= CLIP_MAX_MS or self._take.is_full:
                self.close()
        if episode + self.every < self._next:  # a new attempt counts from the beginning
            self._next = episode
        if self._take is None and episode >= self._next:
            path = self.folder / f"{self.stream}-episode-{episode:08d}{self.suffix}"
            self._take, self._episode, self._start_ns = Take(path, fps=self.fps), episode, frame.info.monotonic_ns
            self._next = (episode // self.every + 1) * self.every
        if self._take is not None:
            self._take.add(frame)

    def close(self) -> None:
        if self._take is not None:
            self.written += self._take.close()
            self._take = None


def choose_stream(directory: Path, wanted: str | None, stopped: Callable[[], bool], wait_s: float) -> str | None:
    """The stream to record, waited for: the named one, else `grid`, else the first. None if there is none in time."""
    deadline = time.monotonic() + wait_s
    while not stopped():
        names = [stream.name for stream in discover(directory) if stream.frames]
        if wanted in names:
            return wanted
        if wanted is None and names:
            return names[0]
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_S)
    return None


def follow(
    directory: Path,
    stream: str,
    take: Callable[[Frame], None],
    stopped: Callable[[], bool],
    *,
    fps: float | None = None,
    watching: Callable[[], bool] = lambda: True,
) -> None:
    """Hand every frame that can be had to `take`, at most `fps` a second, until the run's streams are removed or
    `stopped`.

    While `watching` says no, the heartbeat is left alone: the writer renders only about once a second then.
    """
    gone_since: float | None = None
    spacing = 1.0 / fps if fps else 0.0
    with FastLaneReader(stream_path(directory, stream), watch=False) as reader:
        while not stopped():
            begin = time.monotonic()
            reader.watch = watching()
            frame = reader.wait(_LOOK_S, poll_s=_POLL_S if reader.watch else _IDLE_POLL_S)
            if frame is not None:
                gone_since = None
                take(frame)
                time.sleep(max(0.0, spacing - (time.monotonic() - begin)))
            elif not reader.is_gone():
                gone_since = None
            elif gone_since is None:
                gone_since = begin
            elif begin - gone_since > _END_AFTER_S:
                return
