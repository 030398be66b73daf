"""Noticing the end of shepherds: by the kernel, through pidfds in the event loop. Nothing polls."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable

from mosaic.paths import RunFolder
from mosaic.shepherd.lock import is_locked, read_shepherd
from mosaic.shepherd.processes import read_process

# How soon to look again at a lock whose holder has not said yet who it is, at first and at most.
LOOK_AGAIN_S = (0.02, 1.0)


class ShepherdWatch:
    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self._descriptors: dict[str, int] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._descriptors

    def child(self, run_id: str, process: subprocess.Popen[bytes]) -> None:
        """Watch a shepherd that we started ourselves, and reap it."""
        # Not reaped yet, so the pid cannot be anybody else's.
        self._watch(run_id, os.pidfd_open(process.pid), process)

    async def adopt(self, folder: RunFolder) -> bool:
        """Watch the living shepherd of a run, whoever started it; False if it does not live any more."""
        pause, longest = LOOK_AGAIN_S
        while is_locked(folder):
            descriptor = _open_shepherd(folder)
            if descriptor is not None:
                self._watch(folder.run_id, descriptor, None)
                return True
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
        return False

    def close(self) -> None:
        for run_id in list(self._descriptors):
            self._forget(run_id)

    def _watch(self, run_id: str, descriptor: int, process: subprocess.Popen[bytes] | None) -> None:
        self._forget(run_id)
        self._descriptors[run_id] = descriptor

        def ended() -> None:
            self._forget(run_id)
            if process is not None:
                process.wait()
            self._on_end(run_id)

        asyncio.get_running_loop().add_reader(descriptor, ended)

    def _forget(self, run_id: str) -> None:
        descriptor = self._descriptors.pop(run_id, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)


def _open_shepherd(folder: RunFolder) -> int | None:
    """A pidfd of the process that shepherd.json names, if that is alive and the very one."""
    info = read_shepherd(folder)
    if info is None or info.pid == 0:
        return None
    try:
        descriptor = os.pidfd_open(info.pid)
    except ProcessLookupError:
        return None
    process = read_process(info.pid)
    if process is None or process.start_ticks != info.start_ticks or process.state in "ZX":
        os.close(descriptor)
        return None
    return descriptor
