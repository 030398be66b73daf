"""The registry: what should run, in which order, and how it ended. The daemon is its only writer.

It is an index over the run folders, with the queue on top: everything but the order of the queue can be rebuilt from
the folders. A run is QUEUED, ACTIVE (a shepherd was or is about to be started; how it is, its folder says), or ended.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from mosaic.daemon.job import Job
from mosaic.shepherd.exit_record import ExitRecord

RowState = Literal["QUEUED", "ACTIVE", "SUCCEEDED", "FAILED", "CANCELLED", "LOST"]
ENDED: frozenset[str] = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "LOST"})

MIGRATIONS = (
    """
    CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        worker TEXT NOT NULL,
        state TEXT NOT NULL,
        detail TEXT NOT NULL DEFAULT '',
        attempt INTEGER NOT NULL,       -- the attempt that waits, runs, or ended last
        place INTEGER NOT NULL,         -- first come, first served among those of one priority
        resume_from TEXT,               -- checkpoint of the waiting attempt, relative to the run folder
        resume_step INTEGER,
        gpus TEXT NOT NULL DEFAULT '[]',
        retries INTEGER NOT NULL DEFAULT 0,     -- attempts that the daemon started by itself since somebody last asked
        passes INTEGER NOT NULL DEFAULT 0,      -- how often smaller runs passed it while it waited
        cancel INTEGER NOT NULL DEFAULT 0,      -- somebody asked for its end
        started REAL,
        ended REAL,
        exit TEXT,
        step INTEGER,
        total_steps INTEGER,
        job TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX runs_by_state ON runs (state);
    CREATE INDEX runs_by_name ON runs (name);
    """,
)


class Row(msgspec.Struct, kw_only=True):
    """One run as the registry knows it."""

    run_id: str
    name: str
    worker: str
    state: RowState
    detail: str
    attempt: int
    place: int
    resume_from: str | None
    resume_step: int | None
    gpus: list[str]
    retries: int
    passes: int
    cancel: bool
    started: float | None
    ended: float | None
    exit: ExitRecord | None
    step: int | None
    total_steps: int | None
    job: Job

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class UnknownRun(Exception):
    """No run, or none that is meant without doubt, goes by this reference."""


class AmbiguousRun(UnknownRun):
    pass


class Registry:
    def __init__(self, path: Path) -> None:
        self.set_aside: Path | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = _open(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            # Not a database any more: keep what is left of it for whoever wants to look, and rebuild.
            self.set_aside = path.with_name(f"{path.name}.broken-{int(time.time())}")
            path.rename(self.set_aside)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._db = _open(path)

    def close(self) -> None:
        self._db.close()

    # What is there

    def get(self, run_id: str) -> Row | None:
        found = self._db.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return _row(found) if found else None

    def find(self, reference: str) -> Row:
        """A run by its id, its name, a beginning of its id, or `latest`."""
        if row := self.get(reference):
            return row
        if reference == "latest":
            query, values = "SELECT * FROM runs ORDER BY run_id DESC LIMIT 1", ()
            found = self._db.execute(query, values).fetchall()
        else:
            found = self._db.execute("SELECT * FROM runs WHERE name = ? LIMIT 5", (reference,)).fetchall()
        if not found:
            start = reference.upper()
            query = "SELECT * FROM runs WHERE run_id >= ? AND run_id < ? LIMIT 5"
            found = self._db.execute(query, (start, start + "~")).fetchall()
        if len(found) > 1:
            ids = ", ".join(row["run_id"] for row in found)
            raise AmbiguousRun(f"run {reference!r}: more than one run is meant by this; give the id: {ids}")
        if not found:
            raise UnknownRun(f"run {reference!r}: no such run; give an id, the beginning of one, a name, or 'latest'")
        return _row(found[0])

    def rows(
        self,
        *,
        states: tuple[str, ...] = (),
        worker: str | None = None,
        tag: str | None = None,
        group: str | None = None,
        before: str | None = None,
        limit: int = -1,
    ) -> list[Row]:
        """Newest first."""
        conditions, values = ["1"], list[Any]()
        if states:
            conditions.append(f"state IN ({','.join('?' * len(states))})")
            values += states
        if worker:
            conditions.append("worker = ?")
            values.append(worker)
        if tag:
            conditions.append("EXISTS (SELECT 1 FROM json_each(job, '$.tags') WHERE value = ?)")
            values.append(tag)
        if group:
            conditions.append("json_extract(job, '$.group') = ?")
            values.append(group)
        if before:
            conditions.append("run_id < ?")
            values.append(before)
        query = f"SELECT * FROM runs WHERE {' AND '.join(conditions)} ORDER BY run_id DESC LIMIT ?"
        return [_row(found) for found in self._db.execute(query, (*values, limit))]

    def run_ids(self) -> set[str]:
        return {found["run_id"] for found in self._db.execute("SELECT run_id FROM runs")}

    def newest_id(self) -> str | None:
        found = self._db.execute("SELECT max(run_id) AS newest FROM runs").fetchone()
        return str(found["newest"]) if found["newest"] else None

    def counts(self) -> dict[str, int]:
        return {
            found["state"]: found["number"]
            for found in self._db.execute("SELECT state, count(*) AS number FROM runs GROUP BY state")
        }

    # What changes it: each of these is one transaction

    def add(
        self,
        job: Job,
        *,
        attempt: int = 1,
        state: RowState = "QUEUED",
        detail: str = "",
        started: float | None = None,
        resume_from: str | None = None,
        resume_step: int | None = None,
        gpus: list[str] | None = None,
    ) -> Row:
        self._db.execute(
            "INSERT INTO runs (run_id, name, worker, state, detail, attempt, place, resume_from, resume_step, started,"
            " gpus, job)"
            " VALUES (?, ?, ?, ?, ?, ?, (SELECT coalesce(max(place), 0) + 1 FROM runs), ?, ?, ?, ?, ?)",
            (
                job.run_id,
                job.name,
                job.worker,
                state,
                detail,
                attempt,
                resume_from,
                resume_step,
                started,
                _json(gpus or []),
                _json(job),
            ),
        )
        return self._existing(job.run_id)

    def mark_active(self, run_id: str, gpus: list[str], started: float) -> Row:
        return self._change(run_id, state="ACTIVE", gpus=_json(gpus), started=started, passes=0)

    def requeue(
        self,
        run_id: str,
        *,
        attempt: int,
        detail: str,
        retries: int,
        resume_from: str | None = None,
        resume_step: int | None = None,
    ) -> Row:
        """Let a run wait for its next attempt, behind those that wait already."""
        place = self._db.execute("SELECT coalesce(max(place), 0) + 1 AS next FROM runs").fetchone()["next"]
        return self._change(
            run_id,
            state="QUEUED",
            detail=detail,
            attempt=attempt,
            place=place,
            retries=retries,
            resume_from=resume_from,
            resume_step=resume_step,
            step=resume_step,
            gpus="[]",
            passes=0,
            cancel=0,
            started=None,
            ended=None,
            exit=None,
        )

    def put_back(self, run_id: str) -> Row:
        """An attempt that never started waits again, in its old place."""
        return self._change(run_id, state="QUEUED", gpus="[]", started=None)

    def finish(self, record: ExitRecord, *, total_steps: int | None, detail: str = "") -> Row:
        return self._change(
            record.run_id,
            state=record.outcome.upper(),
            detail=detail,
            attempt=record.attempt,
            started=record.started,
            ended=record.ended,
            exit=_json(record),
            step=record.last_step,
            total_steps=total_steps,
            gpus="[]",
            cancel=0,
        )

    def ask_cancel(self, run_id: str) -> Row:
        return self._change(run_id, cancel=1)

    def reopen(self, run_id: str) -> Row:
        """It was taken for ended, and has not: its folder will say how it is."""
        return self._change(run_id, state="ACTIVE", ended=None, exit=None)

    def set_attempt(self, run_id: str, attempt: int) -> Row:
        return self._change(run_id, attempt=attempt)

    def set_passes(self, run_id: str, passes: int) -> Row:
        return self._change(run_id, passes=passes)

    def remove(self, run_id: str) -> None:
        self._db.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

    def _change(self, run_id: str, **columns: Any) -> Row:
        assignments = ", ".join(f"{name} = ?" for name in columns)
        self._db.execute(f"UPDATE runs SET {assignments} WHERE run_id = ?", (*columns.values(), run_id))
        return self._existing(run_id)

    def _existing(self, run_id: str) -> Row:
        row = self.get(run_id)
        if row is None:
            raise UnknownRun(f"run {run_id!r}: no such run")
        return row


def _open(path: Path) -> sqlite3.Connection:
    # Each statement is its own transaction. The daemon uses the connection in its event loop's thread only.
    db = sqlite3.connect(path, isolation_level=None)
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # Commits survive the daemon's death; a power cut may take the last ones, which recovery reads off the folders.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA busy_timeout = 2000")
        _migrate(db, path)
        if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise sqlite3.OperationalError(
            f"{path} is of version {version}, newer than {len(MIGRATIONS)}, the newest known here: update MOSAIC"
        )
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        db.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _row(found: sqlite3.Row) -> Row:
    return Row(
        run_id=found["run_id"],
        name=found["name"],
        worker=found["worker"],
        state=found["state"],
        detail=found["detail"],
        attempt=found["attempt"],
        place=found["place"],
        resume_from=found["resume_from"],
        resume_step=found["resume_step"],
        gpus=msgspec.json.decode(found["gpus"]),
        retries=found["retries"],
        passes=found["passes"],
        cancel=bool(found["cancel"]),
        started=found["started"],
        ended=found["ended"],
        exit=msgspec.json.decode(found["exit"], type=ExitRecord) if found["exit"] else None,
        step=found["step"],
        total_steps=found["total_steps"],
        job=msgspec.json.decode(found["job"], type=Job),
    )
