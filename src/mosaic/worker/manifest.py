"""`analytics.json`: what a run left in its folder, for whoever looks at it later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mosaic.files import write_atomic


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing in the run folder: `kind` is checkpoint, tensorboard, wandb, video, table, ..."""

    kind: str
    path: str
    extra: dict[str, Any] = {}


class Manifest:
    """Lists artifacts; the file is written anew, whole, whenever the list changes."""

    def __init__(self, folder: Path, *, run_id: str, worker: str) -> None:
        self._folder = folder
        self._head = {"format": 1, "run_id": run_id, "worker": worker}
        self._artifacts: dict[tuple[str, str], Artifact] = {}
        self._summary: dict[str, Any] = {}
        self.reload()

    def reload(self) -> None:
        """Take over what an earlier attempt or a child process has listed."""
        existing = self._folder / "analytics.json"
        if existing.exists():
            earlier = msgspec.json.decode(existing.read_bytes())
            for item in msgspec.convert(earlier.get("artifacts", []), list[Artifact]):
                self._artifacts[item.kind, item.path] = item

    def add(self, kind: str, path: Path, **extra: Any) -> None:
        relative = str(path.relative_to(self._folder)) if path.is_absolute() else str(path)
        self._artifacts[kind, relative] = Artifact(kind, relative, extra)
        self.write()

    def finish(self, summary: Mapping[str, Any]) -> None:
        self._summary = dict(summary)
        self.write()

    def write(self) -> None:
        present = [item for item in self._artifacts.values() if (self._folder / item.path).exists()]
        document = {**self._head, "artifacts": present, "summary": self._summary}
        write_atomic(self._folder / "analytics.json", msgspec.json.format(msgspec.json.encode(document)))
