"""What the benches of the Ray worker share: see `worker_bench`."""

from __future__ import annotations

from typing import Any

import worker_bench
from worker_bench import Results, WorkerTrainer, environment, newest_checkpoint

__all__ = ["Results", "Trainer", "ask_worker", "environment", "in_worker", "newest_checkpoint"]


def in_worker(script: str, *arguments: str) -> list[str]:
    return worker_bench.in_worker("ray", script, *arguments)


def ask_worker(script: str, *arguments: str) -> Any:
    return worker_bench.ask_worker("ray", script, *arguments)


class Trainer(WorkerTrainer):
    worker = "ray"
