"""The streams of one run: a folder of rings, named after environment slots or agents, plus `grid`."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from mosaic.fastlane import layout
from mosaic.fastlane.layout import FastLaneError, Header
from mosaic.fastlane.writer import is_written

DIRECTORY_VARIABLE = "MOSAIC_FASTLANE_DIR"
GRID = "grid"
_SUFFIX = ".ring"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Stream:
    """A stream as its header tells it. `frames` counts within the generation."""

    name: str
    path: Path
    generation: int
    height: int
    width: int
    channels: int
    frames: int
    has_writer: bool


def default_directory(run_id: str) -> Path:
    """Where a run's rings lie unless MOSAIC_FASTLANE_DIR says else."""
    return Path("/dev/shm") / f"mosaic-{run_id}"


def environment_stream(slot: int) -> str:
    return f"env-{slot}"


def agent_stream(agent: str) -> str:
    """The stream of one agent, whatever characters its id has."""
    return "agent-" + re.sub(r"[^A-Za-z0-9_.-]", "_", agent)[:58]


def stream_path(directory: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise FastLaneError(f"stream name: got {name!r}, allowed: 1 to 64 letters, digits, '_', '-' and '.'")
    return directory / f"{name}{_SUFFIX}"


def prepare_directory(directory: Path) -> None:
    """Make the folder of streams, for this user only; refuse one that somebody else has laid there."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise FastLaneError(f"{directory}: not a folder of this user; remove it or set {DIRECTORY_VARIABLE}")


def discover(directory: Path) -> list[Stream]:
    """All streams that can be attached to now, `grid` first, then by name in natural order."""
    try:
        paths = [path for path in directory.iterdir() if path.suffix == _SUFFIX and _NAME.fullmatch(path.stem)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [stream for path in paths if (stream := _read(path)) is not None]
    return sorted(found, key=lambda stream: (stream.name != GRID, _natural(stream.name)))


def _read(path: Path) -> Stream | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # removed a moment ago, or not ours
        return None
    try:
        data = os.pread(descriptor, layout.HEADER_BYTES, 0)
        header = Header.unpack(data, os.fstat(descriptor).st_size)
        frames = int.from_bytes(data[layout.PUBLISHED * 8 : layout.PUBLISHED * 8 + 8], sys.byteorder)
        return Stream(path.stem, path, header.generation, *header.shape, frames, is_written(descriptor))
    except FastLaneError:
        return None
    finally:
        os.close(descriptor)


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]
