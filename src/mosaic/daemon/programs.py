"""Which program a worker's name stands for: one in its own environment, or the built-in script worker."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.daemon.scripts import DESCRIPTION as SCRIPT_DESCRIPTION
from mosaic.daemon.scripts import SCRIPT_WORKER
from mosaic.envs import AvailableWorker, InstalledWorker, WorkerEnvs, WorkerMissing

SCRIPT_MODULE = "mosaic.daemon.script"


@dataclass(frozen=True)
class Program:
    argv: list[str]
    pauses: bool


class Programs:
    def __init__(self, envs: WorkerEnvs) -> None:
        self.envs = envs

    def is_known(self, worker: str) -> bool:
        return worker == SCRIPT_WORKER or self.envs.is_known(worker)

    def is_installed(self, worker: str) -> bool:
        if worker == SCRIPT_WORKER:
            return True
        try:
            self.envs.get(worker)
        except WorkerMissing:
            return False
        return True

    def can_be_installed(self, worker: str) -> bool:
        """Is it one of ours that is not there yet? Any other name would be a stranger's on the package index."""
        return not self.is_installed(worker) and self.is_known(worker)

    def names(self) -> list[str]:
        names = {found.name for found in self.available()} | {found.name for found in self.installed()}
        return [SCRIPT_WORKER, *sorted(names)]

    def available(self) -> list[AvailableWorker]:
        return self.envs.available()

    def installed(self) -> list[InstalledWorker]:
        return self.envs.installed()

    def module(self, worker: str) -> str:
        """The package of an installed worker; empty while it is not installed."""
        if worker == SCRIPT_WORKER:
            return SCRIPT_MODULE
        return self.envs.get(worker).module if self.is_installed(worker) else ""

    def describe(self, worker: str) -> dict[str, Any]:
        """Raises an EnvsError if the worker is not installed or does not answer. Can take a worker's start."""
        return SCRIPT_DESCRIPTION if worker == SCRIPT_WORKER else self.envs.describe(worker)

    def program(self, worker: str, config_file: Path) -> Program:
        """How to start the worker with a config. Raises an EnvsError like `describe`."""
        if worker == SCRIPT_WORKER:
            return Program([sys.executable, "-m", SCRIPT_MODULE, "--config", str(config_file)], pauses=False)
        installed = self.envs.get(worker)
        capabilities = self.envs.describe(worker)["capabilities"]
        argv = [str(installed.python), "-P", "-m", f"{installed.module}.cli", "--config", str(config_file)]
        return Program(argv, pauses=bool(capabilities.get("supports_pause_resume")))
