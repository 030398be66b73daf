"""Reading a log that is rotated while it is read: `worker.log`, the older `worker.log.1`, `worker.log.2`, ..."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 16


def parts_of(log: Path) -> list[Path]:
    """The files of a log, the oldest first."""
    older = [path for path in log.parent.glob(f"{log.name}.*") if path.suffix[1:].isdigit()]
    ordered = sorted(older, key=lambda path: -int(path.suffix[1:]))
    return [*ordered, *([log] if log.exists() else [])]


def last_lines(log: Path, count: int) -> bytes:
    """The last `count` lines, over as many files as that takes."""
    lines: list[bytes] = []
    for path in reversed(parts_of(log)):
        if len(lines) >= count:
            break
        lines = [*path.read_bytes().splitlines(keepends=True), *lines]
    return b"".join(lines[-count:]) if count else b""


def everything(log: Path) -> Iterator[bytes]:
    for path in parts_of(log):
        with path.open("rb") as file:
            yield from iter(lambda: file.read(CHUNK), b"")


class LogFollower:
    """Hands out what is appended to a log, over rotations; starts at the log's present end."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._file: BinaryIO | None = None
        if log.exists():
            self._file = log.open("rb")
            self._file.seek(0, 2)

    def read(self) -> bytes:
        """What has come since the last call."""
        new = self._file.read() if self._file else b""
        while self._has_rotated():
            # What was written to the old file after our read and before the rotation, then the new one.
            new += self._file.read() if self._file else b""
            self.close()
            self._file = self._log.open("rb")
            new += self._file.read()
        return new

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _has_rotated(self) -> bool:
        try:
            now = self._log.stat()
        except FileNotFoundError:
            return False
        if self._file is None:
            return True
        mine = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)


def follow(log: Path, ended: Callable[[], bool], wait: Callable[[], None]) -> Iterator[bytes]:
    """What is appended from now on, until `ended` and nothing is left."""
    follower = LogFollower(log)
    try:
        while True:
            over = ended()  # asked before reading, so that what came before the end is not missed
            if new := follower.read():
                yield new
            elif over:
                return
            else:
                wait()
    finally:
        follower.close()
