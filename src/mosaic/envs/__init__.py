"""Environments: the platform's own and the workers'.

Standard library only: the launcher runs a part of it on a bare Python.
"""

from mosaic.envs.errors import DescribeFailed, EnvsError, InstallFailed, WorkerMissing
from mosaic.envs.installed import InstalledWorker
from mosaic.envs.worker_envs import AvailableWorker, WorkerEnvs

__all__ = [
    "AvailableWorker",
    "DescribeFailed",
    "EnvsError",
    "InstallFailed",
    "InstalledWorker",
    "WorkerEnvs",
    "WorkerMissing",
]
