"""Every algorithm trains, learns something, saves, resumes and serves, with one agent and with masks."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ray.rllib.core.columns import Columns

from conftest import Told, make_config
from mosaic.worker import ConfigError
from ray_worker import EvaluationConfig, RayPolicyConfig, create_ray_actor, policy_file, run_evaluation
from ray_worker.algo_params import ALGORITHMS

Train = Callable[..., Told]

REPLAY = {
    "num_steps_sampled_before_learning_starts": 100,
    "rollout_fragment_length": 8,
    "train_batch_size_per_learner": 32,
    "replay_buffer_config": {"capacity": 5000, "type": "EpisodeReplayBuffer"},
}
QUICK: dict[str, dict[str, Any]] = {
    "PPO": {"train_batch_size_per_learner": 200, "minibatch_size": 64, "num_epochs": 1},
    "A2C": {},
    "DQN": REPLAY,
    "IMPALA": {"train_batch_size_per_learner": 200},
    "APPO": {"train_batch_size_per_learner": 200},
    "SAC": REPLAY,
}
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "one-discrete": {"env_id": "CartPole-v1"},
    "one-continuous": {"env_id": "Pendulum-v1"},
    "masked": {"family": "classic", "env_id": "tictactoe_v3"},
}
CELLS = [
    (algorithm, environment)
    for algorithm, entry in ALGORITHMS.items()
    for environment in ENVIRONMENTS
    if environment != "one-continuous" or "box" in entry.actions
]


def small(algorithm: str, environment: str, steps: int) -> Any:
    return make_config(
        environment=ENVIRONMENTS[environment],
        training={
            "algorithm": algorithm,
            "total_timesteps": steps,
            "hyperparameters": {**QUICK[algorithm], "model_config": {"fcnet_hiddens": [16]}},
        },
        resources={"num_envs_per_worker": 2},
    )


# One cell of each kind of learner; the others are slow tests.
REPRESENTATIVE = {("A2C", "one-discrete"), ("DQN", "masked"), ("APPO", "one-discrete"), ("SAC", "one-continuous")}


@pytest.mark.parametrize(
    ("algorithm", "environment"),
    [
        pytest.param(*cell, id="-".join(cell), marks=() if cell in REPRESENTATIVE else pytest.mark.slow)
        for cell in CELLS
    ],
)
def test_it_trains_saves_serves_and_goes_on(train: Train, algorithm: str, environment: str) -> None:
    first = train(small(algorithm, environment, 300))
    assert first.episodes
    step, checkpoint = first.checkpoints[-1]
    losses = [value for name, value in first.last_values.items() if name.startswith("learner/")]
    assert losses, "the learner says something"
    assert any(math.isfinite(value) for value in losses)
    actor = create_ray_actor(RayPolicyConfig(checkpoint, algorithm=algorithm))
    assert run_evaluation(EvaluationConfig(actor, num_episodes=1)).length.value > 0
    second = train(small(algorithm, environment, step + 100), resume=checkpoint)
    assert min(second.metrics) > step


@pytest.mark.parametrize("algorithm", ["DQN", "SAC"])
def test_actors_choose_what_rllib_would(train: Train, algorithm: str) -> None:
    environment = "one-continuous" if algorithm == "SAC" else "one-discrete"
    checkpoint = train(small(algorithm, environment, 150)).checkpoints[-1][1]
    import torch
    from ray.rllib.core.rl_module.rl_module import RLModule

    folder = checkpoint / "algorithm" / "learner_group" / "learner" / "rl_module" / "default_policy"
    module = RLModule.from_checkpoint(str(folder))
    content = policy_file.read(checkpoint)
    (name,) = content.policies
    policy = policy_file.NetworkPolicy.load(checkpoint, name, content.policies[name])
    size = content.codecs["agent"].size
    for seen in np.random.default_rng(0).normal(0, 1, (20, size)).astype(np.float32):
        with torch.no_grad():
            output = module.forward_inference({Columns.OBS: torch.from_numpy(seen[None])})
        chosen = policy.act(content.codecs["agent"], seen)
        if algorithm == "DQN":
            assert chosen == int(output[Columns.ACTIONS][0])
            continue
        actions = module.get_inference_action_dist_cls().from_logits(output[Columns.ACTION_DIST_INPUTS])
        # RLlib's own deterministic action forgets the tanh that every action in training went through.
        squashed = np.tanh(actions.to_deterministic().sample().numpy()[0])
        # Pendulum's torque goes from -2 to 2.
        assert chosen == pytest.approx(2 * squashed, abs=1e-4)


def test_the_replay_buffer_is_saved_and_restored_if_asked(train: Train) -> None:
    config = small("DQN", "one-discrete", 300)
    config = replace(config, checkpoint=replace(config.checkpoint, replay_buffer=True))
    checkpoint = train(config).checkpoints[-1][1]
    saved = pickle.loads((checkpoint / "replay_buffer.pkl").read_bytes())
    # Stopped before its first step: what it saves is what it has restored.
    again = train(config, resume=checkpoint, stop_after=0).checkpoints[-1][1]
    restored = pickle.loads((again / "replay_buffer.pkl").read_bytes())
    assert len(saved["episodes"]) == len(restored["episodes"]) > 0


def test_q_learning_on_continuous_actions_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(environment={"env_id": "Pendulum-v1"}, training={"algorithm": "DQN", "hyperparameters": {}})
    assert {error.field.split(".")[0] for error in caught.value.errors} == {"training"}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("algorithm", "hyperparameters", "steps"),
    [
        (
            "PPO",
            {
                "train_batch_size_per_learner": 2000,
                "num_epochs": 10,
                "lr": 0.0003,
                "lambda_": 0.95,
                "vf_clip_param": 1e4,
                "model_config": {"fcnet_hiddens": [64, 64]},
            },
            150_000,
        ),
        # With the networks that it has by default; it gets there later with smaller ones.
        ("A2C", {}, 150_000),
    ],
)
def test_it_learns_cartpole(train: Train, algorithm: str, hyperparameters: dict[str, Any], steps: int) -> None:
    config = make_config(
        training={
            "algorithm": algorithm,
            "total_timesteps": steps,
            "hyperparameters": hyperparameters,
        },
        resources={"num_envs_per_worker": 8},
    )
    actor = create_ray_actor(RayPolicyConfig(train(config).checkpoints[-1][1]))
    assert run_evaluation(EvaluationConfig(actor, num_episodes=50)).total_return.value >= 450
