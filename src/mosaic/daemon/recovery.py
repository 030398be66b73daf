"""What a daemon does first: bring the registry to what the run folders say. Nothing is started twice.

The living are found by the lock that their shepherd holds, the dead by exit.json, the lost by neither. An attempt that
was decided on but never taken up by a shepherd waits again.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator

import msgspec

from mosaic.daemon import ends
from mosaic.daemon.dispatcher import Dispatcher
from mosaic.daemon.job import Job
from mosaic.daemon.launching import read_job
from mosaic.daemon.registry import Registry
from mosaic.paths import Home, RunFolder
from mosaic.shepherd.launch import LaunchError, read_launch

log = logging.getLogger("mosaic.daemon")

# A run that is being deleted: renamed to this first.
TRASH_PREFIX = ".trash-"


async def recover(home: Home, registry: Registry, dispatcher: Dispatcher) -> None:
    home.runs.mkdir(parents=True, exist_ok=True)
    if registry.set_aside:
        log.error("the registry was not readable; it lies in %s, a new one is made", registry.set_aside)
    for trash in home.runs.glob(TRASH_PREFIX + "*"):
        registry.remove(trash.name.removeprefix(TRASH_PREFIX))
        await asyncio.to_thread(shutil.rmtree, trash, ignore_errors=True)
    for folder, job in folders_without_row(home, registry):
        enter(registry, folder, job)
    # The living first take their resources; burying the lost can take a while and keeps nobody waiting.
    for row in registry.rows(states=("QUEUED",)):
        await dispatcher.settle(row.run_id)
    for row in registry.rows(states=("ACTIVE",)):
        dispatcher.in_background(dispatcher.settle(row.run_id))


def folders_without_row(home: Home, registry: Registry) -> Iterator[tuple[RunFolder, Job]]:
    """Run folders that the registry does not know, the oldest first."""
    known = registry.run_ids()
    for path in sorted(home.runs.iterdir()):
        folder = RunFolder(path)
        if path.name in known or path.name.startswith("."):
            continue
        job = job_of(folder)
        if job is not None:
            yield folder, job


def job_of(folder: RunFolder) -> Job | None:
    """The job of a run folder; None if it is none, or the copy of one under another name."""
    try:
        job = read_job(folder)
    except (OSError, msgspec.DecodeError):
        return None
    return job if job.run_id == folder.run_id else None


def enter(registry: Registry, folder: RunFolder, job: Job) -> None:
    """Make the row of a folder. What has not ended is looked at by `settle` like every other row."""
    attempt = ends.known_attempt(folder) or 1
    try:
        launch = read_launch(folder)
    except LaunchError:
        launch = None
    status = ends.read_state(folder, attempt)
    queued = status.state == "QUEUED"
    gpus = launch.env.get("CUDA_VISIBLE_DEVICES", "").split(",") if launch and job.resources.gpus else []
    registry.add(
        job,
        attempt=attempt,
        state="QUEUED" if queued else "ACTIVE",
        started=status.shepherd.started if status.shepherd else None,
        resume_from=launch.resume_from if launch else None,
        resume_step=launch.resume_step if launch else None,
        gpus=[] if queued else [gpu for gpu in gpus if gpu],
    )
    if status.exit is not None:
        registry.finish(status.exit, total_steps=ends.total_steps(folder))
    log.info("run %s (%s): found its folder, %s", job.run_id, job.name, status.state)
