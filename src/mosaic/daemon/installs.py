"""Environments that runs wait for: installed in threads, one after another for each worker, told line by line."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Sequence

from mosaic.envs import EnvsError, WorkerEnvs


class Installs:
    def __init__(
        self, envs: WorkerEnvs, on_end: Callable[[str, str | None], None], on_report: Callable[[str], None]
    ) -> None:
        self._envs = envs
        self._on_end = on_end
        self._on_report = on_report
        self._lines: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def under_way(self, worker: str) -> str | None:
        """What the install says last, or None if there is none."""
        return self._lines.get(worker)

    def want(self, worker: str, extras: Sequence[str] = ()) -> str:
        """See to it that the environment gets installed; what to tell those who wait for it."""
        if worker not in self._tasks:
            self._lines[worker] = ""
            self._tasks[worker] = asyncio.create_task(self._install(worker, extras))
        line = self._lines[worker]
        return f"installing environment {worker}" + (f": {line}" if line else "")

    async def _install(self, worker: str, extras: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()

        def report(line: str) -> None:
            loop.call_soon_threadsafe(self._heard, worker, line)

        # What is said if it fails in a way that nobody thought of: the runs must not wait for ever.
        failure: str | None = f"installing {worker} failed: see daemon.log"
        try:
            await asyncio.to_thread(self._envs.install, worker, extras=extras, report=report)
            failure = None
        except EnvsError as error:
            failure = str(error)
        except (OSError, subprocess.SubprocessError) as error:
            failure = f"installing {worker} failed: {error}"
        finally:
            del self._tasks[worker], self._lines[worker]
            self._on_end(worker, failure)

    def _heard(self, worker: str, line: str) -> None:
        if worker in self._lines:
            self._lines[worker] = line
            self._on_report(worker)
