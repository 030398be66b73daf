"""Clear away what a run left behind: processes of a shepherd that was killed, and shared memory."""

from __future__ import annotations

import os
import stat
import time
from functools import partial

from mosaic.shepherd.launch import shared_memory_folder
from mosaic.shepherd.lock import ShepherdInfo
from mosaic.shepherd.processes import boot_id, kill_all, leftovers, read_process, thaw


def clear_leftovers(dead: ShepherdInfo, *, grace_s: float) -> int:
    """End the processes and remove the shared memory of a dead shepherd's run. Returns how many had to be killed.

    For the holder of the run's lock only.
    """
    find = partial(leftovers, dead.run_id, _session(dead))
    deadline = time.monotonic() + grace_s
    thaw(find)  # a stopped worker hears no SIGTERM
    while find() and time.monotonic() < deadline:
        time.sleep(0.01)
    remaining = find()
    if remaining:
        kill_all(find, reap=_nothing)
    remove_shared_memory(dead.run_id)
    return len(remaining)


def _session(dead: ShepherdInfo) -> int | None:
    """The worker's session, unless its number means another one by now."""
    if dead.session is None or dead.boot_id != boot_id():
        return None
    leader = read_process(dead.session)
    return dead.session if leader is None or leader.start_ticks == dead.worker_start_ticks else None


def remove_shared_memory(run_id: str) -> None:
    """Remove /dev/shm/mosaic-<run_id> if it is a folder of ours (not a link to somewhere else)."""
    path = shared_memory_folder(run_id)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        import shutil  # slow to load, and most runs have no shared memory

        shutil.rmtree(path, ignore_errors=True)


def _nothing() -> None:
    """They are no children of ours: init reaps them."""
