"""Opening a store for reading, wherever it lies and whoever writes to it.

SQLite's read-only mode is not quite that on a WAL database: it wants the `-shm` file beside it, makes it if it can, and
leaves it behind. So where no writer can be active, which is when there is nothing in the `-wal` file, the store is
opened as immutable: without locks and without traces. Whether that was still true after a query is checked each time.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from mosaic.store import schema
from mosaic.store.errors import StoreMissing

BUSY_S = 30.0
CACHE_KIB = 16384

T = TypeVar("T")


class Access:
    """A read-only connection that reopens itself when a writer comes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._signature: tuple[int, int, int] | None = None
        self._database = self._open()

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer from one consistent snapshot."""
        while True:
            try:
                answer = self._ask_once(question)
            except sqlite3.DatabaseError:
                if not self._outdated():
                    raise
            else:
                if not self._outdated():
                    return answer
            self._database.close()
            self._database = self._open()

    def close(self) -> None:
        self._database.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _ask_once(self, question: Callable[[sqlite3.Connection], T]) -> T:
        database = self._database
        database.execute("BEGIN")
        try:
            return question(database)
        finally:
            database.rollback()

    def _outdated(self) -> bool:
        """Was the store opened as immutable, and has changed since?"""
        return self._signature is not None and (self._in_use() or self._sign() != self._signature)

    def _in_use(self) -> bool:
        try:
            return self._wal.stat().st_size > 0
        except FileNotFoundError:
            return False

    @property
    def _wal(self) -> Path:
        return self._path.with_name(self._path.name + "-wal")

    def _sign(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _open(self) -> sqlite3.Connection:
        try:
            signature = self._sign()
        except FileNotFoundError:
            raise StoreMissing(f"{self._path} is not there: no attempt of the run has started") from None
        if not self._in_use():
            self._signature = signature
            return _connect(self._path, "immutable=1")
        self._signature = None
        try:
            return _connect(self._path, "mode=ro")
        except sqlite3.OperationalError:
            if os.access(self._path.parent, os.W_OK):
                raise
        # The folder was copied in the midst of an attempt, without its -shm file, to where none can be made.
        self._copy = tempfile.TemporaryDirectory(prefix="mosaic-store-")
        for source in (self._path, self._wal):
            shutil.copyfile(source, Path(self._copy.name) / source.name)
        return _connect(Path(self._copy.name) / self._path.name, "mode=ro")


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{options}"
    database = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        schema.check(database, path)
        database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except BaseException:
        database.close()
        raise
    return database
