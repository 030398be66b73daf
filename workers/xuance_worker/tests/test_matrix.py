"""A telling half-dozen of `./mosaic bench xuance-matrix`: trained to a checkpoint, resumed from there, evaluated."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from conftest import Train, make_config

REPLAY = {"buffer_size": 200, "start_training": 16, "training_frequency": 4}
ROLLOUTS = {"buffer_size": 32, "n_epochs": 1}
CELLS: dict[str, dict[str, Any]] = {
    "a team": {"algorithm": "mappo", "hyperparameters": ROLLOUTS},
    "a board game": {
        "algorithm": "qmix",
        "env_family": "classic",
        "env_id": "connect_four_v3",
        "batch_size": 4,
        "hyperparameters": REPLAY,
    },
    "unlike agents": {
        "algorithm": "maddpg",
        "env_id": "simple_adversary_v3",
        "batch_size": 4,
        "hyperparameters": REPLAY,
    },
    "walkers": {
        "algorithm": "ippo",
        "env_family": "sisl",
        "env_id": "multiwalker_v9",
        "hyperparameters": {**ROLLOUTS, "use_rnn": True, "buffer_size": 2},
    },
    "images": {
        "algorithm": "vdn",
        "env_family": "butterfly",
        "env_id": "pistonball_v6",
        "env_kwargs": {"n_pistons": 3, "continuous": False},
        "image_size": 36,
        "batch_size": 4,
        "hyperparameters": REPLAY,
    },
    "a grid world": {
        "algorithm": "ppo",
        "env_family": "minigrid",
        "env_id": "MiniGrid-Empty-5x5-v0",
        "hyperparameters": {"horizon_size": 16, "n_epochs": 1, "n_minibatch": 1},
    },
    "one agent": {
        "algorithm": "c51",
        "env_family": "gymnasium",
        "env_id": "CartPole-v1",
        "batch_size": 4,
        "hyperparameters": REPLAY,
    },
}


@pytest.mark.parametrize("cell", CELLS)
def test_trained_resumed_and_evaluated(train: Train, cell: str) -> None:
    config = make_config(parallels=2, max_steps=15, total_timesteps=80, report_every=16, **CELLS[cell])
    first = train(config)
    assert first.learner_names()
    assert first.episodes
    second = train(dataclasses.replace(config, total_timesteps=160), resume=first.last_checkpoint)
    assert second.episodes[0]["episode"] == len(first.episodes)
    played = train(dataclasses.replace(config, mode="evaluate", checkpoint=str(second.last_checkpoint), episodes=2))
    assert np.isfinite(played.summary["returns"]).all()
    assert len(played.episodes) == 2
