"""From a run folder to the end of an attempt: who may shepherd it, and where its end is recorded."""

from __future__ import annotations

from pathlib import Path

from mosaic.paths import RunFolder
from mosaic.shepherd.complaints import complain
from mosaic.shepherd.exit_record import ExitFile, read_exit
from mosaic.shepherd.launch import LaunchError, read_launch
from mosaic.shepherd.lock import read_shepherd, take_lock
from mosaic.shepherd.shepherd import Shepherd

RECORDED, MISUSED, REFUSED, UNRECORDED = 0, 2, 3, 4


def tend(path: str) -> int:
    """Shepherd the run in this folder to its end."""
    folder = RunFolder(Path(path).resolve())
    try:
        launch = read_launch(folder)
    except LaunchError as error:
        complain(str(error))
        return MISUSED
    lock = take_lock(folder)
    if lock is None:
        complain(f"run {launch.run_id} already has a shepherd, nothing started")
        return REFUSED
    earlier, ended = read_shepherd(folder), read_exit(folder)
    recorded = max(earlier.attempt if earlier else 0, ended.attempt if ended else 0)
    if launch.attempt <= recorded:
        complain(f"attempt {launch.attempt} is not after {recorded}, nothing started")
        return REFUSED
    try:
        exit_file = ExitFile(folder)
    except OSError as error:
        complain(f"no room for exit.json in {folder.path}: {error.strerror}")
        return UNRECORDED
    record = Shepherd(folder, launch, earlier).run()
    try:
        exit_file.write(record)
    except OSError as error:  # the folder was taken away meanwhile
        complain(f"could not record the end in {folder.exit}: {error.strerror}")
        return UNRECORDED
    return RECORDED
