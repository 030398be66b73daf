"""A worker whose environment is finished: `worker.json` in its folder, written last, says so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.files import write_atomic
from mosaic.paths import CHECKOUT

FORMAT = 1  # of worker.json; an environment with another one is made anew


@dataclass(frozen=True)
class InstalledWorker:
    """One worker and the environment that it runs in."""

    name: str
    module: str  # the package: `python -m <module>.cli` runs the worker
    distribution: str
    version: str
    folder: Path
    source: str  # a folder's path, or a requirement
    editable: bool  # the source is a folder and used in place
    extras: tuple[str, ...]
    installed: float
    fingerprint: str

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def description_file(self) -> Path:
        return self.folder / "describe.json"

    def write(self) -> None:
        content: dict[str, Any] = {
            "format": FORMAT,
            "name": self.name,
            "module": self.module,
            "distribution": self.distribution,
            "version": self.version,
            "source": self.source,
            "editable": self.editable,
            "extras": list(self.extras),
            "installed": self.installed,
            "fingerprint": self.fingerprint,
            "checkout": str(CHECKOUT),
        }
        write_atomic(self.folder / "worker.json", json.dumps(content, indent=2).encode() + b"\n")

    @classmethod
    def read(cls, folder: Path) -> InstalledWorker | None:
        """None unless the environment is finished, its Python is there, and it was made for this checkout."""
        mark = folder / "worker.json"
        if not mark.is_file():
            return None
        try:
            content: dict[str, Any] = json.loads(mark.read_text(encoding="utf-8"))
        except ValueError:
            return None  # damaged: `mosaic doctor` finds it, and it is installed anew when it is needed
        if content.pop("format", None) != FORMAT or content.pop("checkout", None) != str(CHECKOUT):
            return None
        worker = cls(folder=folder, **(content | {"extras": tuple(content["extras"])}))
        return worker if os.access(worker.python, os.X_OK) else None

    @classmethod
    def all_in(cls, envs: Path) -> Iterator[InstalledWorker]:
        for mark in sorted(envs.glob("[!.]*/worker.json")):
            worker = cls.read(mark.parent)
            if worker is not None:
                yield worker
