"""One Ray for all trainings of a test session, and a way to train in it without a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mosaic.worker.config import build_config
from mosaic.worker.control import Command, Control
from mosaic.worker.messages import Message
from mosaic.worker.run import Run, RunPlace
from ray_worker.cluster import own_cluster
from ray_worker.config import RayWorkerConfig, ResourceConfig
from ray_worker.runtime import RayWorkerRuntime
from ray_worker.worker import RayWorker

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ray reads it on import, and some test modules import Ray before there is a cluster.
os.environ["RAY_AUTH_MODE"] = "token"


@dataclass
class Told:
    """Takes the place of the emitter: keeps what is said."""

    metrics: dict[int, dict[str, float]] = field(default_factory=dict)
    episodes: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[tuple[int, Path]] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    children: dict[str, list[Message]] = field(default_factory=dict)
    folder: Path = Path()
    summary: dict[str, Any] = field(default_factory=dict)

    def metric(self, step: int, values: dict[str, float]) -> None:
        self.metrics[step] = values

    def episode(self, step: int, episode: int, episode_return: float, length: int, *, extra: dict[str, Any]) -> None:
        self.episodes.append(
            {"step": step, "episode": episode, "episode_return": episode_return, "length": length, **extra}
        )

    def checkpoint(self, step: int, path: str) -> None:
        self.checkpoints.append((step, self.folder / path))

    def emit(self, message: Message) -> None:
        """What the members of a population say."""
        self.children.setdefault(message.child, []).append(message)

    def log(self, message: str, **_: Any) -> None:
        self.logs.append(message)

    def set_state(self, state: str) -> None:
        pass

    @property
    def last_values(self) -> dict[str, float]:
        return list(self.metrics.values())[-1]


class StopAfter(Control):
    """Asks to stop at the n-th question."""

    def __init__(self, questions: int) -> None:
        super().__init__(supervised=False)
        self.pending = True
        self.left = questions

    def take(self, on_pause: Any) -> Command | None:
        self.left -= 1
        return Command.STOP if self.left < 0 else None


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        **base,
        **{
            name: merged(base.get(name, {}), value) if isinstance(value, dict) else value
            for name, value in changes.items()
        },
    }


SMALL = {
    "run_id": "test",
    "training": {
        "total_timesteps": 400,
        "hyperparameters": {
            "train_batch_size_per_learner": 200,
            "minibatch_size": 64,
            "num_epochs": 1,
            "model_config": {"fcnet_hiddens": [16]},
        },
    },
    "resources": {"num_workers": 0},
}


def make_config(**changes: Any) -> RayWorkerConfig:
    """A small config with changes, checked as the command line would."""
    hyperparameters = changes.get("training", {}).get("hyperparameters")
    content = merged(SMALL, changes)
    if changes.get("training", {}).get("algorithm", "PPO") != "PPO":
        content["training"]["hyperparameters"] = hyperparameters or {}
    config = build_config(RayWorkerConfig, RayWorker().describe(), content)
    RayWorker().validate(config)
    return config


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # now, or it would lie where Ray's temporary files do
    with own_cluster(ResourceConfig(num_workers=2), 1):
        yield


Train = Callable[..., Told]


@pytest.fixture
def train(cluster: None, tmp_path: Path) -> Train:
    """`train(config, resume=..., stop_after=...)`: a training in the session's Ray; what it said."""

    def run(config: RayWorkerConfig, *, resume: Path | None = None, stop_after: int | None = None) -> Told:
        told: Any = Told(folder=tmp_path)
        place = RunPlace(config.run_id, tmp_path, 2 if resume else 1, resume, supervised=False)
        control = Control(supervised=False) if stop_after is None else StopAfter(stop_after)
        summary = RayWorkerRuntime(config, Run(place, worker="ray", telemetry=told, control=control)).train()
        told.summary = msgspec.to_builtins(summary)
        return told

    return run
