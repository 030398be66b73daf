"""Clear away what a run left behind: processes of a shepherd that was killed, and shared memory."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from functools import partial

from mosaic.shepherd.launch import shared_memory_folder
from mosaic.shepherd.limits import cgroup_name, remove_left_cgroup
from mosaic.shepherd.lock import ShepherdInfo
from mosaic.shepherd.processes import Process, boot_id, kill_all, leftovers, read_process, thaw


def clear_leftovers(dead: ShepherdInfo, *, grace_s: float) -> int:
    """End the processes and remove the shared memory of a dead shepherd's run. Returns how many had to be killed.

    For the holder of the run's lock only.
    """
    session = _session(dead)
    find = partial(leftovers, dead.run_id, session)
    deadline = time.monotonic() + grace_s
    thaw(find)  # a stopped worker hears no SIGTERM
    while find() and time.monotonic() < deadline:
        time.sleep(0.01)
    remaining = find()
    kill_leftovers(dead.run_id, session)
    remove_left_cgroup(cgroup_name(dead.run_id, dead.attempt))
    remove_shared_memory(dead.run_id)
    return len(remaining)


def kill_leftovers(run_id: str, session: int | None = None) -> None:
    find = partial(leftovers, run_id, session)
    kill_all(find, partial(_not_found, find))


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


def _not_found(find: Callable[[], list[Process]]) -> bool:
    """They are no children of ours, so looking is all that we can do. Once is not enough: see `freeze`."""
    return not any(find() for _ in range(3))
