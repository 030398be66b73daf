"""After a shepherd that was killed: end what it left running, and record the attempt as lost."""

from __future__ import annotations

import os
import sqlite3
import time

from mosaic.paths import RunFolder
from mosaic.shepherd.clearing import clear_leftovers
from mosaic.shepherd.exit_record import ExitFile, ExitRecord, read_exit
from mosaic.shepherd.lock import read_shepherd, take_lock
from mosaic.store import RunReader, StoreError


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


def _last_words(folder: RunFolder) -> tuple[int, int | None]:
    try:
        with RunReader(folder.store) as reader:
            return reader.last_seq(), reader.progress().step
    except sqlite3.OperationalError:
        raise  # a full disk, or somebody is in the way: may work later
    except (StoreError, sqlite3.DatabaseError):
        return 0, None  # none, or not readable any more: the end is told all the same
