"""Ask a worker what it is, in its own environment; the answer is kept beside it until its source changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mosaic.envs.errors import DescribeFailed
from mosaic.envs.installed import InstalledWorker
from mosaic.files import write_atomic
from mosaic.paths import CHECKOUT

CONTRACT_VERSION = 1  # `mosaic.worker.description` says the same, which a bare Python cannot import
# What everybody who reads a description relies on.
_PARTS = {"title": str, "version": str, "capabilities": dict, "fields": dict, "config_schema": dict, "algorithms": dict}
TIMEOUT_S = 120.0  # a worker that imports a large library from a cold disk needs a while


def describe(worker: InstalledWorker, *, timeout: float = TIMEOUT_S) -> dict[str, Any]:
    stamp = source_stamp(worker)
    kept = _kept(worker.description_file)
    if kept.get("stamp") == stamp:
        description: dict[str, Any] = kept["description"]
        return description
    description = _ask(worker, timeout)
    write_atomic(worker.description_file, json.dumps({"stamp": stamp, "description": description}).encode())
    return description


def source_stamp(worker: InstalledWorker) -> str:
    """Changes when the worker is installed anew, and when a file that the answer may depend on changes."""
    places = [CHECKOUT / "src" / "mosaic" / "worker"]
    if worker.editable:
        places.append(Path(worker.source))
    newest = count = size = 0
    for place in places:
        for entry in _files(place):
            status = entry.stat()
            newest = max(newest, status.st_mtime_ns)
            count += 1
            size += status.st_size
    return f"{worker.installed} {newest} {count} {size}"


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name in ("__pycache__", "tests", "build", "dist", "node_modules"):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry


def _kept(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return {}  # damaged: it is asked again
    return content


def _ask(worker: InstalledWorker, timeout: float) -> dict[str, Any]:
    said, errors, code = _run(worker, timeout)
    last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "nothing")
    if code != 0:
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        raise DescribeFailed(f"worker {worker.name!r} could not describe itself ({how}); its last words: {last}")
    try:
        description = json.loads(said)
    except ValueError:
        description = None
    if not isinstance(description, dict):
        shown = said.strip()[:60] or "nothing"
        raise DescribeFailed(
            f"worker {worker.name!r} answered --describe by {shown!r} on stdout instead of one JSON object; "
            f"on stderr: {last}"
        )
    if description.get("name") != worker.name:
        raise DescribeFailed(
            f"worker {worker.name!r} calls itself {description.get('name')!r}; its entry point and it must agree"
        )
    if (contract := description.get("contract")) != CONTRACT_VERSION:
        raise DescribeFailed(
            f"worker {worker.name!r} speaks version {contract!r} of the contract, allowed: {CONTRACT_VERSION}; "
            "update the older of the two"
        )
    if wrong := [name for name, kind in _PARTS.items() if not isinstance(description.get(name), kind)]:
        raise DescribeFailed(
            f"worker {worker.name!r} describes itself without a usable {', '.join(wrong)}; "
            f"see `mosaic worker check {worker.name}`"
        )
    return description


def _run(worker: InstalledWorker, timeout: float) -> tuple[str, str, int]:
    argv: list[str | Path] = [worker.python, "-P", "-m", f"{worker.module}.cli", "--describe"]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=worker.folder,
        env={"OMP_NUM_THREADS": "1", **os.environ},
        start_new_session=True,
    )
    with process:
        try:
            said, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise DescribeFailed(f"worker {worker.name!r} did not describe itself within {timeout:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return said, errors, process.returncode
