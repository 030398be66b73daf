"""The worker environments as commands use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mosaic.client.errors import MosaicError, NoSuchWorker
from mosaic.envs import EnvsError, InstalledWorker, WorkerEnvs, WorkerMissing
from mosaic.paths import Home
from mosaic.system import HAS_RUNS, NEEDS_LINUX


@contextmanager
def envs_errors() -> Iterator[None]:
    """Errors of environments as errors of commands."""
    try:
        yield
    except WorkerMissing as error:
        raise NoSuchWorker(str(error)) from None
    except EnvsError as error:
        raise MosaicError(str(error)) from None


def known_names(home: Home) -> list[str]:
    """Ours and what is installed."""
    envs = WorkerEnvs(home)
    return sorted({worker.name for worker in envs.available()} | {worker.name for worker in envs.installed()})


def installed_or_install(home: Home, name: str, report: Callable[[str], None]) -> InstalledWorker:
    """The worker's environment; one of ours that has none yet gets it now."""
    envs = WorkerEnvs(home)
    with envs_errors():
        if envs.is_known(name) and name not in {worker.name for worker in envs.installed()}:
            report(f"worker {name} is not installed yet: installing it")
            return envs.install(name, report=report)
        return envs.get(name)


def installed_for_run(home: Home, name: str, report: Callable[[str], None]) -> InstalledWorker:
    """The same, where runs are possible at all: nobody waits for an installation to be told that they are not."""
    if not HAS_RUNS:
        raise MosaicError(NEEDS_LINUX)
    return installed_or_install(home, name, report)


def describe(home: Home, name: str) -> dict[str, Any]:
    with envs_errors():
        return WorkerEnvs(home).describe(name)
