"""A way to train without a process of its own, and to hear what is said meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mosaic.worker.config import build_config
from mosaic.worker.control import Command, Control
from mosaic.worker.run import Run, RunPlace
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.worker import XuanCeWorker

os.environ.setdefault("OMP_NUM_THREADS", "1")


@dataclass
class Told:
    """Takes the place of the emitter: keeps what is said."""

    metrics: dict[int, dict[str, float]] = field(default_factory=dict)
    episodes: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[tuple[int, Path]] = field(default_factory=list)
    stages: list[tuple[str, int | None]] = field(default_factory=list)
    folder: Path = Path()
    summary: dict[str, Any] = field(default_factory=dict)

    def metric(self, step: int, values: dict[str, float]) -> None:
        self.metrics[step] = values

    def episode(self, step: int, episode: int, episode_return: float, length: int, **more: Any) -> None:
        self.episodes.append(
            {"step": step, "episode": episode, "episode_return": episode_return, "length": length, **more}
        )

    def checkpoint(self, step: int, path: str) -> None:
        self.checkpoints.append((step, self.folder / path))

    def stage(self, name: str, *, step: int | None = None, **_: Any) -> None:
        self.stages.append((name, step))

    def set_state(self, state: str) -> None:
        pass

    @property
    def last_checkpoint(self) -> Path:
        return self.checkpoints[-1][1]

    def learner_names(self) -> set[str]:
        return {name for values in self.metrics.values() for name in values if name.startswith("learner/")}


class StopAfter(Control):
    """Asks to stop once so many steps were reported of."""

    def __init__(self, told: Any, step: int) -> None:
        super().__init__(supervised=False)
        self.pending = True
        self._told, self._step = told, step

    def take(self, on_pause: Any) -> Command | None:
        return Command.STOP if max(self._told.metrics, default=0) >= self._step else None


def make_config(**values: Any) -> XuanCeWorkerConfig:
    """A config, checked as the command line would."""
    config = build_config(XuanCeWorkerConfig, XuanCeWorker().describe(), {"run_id": "test", **values})
    XuanCeWorker().validate(config)
    return config


Train = Callable[..., Told]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """`train(config, resume=..., stop_at=...)`: a run in this process; what it said."""
    from xuance_worker.runtime import XuanCeWorkerRuntime

    count = 0

    def run(config: XuanCeWorkerConfig, *, resume: Path | None = None, stop_at: int | None = None) -> Told:
        nonlocal count
        count += 1
        told: Any = Told(folder=tmp_path / f"run{count}")
        told.folder.mkdir()
        place = RunPlace(config.run_id, told.folder, 2 if resume else 1, resume, supervised=False)
        control = Control(supervised=False) if stop_at is None else StopAfter(told, stop_at)
        runtime = XuanCeWorkerRuntime(config, Run(place, worker="xuance", telemetry=told, control=control))
        told.summary = dict(runtime.run())
        return told

    return run
