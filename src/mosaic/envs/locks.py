"""One installer at a time: `flock` on a file beside what is being made."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Report = Callable[[str], None]


@contextmanager
def held(path: Path, report: Report, busy: str) -> Iterator[int]:
    """Hold the lock at `path`; say `busy` once if somebody else has it.

    Yields the file descriptor. Children that inherit it hold the lock too: after an installer was killed while its
    uv is still writing, the next one waits until that uv is gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(busy)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
