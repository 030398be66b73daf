"""A run that was stopped and goes on ends with the very weights of one that never stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from conftest import Told, Train, make_config
from mosaic.worker import CheckpointError

REPLAY = {"buffer_size": 600, "start_training": 100, "training_frequency": 10}
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
    "perdqn": {
        "env_family": "gymnasium",
        "env_id": "CartPole-v1",
        "parallels": 2,
        "total_timesteps": 500,
        "batch_size": 16,
        "hyperparameters": {"buffer_size": 600, "start_training": 100},
    },
    "drqn": {
        "env_family": "gymnasium",
        "env_id": "CartPole-v1",
        "parallels": 2,
        "total_timesteps": 500,
        "batch_size": 4,
        "hyperparameters": {"buffer_size": 600, "start_training": 100},
    },
    "ppo_kl": {
        "env_family": "gymnasium",
        "env_id": "CartPole-v1",
        "parallels": 2,
        "total_timesteps": 500,
        "hyperparameters": {"horizon_size": 64},
    },
    "ppg": {
        "env_family": "gymnasium",
        "env_id": "Pendulum-v1",
        "parallels": 2,
        "total_timesteps": 500,
        "hyperparameters": {"horizon_size": 64},
    },
    "mfq": {"parallels": 2, "total_timesteps": 500, "batch_size": 16, "hyperparameters": REPLAY},
    "dcg": {"parallels": 2, "total_timesteps": 500, "batch_size": 16, "hyperparameters": REPLAY},
    "commnet": {"parallels": 2, "total_timesteps": 500, "hyperparameters": {"buffer_size": 4}},
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


RECURRENT: dict[str, dict[str, Any]] = {
    "mappo": {"use_rnn": True, "rnn": "LSTM", "buffer_size": 4, "n_epochs": 2},
    "qmix": {"use_rnn": True, "buffer_size": 40, "batch_size": 8, "start_training": 100},
}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", RECURRENT)
def test_networks_with_a_memory_go_on_exactly_too(train: Train, algorithm: str) -> None:
    given = {"parallels": 2, "total_timesteps": 500, "report_every": 50, "hyperparameters": RECURRENT[algorithm]}
    config = make_config(algorithm=algorithm, seed=5, **given)
    whole, first = train(config), train(config, stop_at=250)
    assert weights(train(config, resume=first.last_checkpoint)) == weights(whole)


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


def test_checkpoint_of_another_algorithm_is_one_line_and_exit_code_2(train: Train, tmp_path: Path) -> None:
    told = train(make_config(algorithm="mappo", **SMALL["mappo"]))
    config = {"algorithm": "ippo", "run_id": "r", "mode": "evaluate", "checkpoint": str(told.last_checkpoint)}
    (tmp_path / "config.json").write_text(json.dumps({**SMALL["ippo"], **config}))
    command = [sys.executable, "-m", "xuance_worker.cli", "--config", str(tmp_path / "config.json")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.endswith("its algorithm is 'mappo', this run's is 'ippo'")


def test_weights_of_another_network_are_refused(train: Train) -> None:
    told = train(make_config(algorithm="mappo", **SMALL["mappo"]))
    other = {"buffer_size": 150, "actor_hidden_size": [32]}
    with pytest.raises(CheckpointError, match="its weights are not of this network"):
        train(make_config(algorithm="mappo", parallels=1, hyperparameters=other), resume=told.last_checkpoint)


def test_config_lies_in_the_checkpoint(train: Train) -> None:
    told = train(make_config(algorithm="mappo", seed=9, **SMALL["mappo"]))
    saved: dict[str, Any] = json.loads(Path(told.last_checkpoint / "config.json").read_text())
    assert (saved["algorithm"], saved["seed"], saved["hyperparameters"]["buffer_size"]) == ("mappo", 9, 150)
