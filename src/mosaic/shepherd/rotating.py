"""A log of raw bytes that never outgrows its bound and never fails the run."""

from __future__ import annotations

import os
from pathlib import Path


class RotatingLog:
    """Appends to `path`; past `max_bytes` the file becomes `path.1` and so on, `keep` files in all."""

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        self._path = path
        self._max_bytes = max(max_bytes, 1)
        self._keep = max(keep, 1)
        self._descriptor = -1
        self._size = 0

    def write(self, data: bytes) -> int:
        """Write, rotating where the bound asks for it; returns how many bytes had to be dropped (full disk)."""
        view = memoryview(data)
        try:
            while view:
                if self._descriptor < 0:
                    self._open()
                if self._size >= self._max_bytes:
                    self._rotate()
                written = os.write(self._descriptor, view[: self._max_bytes - self._size])
                self._size += written
                view = view[written:]
        except OSError:
            # No room, a bad disk, a folder that was taken away: logs are worth less than the run.
            return len(view)
        return 0

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        self.close()
        for index in range(self._keep - 1, 0, -1):
            older = self._path if index == 1 else self._numbered(index - 1)
            if older.exists():
                older.replace(self._numbered(index))
        if self._keep == 1:
            self._path.unlink(missing_ok=True)
        self._open()

    def _numbered(self, index: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{index}")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
