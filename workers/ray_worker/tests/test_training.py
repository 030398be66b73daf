"""Short real trainings: what is told, what is saved, and that it goes on from there."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from conftest import Told, make_config
from mosaic.worker import CheckpointError, ConfigError
from mosaic.worker.checkpoints import verify
from ray_worker import EvaluationConfig, RayPolicyConfig, create_ray_actor, run_evaluation

Train = Callable[..., Told]


def test_a_single_agent_learns_is_saved_and_served(train: Train) -> None:
    told = train(make_config(checkpoint={"frequency": 200}))
    assert [step for step, _ in told.checkpoints] == sorted(told.metrics)
    for _, path in told.checkpoints:
        assert verify(path).environment == "CartPole-v1"
    values = told.last_values
    for name in ("episode_return_mean", "learner/shared/policy_loss", "learner/shared/entropy", "time/sample_s"):
        assert math.isfinite(values[name]), name
    assert values["throughput/env_steps_per_s"] > 0
    assert all(episode["length"] == episode["episode_return"] for episode in told.episodes), "CartPole pays 1 a step"
    actor = create_ray_actor(RayPolicyConfig(told.checkpoints[-1][1], algorithm="PPO", env_id="CartPole-v1"))
    results = run_evaluation(EvaluationConfig(actor, num_episodes=5))
    assert results.total_return.count == 5
    assert results.total_return.low <= results.total_return.value <= results.total_return.high


def test_a_resumed_run_goes_on_where_it_was(train: Train) -> None:
    config = make_config(training={"total_timesteps": 600})
    first = train(config, stop_after=250)
    ((step, checkpoint),) = first.checkpoints
    assert 0 < step < 600, "stopped in the middle of an iteration, saved at the end of the one before"
    second = train(config, resume=checkpoint)
    assert min(second.metrics) > step
    assert second.episodes[0]["episode"] == first.summary["episodes"]
    assert second.summary["steps"] >= 600
    again = train(config, resume=checkpoint)
    assert weights(again) == weights(second), "the same checkpoint and seed: the same run"


def weights(told: Told) -> dict[str, list[float]]:
    folder = told.checkpoints[-1][1] / "policies"
    return {
        f"{path.stem}.{name}": tensor.reshape(-1).tolist()
        for path in sorted(folder.glob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }


def test_a_checkpoint_of_something_else_is_refused(train: Train) -> None:
    checkpoint = train(make_config(training={"total_timesteps": 100})).checkpoints[-1][1]
    with pytest.raises(CheckpointError, match="its environment is 'CartPole-v1', this run's 'Acrobot-v1'"):
        train(make_config(environment={"env_id": "Acrobot-v1"}), resume=checkpoint)
    with pytest.raises(CheckpointError, match="its environment is 'CartPole-v1', expected 'waterworld_v4'"):
        create_ray_actor(RayPolicyConfig(checkpoint, env_id="waterworld_v4"))


MULTI_AGENT: list[tuple[str, dict[str, Any], str]] = [
    ("masked", {"family": "classic", "env_id": "tictactoe_v3"}, "PARAMETER_SHARING"),
    ("masked-independent", {"family": "classic", "env_id": "connect_four_v3"}, "INDEPENDENT"),
    (
        "masked-grid",
        {"family": "classic", "env_id": "go_v5", "env_kwargs": {"board_size": 5}, "wrappers": {"flatten_grids": False}},
        "PARAMETER_SHARING",
    ),
    ("continuous", {"family": "sisl", "env_id": "multiwalker_v9", "wrappers": {"max_steps": 40}}, "PARAMETER_SHARING"),
    (
        "padded",
        {
            "family": "mpe",
            "env_id": "simple_tag_v3",
            "env_kwargs": {"max_cycles": 20},
            "wrappers": {"pad_observations": True},
        },
        "PARAMETER_SHARING",
    ),
    ("unlike", {"family": "mpe", "env_id": "simple_adversary_v3", "env_kwargs": {"max_cycles": 20}}, "INDEPENDENT"),
    (
        "dying",
        {
            "family": "butterfly",
            "env_id": "knights_archers_zombies_v10",
            "env_kwargs": {"spawn_rate": 1, "max_cycles": 60},
        },
        "INDEPENDENT",
    ),
    (
        "images",
        {"family": "butterfly", "env_id": "cooperative_pong_v5", "wrappers": {"image_size": 32, "max_steps": 30}},
        "PARAMETER_SHARING",
    ),
    (
        "in-turn",
        {"family": "mpe", "env_id": "simple_spread_v3", "api_type": "AEC", "env_kwargs": {"max_cycles": 10}},
        "PARAMETER_SHARING",
    ),
]


QUICK = {"masked", "padded", "dying"}


@pytest.mark.parametrize(
    ("environment", "policies"),
    [pytest.param(*one[1:], id=one[0], marks=() if one[0] in QUICK else pytest.mark.slow) for one in MULTI_AGENT],
)
def test_many_agents_train_and_play_from_the_checkpoint(
    train: Train, environment: dict[str, Any], policies: str
) -> None:
    config = make_config(
        environment=environment,
        policy_configuration=policies,
        training={"total_timesteps": 60, "hyperparameters": {"train_batch_size_per_learner": 60, "minibatch_size": 32}},
    )
    told = train(config)
    checkpoint = told.checkpoints[-1][1]
    assert told.episodes, "an episode came to its end"
    first = told.episodes[0]
    assert first["episode_return"] == pytest.approx(sum(first["agents"].values()))
    used = {"shared"} if policies == "PARAMETER_SHARING" else set(first["agents"])
    assert set(first["policies"].values()) == used
    assert {name.split("/")[1] for name in told.last_values if name.startswith("learner/")} >= used
    actor = create_ray_actor(RayPolicyConfig(checkpoint, explore=True, seed=1))
    results = run_evaluation(EvaluationConfig(actor, num_episodes=2))
    assert results.length.value > 0
    assert np.isfinite(results.total_return.value)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"training": {"algorithm": "PPPO"}}, "training.algorithm", "PPO"),
        ({"training": {"hyperparameters": {"learning_rate": 1}}}, "training.hyperparameters.learning_rate", "unknown"),
        ({"training": {"hyperparameters": {"gamma": 2}}}, "training.hyperparameters.gamma", "<= 1"),
        (
            {"environment": {"family": "mpe", "env_id": "simple_tag_v3"}},
            "policy_configuration",
            "environment.wrappers.pad_observations",
        ),
        (
            {
                "environment": {
                    "family": "mpe",
                    "env_id": "simple_speaker_listener_v4",
                    "wrappers": {"pad_observations": True},
                }
            },
            "policy_configuration",
            "INDEPENDENT",
        ),
        ({"resources": {"num_workers": 500}}, "resources.num_workers", "this machine"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(**changes)
    (error,) = caught.value.errors
    assert error.field == field
    assert words in error.message


@pytest.mark.slow
def test_runner_processes_play_too(train: Train) -> None:
    told = train(make_config(resources={"num_workers": 2, "num_envs_per_worker": 2}))
    assert {episode["worker"] for episode in told.episodes} == {1, 2}


def test_checkpoints_are_also_copied_where_asked(train: Train, tmp_path: Path) -> None:
    told = train(make_config(training={"total_timesteps": 100}, checkpoint={"directory": str(tmp_path / "shared")}))
    copy = tmp_path / "shared" / "test" / told.checkpoints[-1][1].name
    assert verify(copy).step == told.checkpoints[-1][0]
