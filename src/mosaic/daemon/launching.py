"""Starting one attempt: job.json and launch.json into the run folder, then a shepherd that outlives the daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import msgspec

from mosaic.daemon.job import Job, Resources
from mosaic.daemon.programs import Program
from mosaic.daemon.registry import Row
from mosaic.files import write_atomic
from mosaic.paths import RunFolder
from mosaic.shepherd.launch import Launch, shepherd_command

# What the daemon's own environment must not pass on: the worker has its own Python, and its own run.
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
UNWANTED_PREFIXES = ("MOSAIC_RUN_", "MOSAIC_ATTEMPT", "MOSAIC_RESUME_", "MOSAIC_FASTLANE_DIR", "MOSAIC_TELEMETRY_")


def write_job(folder: RunFolder, job: Job, files: Mapping[str, bytes]) -> None:
    """Make the run folder. With job.json in place the run exists, also for a daemon that has lost its registry."""
    folder.path.mkdir(parents=True)
    for name, content in files.items():
        write_atomic(folder.path / name, content)
    write_atomic(folder.job, msgspec.json.format(msgspec.json.encode(job)) + b"\n")


def read_job(folder: RunFolder) -> Job:
    return msgspec.json.decode(folder.job.read_bytes(), type=Job)


def write_launch(folder: RunFolder, row: Row, program: Program, machine_gpus: Sequence[str]) -> None:
    resources = row.job.resources
    launch = Launch(
        run_id=row.run_id,
        attempt=row.attempt,
        argv=program.argv,
        env=_environment(resources, row.gpus, machine_gpus),
        worker_pauses=program.pauses,
        memory_mb=resources.memory_mb,
        resume_from=row.resume_from,
        resume_step=row.resume_step,
    )
    write_atomic(folder.launch, msgspec.json.format(msgspec.json.encode(launch)) + b"\n")


def spawn_shepherd(folder: RunFolder) -> subprocess.Popen[bytes]:
    folder.logs.mkdir(exist_ok=True)
    with folder.shepherd_log.open("ab") as log:
        return subprocess.Popen(
            shepherd_command(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # `python -m` looks for modules in the current folder first: not in one that a worker writes to.
            cwd="/",
            env=clean_environment(),
            start_new_session=True,
        )


def spawn_recorder(folder: RunFolder, every_episodes: int) -> None:
    """The clips that a run asked for. A reader of its frames like any other: it ends with them, and disturbs nobody."""
    with (folder.logs / "recorder.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "mosaic.recorder", str(folder.path), "--every-episodes", str(every_episodes)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=clean_environment(),
            start_new_session=True,
        )


def clean_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in UNWANTED and not name.startswith(UNWANTED_PREFIXES)
    }


def _environment(resources: Resources, gpus: Sequence[str], machine_gpus: Sequence[str]) -> dict[str, str]:
    environment = {}
    if machine_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if resources.cpus > 1 and "OMP_NUM_THREADS" not in os.environ:
        environment["OMP_NUM_THREADS"] = str(resources.cpus)
    return environment
