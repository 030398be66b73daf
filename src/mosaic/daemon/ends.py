"""How runs end where no shepherd tells it: runs that never started, and runs whose shepherd died."""

from __future__ import annotations

import os
import sqlite3
import time

from mosaic.daemon.registry import Row
from mosaic.daemon.retry import ResumePoint
from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import ExitFile, ExitRecord, Outcome, Reason, read_exit
from mosaic.shepherd.launch import LaunchError, read_launch
from mosaic.shepherd.lock import take_lock
from mosaic.shepherd.status import RunStatus, read_status
from mosaic.store import RunReader, StoreError
from mosaic.worker import CheckpointError
from mosaic.worker.checkpoints import latest, read_card


class AlreadyStarted(Exception):
    """The attempt is not waiting any more."""


def end_unstarted(folder: RunFolder, row: Row, outcome: Outcome, reason: Reason, message: str) -> ExitRecord:
    """Record the end of an attempt that never started. From now on no shepherd will start it."""
    lock = take_lock(folder)
    if lock is None:
        raise AlreadyStarted(f"run {row.name} has just started")
    try:
        status = read_state(folder, row.attempt)
        if status.state != "QUEUED":
            raise AlreadyStarted(f"run {row.name} has just ended")
        now = time.time()
        record = ExitRecord(
            run_id=row.run_id,
            attempt=row.attempt,
            outcome=outcome,
            reason=reason,
            message=message,
            started=now,
            ended=now,
            last_seq=last_seq(folder),
        )
        ExitFile(folder).write(record)
        return record
    finally:
        os.close(lock)


def read_state(folder: RunFolder, attempt: int) -> RunStatus:
    """The truth about one attempt: QUEUED also when the folder knows of earlier attempts only."""
    status = read_status(folder)
    return status if status.attempt >= attempt else RunStatus("QUEUED", attempt, alive=False)


def known_attempt(folder: RunFolder) -> int:
    """The newest attempt that the folder knows of; 0 if none."""
    record = read_exit(folder)
    try:
        launched = read_launch(folder).attempt
    except LaunchError:
        launched = 0
    return max(launched, record.attempt if record else 0)


def last_seq(folder: RunFolder) -> int:
    try:
        with RunReader(folder.store) as reader:
            return reader.last_seq()
    except (StoreError, sqlite3.DatabaseError):
        return 0


def total_steps(folder: RunFolder) -> int | None:
    """How far the run meant to go, as its worker said."""
    try:
        with RunReader(folder.store) as reader:
            return reader.progress().total
    except (StoreError, sqlite3.DatabaseError):
        return None


def resume_point(folder: RunFolder) -> ResumePoint | None:
    """The newest checkpoint that is whole. Reads and hashes all its files.

    None of attempts before the last one that began anew: what those said is superseded, so a curve that went on from
    there would be another one's.
    """
    checkpoint = latest(folder.path, since_attempt=_last_beginning(folder))
    if checkpoint is None:
        return None
    try:
        step = read_card(checkpoint).step
    except CheckpointError:
        return None
    return ResumePoint(str(checkpoint.relative_to(folder.path)), step)


def _last_beginning(folder: RunFolder) -> int:
    """The newest attempt that began from the beginning."""
    try:
        with RunReader(folder.store) as reader:
            attempts = reader.attempts()
    except (StoreError, sqlite3.DatabaseError):
        return 1
    return max((attempt.attempt for attempt in attempts if attempt.resumed_step is None), default=1)
