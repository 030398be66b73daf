"""exit.json: how the last attempt of a run ended. Never a guess."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from mosaic.files import sync_folder
from mosaic.paths import RunFolder
from mosaic.shepherd.lock import read_shepherd

Outcome = Literal["succeeded", "failed", "cancelled", "lost"]
Reason = Literal[
    "completed",
    "stopped",
    "error",
    "bad_config",
    "killed",
    "out_of_memory",
    "cancelled",
    "disk_full",
    "spawn_failed",
    "unknown",
]

_RESERVED_BYTES = 8192
_MESSAGE_LIMIT = 500


class ExitRecord(msgspec.Struct, kw_only=True):
    run_id: str
    attempt: int
    outcome: Outcome
    exit_code: int | None = None
    signal: str | None = None
    reason: Reason
    message: str  # one line for people
    started: float
    ended: float
    last_seq: int
    last_step: int | None = None
    counts: dict[str, int] = {}  # everything odd that was seen


def one_line(text: str) -> str:
    """`text` as one printable line of bounded length."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return line if len(line) <= _MESSAGE_LIMIT else line[: _MESSAGE_LIMIT - 3] + "..."


def read_exit(folder: RunFolder) -> ExitRecord | None:
    """Of a damaged exit.json (a bad disk, half a copy) only that there was an end."""
    try:
        return msgspec.json.decode(folder.exit.read_bytes(), type=ExitRecord)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        begun = read_shepherd(folder)
        written = folder.exit.stat().st_mtime
        return ExitRecord(
            run_id=folder.run_id,
            attempt=begun.attempt if begun else 1,
            outcome="lost",
            reason="unknown",
            message=one_line(f"exit.json is damaged, so nobody knows how it ended: {error}"),
            started=begun.started if begun else written,
            ended=written,
            last_seq=0,
        )


class ExitFile:
    """Holds the disk space of exit.json from the start, so that the end can be recorded on a full disk.

    The record is padded with blanks to the reserved size: no block has to be found when it is written.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._reserve = folder.path / ".exit.json.reserve"
        self._descriptor = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(self._descriptor, 0, _RESERVED_BYTES)
        except OSError:
            self.discard()
            raise

    def write(self, record: ExitRecord) -> None:
        record.message = one_line(record.message)
        data = msgspec.json.encode(record)
        if len(data) >= _RESERVED_BYTES:
            raise ValueError(f"the exit record takes {len(data)} bytes, {_RESERVED_BYTES} are reserved")
        os.pwrite(self._descriptor, data.ljust(_RESERVED_BYTES - 1) + b"\n", 0)
        os.fsync(self._descriptor)
        self._reserve.replace(self._folder.exit)
        sync_folder(self._folder.path)
        os.close(self._descriptor)

    def discard(self) -> None:
        os.close(self._descriptor)
        self._reserve.unlink(missing_ok=True)
