"""Some cells of algorithm, environment and policy configuration: trained, resumed, evaluated without a cluster.

They are tried as the bench tries all of them (`mosaic bench ray-matrix`), and together have every algorithm, every
policy configuration and every family.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import cells
from ray_worker import building

REPLAY = {
    "num_steps_sampled_before_learning_starts": 16,
    "rollout_fragment_length": 8,
    "train_batch_size_per_learner": 8,
    "replay_buffer_config": {"capacity": 500, "type": "EpisodeReplayBuffer"},
}
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "PPO": {"train_batch_size_per_learner": 48, "minibatch_size": 24, "num_epochs": 1},
    "A2C": {},
    "DQN": REPLAY,
    "IMPALA": {"train_batch_size_per_learner": 40},
    "APPO": {"train_batch_size_per_learner": 40},
    "SAC": REPLAY,
}
CELLS = [
    ("IMPALA", "gymnasium", "CartPole-v1", "PARAMETER_SHARING"),
    ("DQN", "gymnasium", "FrozenLake-v1", "PARAMETER_SHARING"),
    ("PPO", "mpe", "simple_v3", "PARAMETER_SHARING"),
    ("PPO", "classic", "chess_v6", "SELF_PLAY"),
    ("DQN", "classic", "connect_four_v3", "SELF_PLAY"),
    ("SAC", "classic", "tictactoe_v3", "INDEPENDENT"),
    ("PPO", "mpe", "simple_spread_v3", "SHARED_VALUE_FUNCTION"),
    ("A2C", "mpe", "simple_adversary_v3", "INDEPENDENT"),
    ("APPO", "mpe", "simple_tag_v3", "PARAMETER_SHARING"),
    ("SAC", "sisl", "waterworld_v4", "PARAMETER_SHARING"),
    ("PPO", "sisl", "multiwalker_v9", "SHARED_VALUE_FUNCTION"),
    ("PPO", "butterfly", "cooperative_pong_v5", "INDEPENDENT"),
    ("A2C", "butterfly", "knights_archers_zombies_v10", "SHARED_VALUE_FUNCTION"),
]


@pytest.fixture
def brief(cluster: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(building, "build_config", building.build_config)  # put back what the next line changes
    cells.keep_iterations_brief()
    yield


@pytest.mark.parametrize(("algorithm", "family", "env_id", "policies"), CELLS, ids=str)
def test_a_cell_trains_resumes_and_plays(brief: None, algorithm: str, family: str, env_id: str, policies: str) -> None:
    told = cells.try_cell(
        {
            "run_id": "cell",
            "environment": {
                "family": family,
                "env_id": env_id,
                "wrappers": {
                    "max_steps": 30,
                    "image_size": 32,
                    "pad_observations": (family, policies) == ("mpe", "PARAMETER_SHARING"),
                },
            },
            "policy_configuration": policies,
            "training": {
                "algorithm": algorithm,
                "total_timesteps": 48,
                "hyperparameters": {**HYPERPARAMETERS[algorithm], "model_config": {"fcnet_hiddens": [16]}},
            },
            "resources": {"num_workers": 0},
            "league": {"snapshot_every": 40, "evaluation_games": 2},
        }
    )
    assert told == {"train": "yes", "resume": "yes", "evaluate": "yes"}
