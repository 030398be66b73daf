"""A run that was stopped and goes on ends with the very weights of one that never stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from conftest import Told, Train, make_config
from mosaic.worker import CheckpointError

SMALL: dict[str, dict[str, Any]] = {
    "mappo": {
        "parallels": 1,
        "total_timesteps": 700,
        "hyperparameters": {"buffer_size": 150, "use_linear_lr_decay": True},
    },
    "ippo": {"parallels": 2, "total_timesteps": 700, "hyperparameters": {"buffer_size": 160, "n_epochs": 2}},
    "qmix": {
        "parallels": 2,
        "total_timesteps": 700,
        "batch_size": 16,
        "hyperparameters": {"buffer_size": 500, "start_training": 100, "training_frequency": 10, "sync_frequency": 5},
    },
    "maddpg": {
        "parallels": 2,
        "total_timesteps": 500,
        "batch_size": 16,
        "hyperparameters": {"buffer_size": 1000, "start_training": 100, "training_frequency": 10},
    },
    "masac": {
        "parallels": 2,
        "total_timesteps": 500,
        "batch_size": 16,
        "hyperparameters": {"buffer_size": 1000, "start_training": 100, "training_frequency": 10},
    },
    "coma": {
        "parallels": 2,
        "total_timesteps": 500,
        "hyperparameters": {"buffer_size": 80, "n_epochs": 2, "sync_frequency": 3},
    },
    "ppo": {
        "env_family": "gymnasium",
        "env_id": "CartPole-v1",
        "parallels": 2,
        "total_timesteps": 700,
        "hyperparameters": {"horizon_size": 64, "n_minibatch": 2, "n_epochs": 2},
    },
    "dqn": {
        "env_family": "gymnasium",
        "env_id": "CartPole-v1",
        "parallels": 2,
        "total_timesteps": 500,
        "batch_size": 16,
        "hyperparameters": {"buffer_size": 600, "start_training": 100},
    },
    "sac": {
        "env_family": "gymnasium",
        "env_id": "Pendulum-v1",
        "parallels": 2,
        "total_timesteps": 500,
        "batch_size": 16,
        "hyperparameters": {"buffer_size": 600, "start_training": 100, "training_frequency": 4},
    },
}


def weights(told: Told) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load_file(told.last_checkpoint / "policy.safetensors").items()}


QUICK = ("mappo", "qmix")


@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in SMALL]
)
def test_resumed_equals_uninterrupted(train: Train, algorithm: str) -> None:
    config = make_config(algorithm=algorithm, seed=5, report_every=50, **SMALL[algorithm])
    whole = train(config)
    first = train(config, stop_at=config.total_timesteps // 2)
    assert 0 < first.checkpoints[-1][0] < config.total_timesteps
    second = train(config, resume=first.last_checkpoint)
    assert weights(first) != weights(whole)
    assert weights(second) == weights(whole)
    assert first.episodes + second.episodes == whole.episodes


def test_nothing_is_pickled(train: Train) -> None:
    told = train(make_config(algorithm="qmix", **SMALL["qmix"]))
    names = sorted(path.name for path in told.last_checkpoint.iterdir())
    assert names == [
        "buffer.safetensors",
        "card.json",
        "config.json",
        "policy.safetensors",
        "training.json",
        "training.safetensors",
    ]


def test_without_its_buffer_a_run_goes_on_all_the_same(train: Train) -> None:
    config = make_config(algorithm="qmix", save_buffer=False, report_every=50, **SMALL["qmix"])
    first = train(config, stop_at=350)
    assert not (first.last_checkpoint / "buffer.safetensors").exists()
    second = train(config, resume=first.last_checkpoint)
    assert second.checkpoints[-1][0] == 700
    assert second.episodes[0]["episode"] == len(first.episodes)


def test_checkpoint_of_another_algorithm_is_refused(train: Train) -> None:
    told = train(make_config(algorithm="mappo", **SMALL["mappo"]))
    with pytest.raises(CheckpointError, match="its algorithm is 'mappo', this run's is 'ippo'"):
        train(make_config(algorithm="ippo", **SMALL["ippo"]), resume=told.last_checkpoint)


def test_weights_of_another_network_are_refused(train: Train) -> None:
    told = train(make_config(algorithm="mappo", **SMALL["mappo"]))
    other = {"buffer_size": 150, "actor_hidden_size": [32]}
    with pytest.raises(CheckpointError, match="its weights are not of this network"):
        train(make_config(algorithm="mappo", parallels=1, hyperparameters=other), resume=told.last_checkpoint)


def test_config_lies_in_the_checkpoint(train: Train) -> None:
    told = train(make_config(algorithm="mappo", seed=9, **SMALL["mappo"]))
    saved: dict[str, Any] = json.loads(Path(told.last_checkpoint / "config.json").read_text())
    assert (saved["algorithm"], saved["seed"], saved["hyperparameters"]["buffer_size"]) == ("mappo", 9, 150)
