"""What the benches of workers share: a daemon that trains, the worker's own environment, results that add up."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, ClassVar, Self

from daemon_home import BenchDaemon

from mosaic.client import Client, Run
from mosaic.envs import WorkerEnvs
from mosaic.files import write_atomic
from mosaic.paths import CHECKOUT, Home

OUT = CHECKOUT / "bench" / "out"


def in_worker(worker: str, script: str, *arguments: str) -> list[str]:
    """The command that runs one of a worker's own bench scripts in its environment."""
    python = WorkerEnvs(Home.from_environment()).get(worker).python
    path = CHECKOUT / "workers" / f"{worker}_worker" / "bench" / script
    return [str(python), "-W", "ignore", str(path), *arguments]


def ask_worker(worker: str, script: str, *arguments: str) -> Any:
    """What such a script prints last, as JSON."""
    done = subprocess.run(
        in_worker(worker, script, *arguments), env=environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


class WorkerTrainer:
    """A daemon in a home of its own, with the environments of the real one."""

    worker: ClassVar[str]

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        envs, real = root / "envs", Home.from_environment().envs
        if not envs.exists():
            real.mkdir(parents=True, exist_ok=True)
            envs.symlink_to(real)
        self._daemon = BenchDaemon(root)
        self.client = Client(root)

    def __enter__(self) -> Self:
        self._daemon.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._daemon.__exit__(*details)

    def train(self, config: dict[str, Any], name: str) -> Run:
        return self.client.submit(self.worker, config, name=name).wait(check=True)


def newest_checkpoint(run: Run) -> Path:
    return max((run.folder / "checkpoints").glob("step_*"))


class Results:
    """`bench/out/NAME.json`: what earlier calls found is kept, and overwritten by what is measured anew."""

    def __init__(self, name: str) -> None:
        self._path = OUT / f"{name}.json"
        self.rows: dict[str, Any] = json.loads(self._path.read_bytes()) if self._path.exists() else {}

    def add(self, key: str, row: Any) -> None:
        self.rows[key] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._path, json.dumps(self.rows, indent=1).encode() + b"\n")
