"""Locks on files: held by a process until it lets go or ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path


def try_lock(descriptor: int, *, wait_s: float) -> bool:
    """Take the lock of an open file; False if somebody else still has it after `wait_s`.

    To wait a little is wise: `is_held` of somebody else has the lock for an instant.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        else:
            return True


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock of this file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
