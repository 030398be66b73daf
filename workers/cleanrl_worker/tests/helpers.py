"""Runs of the worker for the tests: as the shepherd starts it, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec


def start(folder: Path, config: dict[str, Any], *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the worker's command line to its end."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_bytes(msgspec.json.encode({"run_id": "test", **config}))
    mine = {name: value for name, value in os.environ.items() if not name.startswith("MOSAIC_")}
    return subprocess.run(
        [sys.executable, "-m", "cleanrl_worker.cli", "--config", str(path), *arguments],
        cwd=folder,
        env={**mine, "OMP_NUM_THREADS": "1", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def messages(done: subprocess.CompletedProcess[str], kind: str) -> list[dict[str, Any]]:
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    return [line for line in lines if line["type"] == kind]


def run(folder: Path, config: dict[str, Any], **variables: str) -> subprocess.CompletedProcess[str]:
    """A run that must succeed."""
    done = start(folder, config, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def only_checkpoint(folder: Path) -> Path:
    (found,) = sorted((folder / "runs" / "test" / "checkpoints").iterdir())
    return found
