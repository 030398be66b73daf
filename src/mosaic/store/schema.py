"""The tables of `run.sqlite`.

One sequence of numbers (`seq`) runs through all tables and attempts, from 1 and without gaps, so "what came after N" is
a range in each table. An attempt owns the numbers from its `first_seq` up to the next attempt's, which is why no other
table names the attempt. Numbers are REAL; NULL in a column of numbers means NaN (SQLite has no NaN).

`points` holds each metric in one place, in order of seq, and `rollups` holds what plots need: 8 neighbouring points of
one metric and attempt make a bucket of level 1, 8 of those one of level 2, and so on. Only full buckets are written.
What follows the last full bucket is in the level below it, down to the points, so a killed writer leaves nothing half
done.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from mosaic.files import sync_folder
from mosaic.store.errors import StoreForeign, StoreTooNew

APPLICATION_ID = 0x4D4F5341  # "MOSA"
VERSION = 1
PAGE_SIZE = 8192

# What fits in an INTEGER column. A worker may say any integer that JSON can.
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1

TABLES = """
CREATE TABLE attempts (
    attempt INTEGER PRIMARY KEY, started REAL NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
    resumed_from TEXT, resumed_step INTEGER, state TEXT NOT NULL, state_time REAL NOT NULL, detail TEXT NOT NULL,
    last_step INTEGER, total_steps INTEGER, last_heard REAL, last_heartbeat REAL, rate REAL,
    ended REAL, outcome TEXT, exit_code INTEGER, signal TEXT, reason TEXT NOT NULL, message TEXT NOT NULL
);
CREATE TABLE counters (
    attempt INTEGER NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (attempt, name)
) WITHOUT ROWID;
CREATE TABLE steps (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, step INTEGER NOT NULL, reward REAL, episode INTEGER NOT NULL,
    agent TEXT NOT NULL, env INTEGER NOT NULL, extra TEXT
);
CREATE TABLE episodes (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, step INTEGER NOT NULL, episode INTEGER NOT NULL, episode_return REAL,
    length INTEGER NOT NULL, agent TEXT NOT NULL, env INTEGER NOT NULL, extra TEXT
);
CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
-- One row a message; `series` is the JSON list of the ids of its metrics, whose values are in `points`.
CREATE TABLE metrics (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, step INTEGER NOT NULL, series TEXT NOT NULL
);
CREATE TABLE points (
    series INTEGER NOT NULL, seq INTEGER NOT NULL, step INTEGER NOT NULL, value REAL, PRIMARY KEY (series, seq)
) WITHOUT ROWID;
-- `seq` is the bucket's last point, `first_seq` its first; `numbers` says how many are not NaN.
CREATE TABLE rollups (
    series INTEGER NOT NULL, level INTEGER NOT NULL, seq INTEGER NOT NULL, first_seq INTEGER NOT NULL,
    step_min INTEGER NOT NULL, step_max INTEGER NOT NULL, numbers INTEGER NOT NULL, nan INTEGER NOT NULL,
    min REAL, max REAL, mean REAL, last REAL, PRIMARY KEY (series, level, seq)
) WITHOUT ROWID;
CREATE TABLE logs (seq INTEGER PRIMARY KEY, time REAL NOT NULL, level TEXT NOT NULL, message TEXT NOT NULL);
-- Every other kind of row, and the few messages that do not fit their own table; `body` is the message as JSON.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX events_by_kind ON events (kind);
"""


def create(path: Path) -> None:
    """Make an empty store under a temporary name, then give it its own: nobody ever sees half a store."""
    temporary = path.with_name(f".{path.name}.new")
    for ending in ("", "-wal", "-shm"):
        temporary.with_name(temporary.name + ending).unlink(missing_ok=True)
    connection = sqlite3.connect(temporary, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(
            f"BEGIN;{TABLES};PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {VERSION};COMMIT"
        )
        # Here it costs nothing, later it would be four waits for the disk.
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise unless the open file is a store that this MOSAIC understands."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise StoreForeign(f"{path} is not a MOSAIC store: {error}") from error
    if application != APPLICATION_ID:
        raise StoreForeign(f"{path} is not a MOSAIC store: application id {application:#x}, not {APPLICATION_ID:#x}")
    if version > VERSION:
        raise StoreTooNew(
            f"{path} has store version {version}, this MOSAIC reads up to version {VERSION}: update MOSAIC to open it"
        )
