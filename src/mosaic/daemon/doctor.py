"""Finds and explains what is wrong in a home folder, and mends it on request.

Everything here is decided by locks and records, never by names or ages alone: what belongs to a run whose shepherd
lives is nobody's to touch.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from mosaic import flock
from mosaic.daemon.recovery import TRASH_PREFIX, enter, job_of
from mosaic.daemon.registry import Row
from mosaic.daemon.trainer import Trainer
from mosaic.daemon.ulid import is_ulid
from mosaic.envs import InstalledWorker
from mosaic.paths import Home, RunFolder
from mosaic.shepherd.clearing import kill_leftovers, remove_shared_memory
from mosaic.shepherd.launch import SHARED_MEMORY
from mosaic.shepherd.lock import is_locked, read_shepherd
from mosaic.shepherd.processes import Process, all_processes, leftovers

SHARED_PREFIX = "mosaic-"
# Younger folders may be submissions that are just being written.
SETTLED_S = 60.0


class Finding(msgspec.Struct, kw_only=True):
    kind: str
    subject: str
    message: str
    mend: str | None = None  # what mending does; None: a person has to decide
    mended: bool = False


@dataclass(frozen=True)
class Problem:
    kind: str
    subject: str
    message: str
    mend: str | None = None
    cure: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)

    def finding(self, *, mended: bool = False) -> Finding:
        return Finding(kind=self.kind, subject=self.subject, message=self.message, mend=self.mend, mended=mended)


class Doctor:
    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._home = trainer.home

    async def examine(self) -> list[Finding]:
        return [problem.finding() for problem in await self._problems()]

    async def mend(self) -> list[Finding]:
        findings = []
        for problem in await self._problems():
            if problem.cure is not None:
                await problem.cure()
            findings.append(problem.finding(mended=problem.cure is not None))
        return findings

    async def _problems(self) -> list[Problem]:
        registry = self._trainer.registry
        rows = {row.run_id: row for row in registry.rows()}
        # Reading folders and /proc goes on in a thread; what is found is mended from here.
        found = [*self._rows_and_folders(rows)]
        found += await asyncio.to_thread(lambda: [*self._locks(rows), *self._processes(rows), *self._leavings(rows)])
        found += await asyncio.to_thread(lambda: [*self._environments()])
        return found

    # Registry and folders

    def _rows_and_folders(self, rows: dict[str, Row]) -> Iterator[Problem]:
        for row in rows.values():
            if not self._home.run(row.run_id).path.is_dir():
                yield Problem(
                    "row_without_folder",
                    row.name,
                    f"run {row.run_id} is in the registry and has no folder",
                    "forget the run",
                    partial(self._forget, row),
                )
        for path in sorted(self._home.runs.iterdir()):
            if path.name in rows or path.name.startswith(".") or time.time() - path.stat().st_mtime < SETTLED_S:
                continue
            folder = RunFolder(path)
            if job_of(folder) is not None:
                yield Problem(
                    "folder_without_row",
                    path.name,
                    "a run folder that the registry does not know",
                    "enter it into the registry",
                    partial(self._enter, folder),
                )
            elif is_ulid(path.name) and not folder.job.exists():
                yield Problem(
                    "half_made_folder",
                    path.name,
                    "a run folder without job.json: submitting it was interrupted, and was never answered",
                    "remove the folder",
                    partial(_remove, path),
                )
            else:
                yield Problem(
                    "strange_folder",
                    path.name,
                    "not a run folder under its own name (a copy must keep the name; job.json must be readable)",
                )

    async def _forget(self, row: Row) -> None:
        async with self._trainer.dispatcher.lock(row.run_id):
            if not self._home.run(row.run_id).path.is_dir():
                self._trainer.registry.remove(row.run_id)
                self._trainer.hub.changed(row.run_id)

    async def _enter(self, folder: RunFolder) -> None:
        job = job_of(folder)
        if job is not None and self._trainer.registry.get(job.run_id) is None:
            enter(self._trainer.registry, folder, job)
            await self._trainer.dispatcher.settle(job.run_id)

    # Locks, processes, shared memory of runs

    def _locks(self, rows: dict[str, Row]) -> Iterator[Problem]:
        for row in rows.values():
            folder = self._home.run(row.run_id)
            if not is_locked(folder):
                continue
            holders = lock_holders(folder.lock)
            info = read_shepherd(folder)
            if info is not None and info.pid in holders:
                if row.has_ended:
                    yield Problem(
                        "unwatched_shepherd",
                        row.name,
                        f"the registry says {row.state}, but its shepherd {info.pid} lives",
                        "look at the folder again",
                        partial(self._look_again, row),
                    )
                continue
            who = ", ".join(f"{pid} ({_command(pid)})" for pid in holders) or "nobody that can be seen"
            yield Problem(
                "stale_lock",
                row.name,
                f"the run's lock is held by process {who}, which is not its shepherd",
                None,
            )

    async def _look_again(self, row: Row) -> None:
        self._trainer.registry.reopen(row.run_id)
        await self._trainer.dispatcher.settle(row.run_id)

    def _processes(self, rows: dict[str, Row]) -> Iterator[Problem]:
        for run_id, processes in marked_processes().items():
            folder = self._home.run(run_id)
            row = rows.get(run_id)
            ours = row is not None or folder.path.is_dir()
            if not ours or is_locked(folder) or (row is not None and not row.has_ended):
                continue
            pids = ", ".join(f"{process.pid} ({_command(process.pid)})" for process in processes)
            yield Problem(
                "orphaned_processes",
                row.name if row else run_id,
                f"the run has ended and left processes running: {pids}",
                "kill them",
                partial(_kill, folder),
            )

    def _leavings(self, rows: dict[str, Row]) -> Iterator[Problem]:
        for path in SHARED_MEMORY.glob(SHARED_PREFIX + "*"):
            run_id = path.name.removeprefix(SHARED_PREFIX)
            folder = self._home.run(run_id)
            # One of another home is that one's business.
            ours = run_id in rows or (is_ulid(run_id) and folder.path.is_dir())
            if ours and path.is_dir() and path.stat().st_uid == os.getuid() and not is_locked(folder):
                yield Problem(
                    "stray_shared_memory",
                    str(path),
                    "frames of a run that is over",
                    "remove it",
                    partial(_clear_shared_memory, folder),
                )
        for trash in self._home.runs.glob(TRASH_PREFIX + "*"):
            yield Problem(
                "half_deleted_run",
                trash.name,
                "a run that was not wholly deleted",
                "delete it",
                partial(_remove, trash),
            )

    # Environments

    def _environments(self) -> Iterator[Problem]:
        if not self._home.envs.is_dir():
            return
        for path in sorted(self._home.envs.iterdir()):
            if not path.is_dir():
                continue
            half_made = path.name.startswith(".")
            if not half_made and InstalledWorker.read(path) is not None:
                continue
            if _is_being_installed(self._home, path):
                continue
            message = "installing or removing it was interrupted" if half_made else "it is not usable (any more)"
            yield Problem(
                "half_made_environment",
                str(path.relative_to(self._home.root)),
                f"a worker environment that is not whole: {message}",
                "remove it; it is installed anew when it is needed",
                partial(_remove, path),
            )


def marked_processes() -> dict[str, list[Process]]:
    """Processes that belong to runs, by the run that their environment names."""
    found: dict[str, list[Process]] = {}
    for process in all_processes():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environment:
            name, _, value = entry.partition(b"=")
            if name == b"MOSAIC_RUN_ID":
                found.setdefault(value.decode(errors="replace"), []).append(process)
    # What `leftovers` spares (ourselves, whoever started us) is no orphan.
    return {run_id: left for run_id in found if is_ulid(run_id) and (left := leftovers(run_id))}


def lock_holders(path: Path) -> list[int]:
    """Which processes hold a flock on a file, as far as the kernel tells."""
    status = path.stat()
    identity = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    holders = []
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "FLOCK" in fields and fields[-3] == identity:
            holders.append(int(fields[-4]))
    return holders


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def _is_being_installed(home: Home, path: Path) -> bool:
    key = path.name.strip(".").removesuffix(".new").removesuffix(".old")
    return flock.is_held(home.envs / f"{key}.lock")


async def _kill(folder: RunFolder) -> None:
    if is_locked(folder):
        return
    await asyncio.to_thread(kill_leftovers, folder.run_id)


async def _clear_shared_memory(folder: RunFolder) -> None:
    if not is_locked(folder):
        await asyncio.to_thread(remove_shared_memory, folder.run_id)


async def _remove(path: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
