"""Which code this is: a version number does not change with every update of a checkout."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import mosaic


def fingerprint() -> str:
    """Changes whenever a module of MOSAIC does. A look at names, sizes and times: it takes a few milliseconds."""
    digest = hashlib.sha256()
    for line in sorted(_modules(Path(mosaic.__file__).parent, "")):
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def _modules(folder: Path, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{prefix}{entry.name} {status.st_size} {status.st_mtime_ns}\n"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _modules(Path(entry.path), f"{prefix}{entry.name}/")
