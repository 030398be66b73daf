"""What the API says of a run: the registry's row, and for one that is active what its folder says right now."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import msgspec

from mosaic.daemon.ends import read_state
from mosaic.daemon.job import Resources, Retry
from mosaic.daemon.registry import Row
from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import ExitRecord
from mosaic.shepherd.status import LIVE_STATES
from mosaic.store import Progress, RunReader, StoreError


class RunView(msgspec.Struct, kw_only=True):
    run_id: str
    name: str
    group: str | None
    worker: str
    state: str
    detail: str
    priority: int
    tags: list[str]
    created: float
    started: float | None
    ended: float | None
    attempt: int
    step: int | None
    total_steps: int | None
    progress: float | None
    rate: float | None = None
    last_heartbeat: float | None = None
    silent_s: float | None = None
    exit: ExitRecord | None = None
    resources: Resources
    gpus: list[str]
    retry: Retry
    folder: str
    config: dict[str, Any]
    # The run that this is a child of.
    parent: str | None = None

    def same_as(self, other: RunView | None) -> bool:
        """Nothing new to tell, the passing of time aside."""
        return other is not None and msgspec.structs.replace(self, silent_s=None) == msgspec.structs.replace(
            other, silent_s=None
        )


def view_row(row: Row, folder: RunFolder, reason: str = "") -> RunView:
    """A run that waits or has ended: all of it is in the registry."""
    return RunView(
        run_id=row.run_id,
        name=row.name,
        group=row.job.group,
        worker=row.worker,
        state=row.state if row.state != "ACTIVE" else "STARTING",
        detail="; ".join(part for part in (reason, row.detail) if part),
        priority=row.job.priority,
        tags=row.job.tags,
        created=row.job.created,
        started=row.started,
        ended=row.ended,
        attempt=row.attempt,
        step=row.step,
        total_steps=row.total_steps,
        progress=share_of(row.step, row.total_steps),
        exit=row.exit,
        resources=row.job.resources,
        gpus=row.gpus,
        retry=row.job.retry,
        folder=str(folder.path),
        config=row.job.config,
    )


def view_active(row: Row, folder: RunFolder) -> RunView:
    """A run that was started and whose end is not on record: reads its folder."""
    view = view_row(row, folder)
    status = read_state(folder, row.attempt)
    details = [row.detail]
    if status.state in LIVE_STATES:
        view.state = status.state
        details.insert(0, status.detail)
    elif status.state != "QUEUED":
        # It has ended; what follows from that (another attempt, perhaps) is being decided.
        view.state = "RUNNING"
        details.insert(0, "ending")
    if row.cancel:
        details.insert(0, "being cancelled")
    view.detail = "; ".join(part for part in details if part)
    progress = _progress(folder)
    if progress is not None and view.state != "STARTING":
        view.step = progress.step
        view.total_steps = progress.total if progress.total is not None else view.total_steps
        view.progress = share_of(view.step, view.total_steps)
        view.rate = progress.rate
        view.last_heartbeat = progress.last_heartbeat
        if progress.last_heard is not None:
            view.silent_s = max(0.0, time.time() - progress.last_heard)
    return view


def _progress(folder: RunFolder) -> Progress | None:
    try:
        with RunReader(folder.store) as reader:
            return reader.progress()
    except (StoreError, sqlite3.DatabaseError):
        return None


def share_of(step: int | None, total: int | None) -> float | None:
    if step is None or not total:
        return None
    return min(1.0, max(0.0, step / total))
