"""launch.json: how one attempt of a run is started. The daemon writes it, the shepherd reads it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mosaic.paths import RunFolder

MIB = 1 << 20
SHARED_MEMORY = Path("/dev/shm")
_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


class LaunchError(Exception):
    """launch.json is missing or wrong; the text is one line for people."""


class Launch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    run_id: str
    attempt: int  # from 1
    argv: list[str]
    env: dict[str, str] = {}  # added to the inherited environment
    cwd: str = ""  # the run folder if empty
    resume_from: str | None = None  # a checkpoint folder, relative to the run folder
    # The step on that checkpoint's card: rows of earlier attempts past it are superseded.
    # None on a later attempt means from scratch: all earlier rows are superseded.
    resume_step: int | None = None
    worker_pauses: bool = False  # the worker handles pause itself
    term_grace_s: float = 30.0
    memory_mb: int | None = None
    log_max_bytes: int = 16 * MIB
    log_keep: int = 4  # files, the current one included
    disk_full_grace_s: float = 120.0  # how long to wait for room on a full disk before ending the run
    pause_grace_s: float = 30.0  # how long a worker may take to pause itself before it is stopped


def read_launch(folder: RunFolder) -> Launch:
    try:
        launch = msgspec.json.decode(folder.launch.read_bytes(), type=Launch)
    except FileNotFoundError:
        raise LaunchError(f"{folder.launch}: no such file; the first argument must be a run folder") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LaunchError(f"{folder.launch}: {error}") from None
    if not _RUN_ID.fullmatch(launch.run_id):
        raise LaunchError(f"{folder.launch}: run_id {launch.run_id!r} may hold only letters, digits, '-' and '_'")
    if launch.attempt < 1 or not launch.argv:
        raise LaunchError(f"{folder.launch}: attempt must be 1 or more and argv not empty")
    return launch


def shepherd_command(folder: RunFolder) -> list[str]:
    """What the daemon spawns (in a session of its own, stdin /dev/null, output appended to logs/shepherd.log)."""
    # -P: no module from the folder that it happens to be started in.
    return [sys.executable, "-P", "-m", "mosaic.shepherd", str(folder.path)]


def shared_memory_folder(run_id: str) -> Path:
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"run_id {run_id!r} may hold only letters, digits, '-' and '_'")
    return SHARED_MEMORY / f"mosaic-{run_id}"


def worker_environment(launch: Launch, folder: RunFolder, inherited: Mapping[str, str]) -> dict[str, str]:
    """The worker's environment. MOSAIC_RUN_ID in it is also how leftovers of a lost run are found again."""
    path = folder.path.resolve()
    environment = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"} | dict(inherited) | launch.env
    environment.pop("MOSAIC_RESUME_FROM", None)
    environment |= {
        "MOSAIC_RUN_ID": launch.run_id,
        "MOSAIC_RUN_DIR": str(path),
        "MOSAIC_ATTEMPT": str(launch.attempt),
        "MOSAIC_FASTLANE_DIR": str(shared_memory_folder(launch.run_id)),
    }
    if launch.resume_from is not None:
        environment["MOSAIC_RESUME_FROM"] = os.path.normpath(path / launch.resume_from)
    return environment
