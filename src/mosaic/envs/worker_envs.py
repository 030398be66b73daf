"""The environments of the workers: one folder each under `var/envs/`, made by uv, whole or not there."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mosaic.envs.build import build
from mosaic.envs.describe import describe
from mosaic.envs.discover import check_names, offered_by
from mosaic.envs.errors import InstallFailed, WorkerMissing
from mosaic.envs.installed import InstalledWorker
from mosaic.envs.locks import Report, held
from mosaic.envs.projects import NAME
from mosaic.envs.sources import Source, ours_in, split_extras
from mosaic.envs.tools import Tools
from mosaic.paths import CHECKOUT, Home


@dataclass(frozen=True)
class AvailableWorker:
    """A worker that comes with MOSAIC, installed or not."""

    name: str
    distribution: str
    version: str
    description: str
    extras: tuple[str, ...]
    folder: Path
    installed: InstalledWorker | None


class WorkerEnvs:
    """Installs, finds, describes and removes workers; `workers` is the folder with those that come with MOSAIC."""

    def __init__(self, home: Home, workers: Path = CHECKOUT / "workers") -> None:
        self.folder = home.envs
        self.workers = workers

    def install(self, source: str, *, extras: Sequence[str] = (), report: Report) -> InstalledWorker:
        """Make the environment of one of ours (by NAME), of a folder or of a requirement; nothing to do if it is there.

        `NAME[extra,...]` names extras too, as pip knows it.
        Extras add to those that an earlier install asked for. What was installed before stays usable until the new
        environment is finished, and stays if that fails.
        """
        given, named = split_extras(source, self.workers)
        wanted, extras = Source.parse(given, self.workers), (*extras, *named)
        if wanted.project is not None:
            wanted.project.check_extras(extras)
            check_names(wanted.distribution, [name for name, _ in wanted.project.workers])
            self._check_not_taken(wanted, wanted.project.workers[0][0])
        with self._held(wanted.key, report) as lock:
            before = self._installed_from(wanted)
            extras = tuple(sorted({*extras, *(before.extras if before else ())}))
            if before is not None and before.fingerprint == wanted.fingerprint(extras):
                report(f"{before.name} is installed")
                return before
            log = self.folder / f"{wanted.key}.log"
            log.unlink(missing_ok=True)
            tools = Tools.of_this_process(hold=(lock,), log=log)
            new = self.folder / f".{wanted.key}.new"
            clear(new)
            new.mkdir()
            try:
                worker = self._made(new, wanted, extras, tools, report)
            except InstallFailed as failure:
                clear(new)
                raise InstallFailed(f"installing {source} failed: {failure} (all output: {log})") from failure
            if worker.name == wanted.key:
                return self._put_in_place(worker, report)
            with self._held(worker.name, report):
                return self._put_in_place(worker, report)

    def available(self) -> list[AvailableWorker]:
        """The workers that come with MOSAIC."""
        return [
            AvailableWorker(
                name,
                project.distribution,
                project.version,
                project.description,
                project.extras,
                project.folder,
                InstalledWorker.read(self.folder / name),
            )
            for name, project in sorted(ours_in(self.workers).items())
        ]

    def installed(self) -> list[InstalledWorker]:
        return list(InstalledWorker.all_in(self.folder))

    def is_known(self, name: str) -> bool:
        """Is it installed, or one of ours that can be?"""
        return name in ours_in(self.workers) or self._find(name) is not None

    def get(self, name: str) -> InstalledWorker:
        worker = self._find(name)
        if worker is not None:
            return worker
        if name in ours_in(self.workers):
            raise WorkerMissing(f"worker {name!r} is not installed; install it: mosaic worker install {name}")
        known = ", ".join(sorted({*ours_in(self.workers), *(worker.name for worker in self.installed())}))
        raise WorkerMissing(f"there is no worker {name!r}; known: {known or 'none'}")

    def is_outdated(self, worker: InstalledWorker) -> bool:
        """Have the pins or the metadata of its source changed since it was installed?"""
        if worker.editable and not Path(worker.source, "pyproject.toml").is_file():
            return True
        return Source.parse(worker.source, self.workers).fingerprint(worker.extras) != worker.fingerprint

    def describe(self, name: str) -> dict[str, Any]:
        """What the worker says of itself: capabilities, algorithms, schemas."""
        return describe(self.get(name))

    def remove(self, name: str, report: Report = lambda line: None) -> None:
        if not (self._could_be_installed(name) and (self.folder / name).is_dir()):
            raise WorkerMissing(f"worker {name!r} is not installed")
        with self._held(name, report):
            clear(self.folder / name)

    def _find(self, name: str) -> InstalledWorker | None:
        return InstalledWorker.read(self.folder / name) if self._could_be_installed(name) else None

    def _could_be_installed(self, name: str) -> bool:
        """A name that could lead out of `var/envs` is nobody's."""
        return NAME.fullmatch(name) is not None

    def _installed_from(self, source: Source) -> InstalledWorker | None:
        same: Iterable[InstalledWorker] = (worker for worker in self.installed() if worker.source == source.text)
        return next(iter(same), None)

    def _held(self, key: str, report: Report) -> Any:
        return held(self.folder / f"{key}.lock", report, f"another install of {key} is under way: waiting for it")

    def _check_not_taken(self, source: Source, name: str) -> None:
        if name in ours_in(self.workers) and not source.ours:
            raise InstallFailed(f"{source.text} names its worker {name!r}, which is one of MOSAIC's own")

    def _made(
        self, folder: Path, source: Source, extras: Sequence[str], tools: Tools, report: Report
    ) -> InstalledWorker:
        """A finished environment in `folder`, not yet under its NAME."""
        fingerprint = source.fingerprint(extras)
        build(folder / "venv", source, extras, tools, report)
        offer = offered_by(folder / "venv", source.distribution)
        self._check_not_taken(source, offer.name)
        worker = InstalledWorker(
            name=offer.name,
            module=offer.module,
            distribution=offer.distribution,
            version=offer.version,
            folder=folder,
            source=source.text,
            editable=source.project is not None,
            extras=tuple(extras),
            installed=time.time(),
            fingerprint=fingerprint,
        )
        worker.write()
        return worker

    def _put_in_place(self, worker: InstalledWorker, report: Report) -> InstalledWorker:
        """Rename to its NAME: the environment was made relocatable."""
        place = self.folder / worker.name
        clear(place)
        worker.folder.rename(place)
        report(f"installed {worker.name}: {worker.distribution} {worker.version}")
        return replace(worker, folder=place)


def clear(folder: Path) -> None:
    """Remove a folder, and what an interrupted removal of it left; half of it is never to be seen under its name."""
    going = folder.with_name(f".{folder.name.lstrip('.')}.old")
    if os.path.lexists(going):
        shutil.rmtree(going)
    if os.path.lexists(folder):
        folder.rename(going)
        shutil.rmtree(going)
