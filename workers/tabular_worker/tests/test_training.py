"""The reference worker learns, and a stopped and resumed run takes the very same steps as an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic.fastlane import DIRECTORY_VARIABLE, discover
from mosaic.worker.control import Command, Control
from mosaic.worker.run import Run, RunPlace
from tabular_worker.config import TabularWorkerConfig
from tabular_worker.runtime import TabularWorker


class Listener:
    """Takes the place of the emitter: keeps what is said."""

    def __init__(self) -> None:
        self.episodes: list[tuple[int, int, float]] = []
        self.metrics: dict[int, dict[str, float]] = {}

    def metric(self, step: int, values: dict[str, float]) -> None:
        self.metrics[step] = values

    def episode(self, step: int, episode: int, episode_return: float, length: int) -> None:
        self.episodes.append((step, episode, episode_return))

    def checkpoint(self, step: int, path: str) -> None:
        pass

    def set_state(self, state: str) -> None:
        pass


class StopAt(Control):
    """Asks to stop after so many polls."""

    def __init__(self, polls: int) -> None:
        super().__init__(supervised=False)
        self.pending = True
        self.left = polls

    def take(self, on_pause: Any) -> Command | None:
        self.left -= 1
        return Command.STOP if self.left < 0 else None


def train(
    folder: Path, config: TabularWorkerConfig, *, resume: Path | None = None, stop: int | None = None
) -> Listener:
    listener: Any = Listener()
    place = RunPlace(config.run_id, folder, 2 if resume else 1, resume, supervised=False)
    folder.mkdir(exist_ok=True)
    control = Control(supervised=False) if stop is None else StopAt(stop)
    TabularWorker().run(config, Run(place, worker="tabular", telemetry=listener, control=control))
    return listener


def table(folder: Path, name: str) -> Any:
    return np.load(folder / "checkpoints" / name / "table.npy")


@pytest.mark.parametrize("algorithm", ["q_learning", "sarsa", "expected_sarsa"])
@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CliffWalking-v1"])
def test_resumed_equals_uninterrupted(tmp_path: Path, algorithm: Any, env_id: str) -> None:
    config = TabularWorkerConfig("r", algorithm, env_id, total_timesteps=6_000, checkpoint_every=0, seed=3)
    whole = train(tmp_path / "whole", config)
    first = train(tmp_path / "parts", config, stop=2_345)
    checkpoint = tmp_path / "parts" / "checkpoints" / "step_000000002345"
    second = train(tmp_path / "parts", config, resume=checkpoint)
    expected = table(tmp_path / "whole", "step_000000006000")
    assert np.array_equal(table(tmp_path / "parts", "step_000000006000-attempt2"), expected)
    assert first.episodes + second.episodes == whole.episodes
    assert {**first.metrics, **second.metrics} == whole.metrics


def test_it_learns_frozen_lake(tmp_path: Path) -> None:
    config = TabularWorkerConfig("r", total_timesteps=60_000, env_kwargs={"is_slippery": False}, seed=1)
    told = train(tmp_path / "run", config)
    returns = [episode_return for _, _, episode_return in told.episodes]
    # The slippery-free lake is solved but for the exploration that is left; chance reaches it in one of fifty tries.
    assert np.mean(returns[:100]) < 0.1
    assert np.mean(returns[-100:]) > 0.7


def test_an_open_lane_changes_nothing_and_shows_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TabularWorkerConfig("r", total_timesteps=3_000, seed=5)
    plain = train(tmp_path / "plain", config)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "lane"))
    watched = train(tmp_path / "watched", config)
    assert watched.episodes == plain.episodes
    assert [stream.name for stream in discover(tmp_path / "lane")] == ["env-0"]
