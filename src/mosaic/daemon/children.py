"""Child runs, as their run's folder tells: read like runs, and steered through the run that they are part of."""

from __future__ import annotations

import re
import sqlite3
from typing import Any, cast

import msgspec

from mosaic.daemon.job import Job, Metadata, Retry
from mosaic.daemon.registry import Row
from mosaic.daemon.views import RunView, share_of, view_row
from mosaic.paths import CHILD_MARK, Home
from mosaic.shepherd.exit_record import ExitRecord, Outcome, Reason
from mosaic.store import AttemptInfo, RunReader, StoreError

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


def child_names(home: Home, run_id: str) -> list[str]:
    """Of a run's children, in the order of their numbers."""
    folder = home.run(run_id).children
    found = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(filter(_NAME.fullmatch, found), key=_by_number)


def child_row(home: Home, parent: Row, name: str) -> Row | None:
    """A child as a row; the registry has none of it, because it is never started by itself."""
    if not _NAME.fullmatch(name):
        return None
    run_id = f"{parent.run_id}{CHILD_MARK}{name}"
    try:
        with RunReader(home.run(run_id).store) as reader:
            last = reader.last_attempt()
            begun = reader.ask(_last_beginning)
            total = reader.progress().total
    except (StoreError, sqlite3.DatabaseError):
        return None
    if last is None:
        return None
    metadata = msgspec.structs.replace(
        parent.job.metadata,
        worker=msgspec.structs.replace(parent.job.metadata.worker, config=begun.get("config", {})),
    )
    return Row(
        run_id=run_id,
        name=f"{parent.name}{CHILD_MARK}{name}",
        worker=parent.worker,
        state=_state(parent, last),
        detail=_detail(last),
        attempt=last.attempt,
        place=parent.place,
        resume_from=last.resumed_from,
        resume_step=last.resumed_step,
        gpus=[],
        retries=0,
        passes=0,
        cancel=False,
        started=last.started,
        ended=last.ended if last.outcome else parent.ended,
        exit=_exit(run_id, last) if last.outcome else parent.exit,
        step=last.last_step,
        total_steps=total,
        job=_job(parent.job, run_id, f"{parent.name}{CHILD_MARK}{name}", metadata),
    )


def view_child(row: Row, parent: RunView, home: Home) -> RunView:
    """While it lives, it is as its run is."""
    view = view_row(row, home.run(row.run_id))
    view.parent = parent.run_id
    view.priority, view.last_heartbeat, view.silent_s = parent.priority, parent.last_heartbeat, parent.silent_s
    view.total_steps = row.total_steps if row.total_steps is not None else parent.total_steps
    view.progress = share_of(row.step, view.total_steps)
    if row.state == "ACTIVE":
        view.state = parent.state
    return view


def _job(job: Job, run_id: str, name: str, metadata: Metadata) -> Job:
    return msgspec.structs.replace(job, run_id=run_id, name=name, metadata=metadata, retry=Retry(), clips=None)


def _state(parent: Row, last: AttemptInfo) -> Any:
    return last.outcome.upper() if last.outcome else parent.state


def _exit(run_id: str, last: AttemptInfo) -> ExitRecord:
    return ExitRecord(
        run_id=run_id,
        attempt=last.attempt,
        outcome=cast(Outcome, last.outcome),
        reason=cast(Reason, last.reason),
        message=last.message,
        started=last.started,
        ended=last.ended or last.state_time,
        last_seq=last.last_seq,
        last_step=last.last_step,
    )


def _detail(last: AttemptInfo) -> str:
    if last.outcome:
        return last.message
    return f"from {last.resumed_from} at step {last.resumed_step}" if last.resumed_from else ""


def _last_beginning(database: sqlite3.Connection) -> dict[str, Any]:
    sql = "SELECT body FROM events WHERE kind = 'child_started' ORDER BY seq DESC LIMIT 1"
    found = database.execute(sql).fetchone()
    return msgspec.json.decode(found[0]) if found else {}


def _by_number(name: str) -> tuple[str, int, str]:
    digits = re.search(r"\d+$", name)
    return (name[: digits.start()], int(digits[0]), name) if digits else (name, -1, name)
