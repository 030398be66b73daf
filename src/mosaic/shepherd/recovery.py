"""After a shepherd that was killed: end what it left running, and record the attempt as lost."""

from __future__ import annotations

import os
import shutil
import stat
import time
from functools import partial

from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import ExitFile, ExitRecord, read_exit
from mosaic.shepherd.launch import shared_memory_folder
from mosaic.shepherd.lock import ShepherdInfo, read_shepherd, take_lock
from mosaic.shepherd.processes import boot_id, kill_all, leftovers, thaw
from mosaic.store import RunReader, StoreMissing


def bury(folder: RunFolder, *, grace_s: float = 5.0) -> ExitRecord | None:
    """Record a LOST attempt and clear away its processes and shared memory; the record of the last attempt's end.

    None if there is nothing to bury: a shepherd is alive, or none was ever started. An end that is on record stays as
    it is. The worker of a dead shepherd was sent SIGTERM by the kernel; it has `grace_s` to follow.
    """
    lock = take_lock(folder)
    if lock is None:
        return None
    try:
        shepherd = read_shepherd(folder)
        if shepherd is None:
            return None
        clear_leftovers(shepherd, grace_s=grace_s)
        folder.control.unlink(missing_ok=True)
        record = read_exit(folder)
        if record is None or record.attempt < shepherd.attempt:
            last_seq, last_step = _last_words(folder)
            record = ExitRecord(
                run_id=shepherd.run_id,
                attempt=shepherd.attempt,
                outcome="lost",
                reason="unknown",
                message="the shepherd died, so nobody saw how the worker ended",
                started=shepherd.started,
                ended=time.time(),
                last_seq=last_seq,
                last_step=last_step,
            )
            ExitFile(folder).write(record)
        return record
    finally:
        os.close(lock)


def clear_leftovers(dead: ShepherdInfo, *, grace_s: float) -> int:
    """End the processes and remove the shared memory of a dead shepherd's run. Returns how many had to be killed.

    For the holder of the run's lock only.
    """
    find = partial(leftovers, dead.run_id, dead.session if dead.boot_id == boot_id() else None)
    deadline = time.monotonic() + grace_s
    thaw(find)  # a stopped worker hears no SIGTERM
    while find() and time.monotonic() < deadline:
        time.sleep(0.01)
    remaining = find()
    if remaining:
        kill_all(find, reap=_nothing)
    remove_shared_memory(dead.run_id)
    return len(remaining)


def remove_shared_memory(run_id: str) -> None:
    """Remove /dev/shm/mosaic-<run_id> if it is a folder of ours (not a link to somewhere else)."""
    path = shared_memory_folder(run_id)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        shutil.rmtree(path, ignore_errors=True)


def _nothing() -> None:
    """They are no children of ours: init reaps them."""


def _last_words(folder: RunFolder) -> tuple[int, int | None]:
    try:
        with RunReader(folder.store) as reader:
            return reader.last_seq(), reader.progress().step
    except StoreMissing:
        return 0, None
