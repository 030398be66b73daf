"""Who shepherds a run: the lock that says so, and shepherd.json that says which process holds it."""

from __future__ import annotations

import os

import msgspec

from mosaic import flock
from mosaic.files import write_atomic
from mosaic.paths import RunFolder


class ShepherdInfo(msgspec.Struct, kw_only=True):
    run_id: str
    attempt: int
    pid: int  # 0: not known any more
    started: float
    start_ticks: int
    boot_id: str
    worker_pid: int | None = None
    worker_start_ticks: int | None = None
    session: int | None = None  # of the worker


def take_lock(folder: RunFolder, *, wait_s: float = 0.5) -> int | None:
    """The run's lock as a descriptor that holds it until closed, or None if somebody else does."""
    descriptor = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if flock.try_lock(descriptor, wait_s=wait_s):
        return descriptor
    os.close(descriptor)
    return None


def is_locked(folder: RunFolder) -> bool:
    return flock.is_held(folder.lock)


def read_shepherd(folder: RunFolder) -> ShepherdInfo | None:
    """Of a damaged shepherd.json (a bad disk, half a copy) as much as still matters: which attempt was begun."""
    try:
        return msgspec.json.decode(folder.shepherd.read_bytes(), type=ShepherdInfo)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        written = folder.shepherd.stat().st_mtime
        attempt = _last_attempt(folder)
        return ShepherdInfo(run_id=folder.run_id, attempt=attempt, pid=0, started=written, start_ticks=0, boot_id="")


def _last_attempt(folder: RunFolder) -> int:
    import sqlite3  # slow to load, and hardly ever needed here

    from mosaic.store import RunReader, StoreError

    try:
        with RunReader(folder.store) as reader:
            newest = reader.last_attempt()
    except (StoreError, sqlite3.DatabaseError):
        newest = None
    return newest.attempt if newest is not None else 1


def write_shepherd(folder: RunFolder, info: ShepherdInfo) -> None:
    write_atomic(folder.shepherd, msgspec.json.encode(info))
