"""`python -m mosaic.recorder RUN_DIR`: the command behind `mosaic record` and a run's clips."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mosaic.fastlane import DIRECTORY_VARIABLE, default_directory
from mosaic.paths import RunFolder
from mosaic.recorder.movie import FORMATS
from mosaic.recorder.record import Clips, Take, choose_stream, follow
from mosaic.shepherd.status import FINAL_STATES, read_status

WAIT_S = 60.0


def main(argv: list[str] | None = None) -> int:
    arguments = _parse(argv)
    folder = RunFolder(arguments.run_dir.resolve())
    lane = arguments.lane or Path(os.environ.get(DIRECTORY_VARIABLE) or default_directory(folder.run_id))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # A worker may load libraries for minutes before it shows anything: clips are waited for as long as the run lives.
    wait = arguments.wait if arguments.wait is not None else math.inf if arguments.every_episodes else WAIT_S

    def hopeless() -> bool:
        return stop.is_set() or read_status(folder).state in FINAL_STATES

    stream = choose_stream(lane, arguments.stream, hopeless, wait)
    if stream is None:
        print(f"no stream {arguments.stream or ''} in {lane}: the run shows no frames", file=sys.stderr)
        return 1
    deadline = time.monotonic() + arguments.seconds if arguments.seconds else float("inf")

    def stopped() -> bool:
        return stop.is_set() or time.monotonic() >= deadline

    record = _record_clips if arguments.every_episodes else _record_all
    try:
        written = record(arguments, folder, lane, stream, stopped)
    except OSError as error:
        print(f"{arguments.output or folder.videos}: cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    return 0


def _record_all(
    arguments: argparse.Namespace, folder: RunFolder, lane: Path, stream: str, stopped: Callable[[], bool]
) -> list[Path]:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    take = Take(arguments.output or folder.videos / f"{stream}-{stamp}.{arguments.format}", fps=arguments.play_fps)

    def done() -> bool:
        return stopped() or 0 < arguments.frames <= take.frames or take.is_full

    try:
        follow(lane, stream, take.add, done, fps=arguments.fps)
    finally:
        full = take.is_full
        written = take.close()
    if full:
        print(f"ended at {take.frames} frames: a GIF holds no more here, MP4 and WebM any number", file=sys.stderr)
    return written


def _record_clips(
    arguments: argparse.Namespace, folder: RunFolder, lane: Path, stream: str, stopped: Callable[[], bool]
) -> list[Path]:
    target = arguments.output or folder.videos
    clips = Clips(arguments.every_episodes, target, stream, f".{arguments.format}", arguments.play_fps)
    try:
        follow(lane, stream, clips.add, stopped, fps=arguments.fps, watching=clips.is_recording)
    finally:
        clips.close()
    return clips.written


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mosaic.recorder", description="Record a run's live frames.")
    parser.add_argument("run_dir", type=Path, help="the run's folder")
    parser.add_argument("--stream", help="which stream, e.g. env-0 or grid (default: grid if there is one)")
    parser.add_argument("--lane", type=Path, help="the run's folder of streams (default: /dev/shm/mosaic-RUN_ID)")
    parser.add_argument("--output", type=Path, help="the movie, or the folder of clips (default: in RUN_DIR/videos)")
    parser.add_argument("--format", choices=[suffix[1:] for suffix in FORMATS], default="mp4")
    parser.add_argument("--every-episodes", type=_positive, metavar="N", help="a clip of every N-th episode instead")
    parser.add_argument("--fps", type=_positive, default=30, help="most frames to take a second (default 30)")
    parser.add_argument("--play-fps", type=_positive, help="play at this rate (default: at the speed it happened)")
    parser.add_argument("--frames", type=int, default=0, help="stop after so many frames")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long (default: with the run)")
    parser.add_argument(
        "--wait",
        type=float,
        help=f"how long to wait for the stream (default: {WAIT_S:g} s, for clips as long as the run)",
    )
    arguments = parser.parse_args(argv)
    if arguments.output is not None and not arguments.every_episodes:
        if arguments.output.suffix not in FORMATS:
            parser.error(f"--output: got {arguments.output.name!r}, allowed: a name ending in {', '.join(FORMATS)}")
        arguments.format = arguments.output.suffix[1:]
    return arguments


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {text}, allowed: 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
