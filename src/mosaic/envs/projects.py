"""What a worker's own pyproject.toml and lock files say, read without running anything."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.envs.errors import InstallFailed
from mosaic.paths import CHECKOUT

ENTRY_POINT_GROUP = "mosaic.workers"
LOCK = "requirements.lock"
# A worker's NAME is a folder's name and a word on the command line.
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class WorkerProject:
    """A folder with the source of a worker."""

    folder: Path
    distribution: str
    version: str = ""
    description: str = ""
    workers: tuple[tuple[str, str], ...] = ()  # (NAME, entry point) as pyproject.toml declares them
    extras: tuple[str, ...] = ()
    python: str = ""  # which Python it asks for: a version or a specifier, as uv understands it
    no_deps: tuple[str, ...] = ()  # requirements of a last step: without dependencies, requires-python ignored

    @classmethod
    def read(cls, folder: Path) -> WorkerProject:
        file = folder / "pyproject.toml"
        if not file.is_file():
            raise InstallFailed(f"no worker in {folder}: it has no pyproject.toml")
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InstallFailed(f"{file} is not TOML: {error}") from error
        project: dict[str, Any] = content.get("project", {})
        ours: dict[str, Any] = content.get("tool", {}).get("mosaic", {})
        unknown = set(ours) - {"python", "no-deps"}
        if unknown:
            raise InstallFailed(f"{file}: [tool.mosaic] has {', '.join(sorted(unknown))}; allowed: no-deps, python")
        if "name" not in project:
            raise InstallFailed(f"{file} does not name its package: [project] name is missing")
        return cls(
            folder=folder,
            distribution=str(project["name"]),
            version=str(project.get("version", "")),
            description=str(project.get("description", "")),
            workers=tuple(sorted(project.get("entry-points", {}).get(ENTRY_POINT_GROUP, {}).items())),
            extras=tuple(sorted(project.get("optional-dependencies", {}))),
            python=str(ours.get("python", project.get("requires-python", ""))),
            no_deps=tuple(ours.get("no-deps", ())),
        )

    @property
    def name(self) -> str | None:
        """The worker's NAME, if pyproject.toml says it."""
        return self.workers[0][0] if len(self.workers) == 1 else None

    @property
    def has_lock(self) -> bool:
        return (self.folder / LOCK).is_file()

    def locks(self, extras: Sequence[str]) -> list[Path]:
        """The lock files to install for these extras; empty if the worker has none."""
        if not self.has_lock:
            return []
        of_extras = [self.extra_lock(extra) for extra in extras]
        missing = [lock.name for lock in of_extras if not lock.is_file()]
        if missing:
            raise InstallFailed(f"{self.folder} has a {LOCK} but no {', '.join(missing)}")
        return [self.folder / LOCK, *of_extras]

    def extra_lock(self, extra: str) -> Path:
        return self.folder / f"requirements-{extra}.lock"

    def check_extras(self, extras: Sequence[str]) -> None:
        unknown = sorted(set(extras) - set(self.extras))
        if unknown:
            allowed = ", ".join(self.extras) or "none"
            raise InstallFailed(f"{self.distribution} has no extra {', '.join(map(repr, unknown))}; it has: {allowed}")

    def fingerprint(self, extras: Sequence[str]) -> str:
        """Changes when an environment made from this project would be made otherwise."""
        digest = hashlib.sha256(f"{self.folder}\n{CHECKOUT}\n{','.join(extras)}\n".encode())
        for file in (self.folder / "pyproject.toml", *self.locks(extras)):
            digest.update(file.read_bytes())
        return digest.hexdigest()
