"""One critic for all: it sees every agent at the right step, learns, and is restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conftest import Told, make_config
from mosaic.worker import ConfigError
from ray_worker.shared_critic import join, with_asker

Train = Callable[..., Told]


def test_the_state_is_all_observations_side_by_side_with_zeros_for_the_dead() -> None:
    seen = {"a": np.array([[1.0], [2.0], [3.0]], np.float32), "c": np.array([[7.0, 8.0]], np.float32)}
    state = join(seen, {"a": 1, "b": 1, "c": 2})
    assert state.tolist() == [[1, 0, 7, 8], [2, 0, 0, 0], [3, 0, 0, 0]]
    assert with_asker(state[:1], 2, 3).tolist() == [[1, 0, 7, 8, 0, 0, 1]]


@pytest.mark.parametrize(
    "environment",
    [
        {"family": "mpe", "env_id": "simple_spread_v3", "env_kwargs": {"max_cycles": 25}},
        pytest.param(
            {"family": "mpe", "env_id": "simple_adversary_v3", "env_kwargs": {"max_cycles": 25}}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"family": "sisl", "env_id": "multiwalker_v9", "wrappers": {"max_steps": 30}}, marks=pytest.mark.slow
        ),
        {
            "family": "butterfly",
            "env_id": "knights_archers_zombies_v10",
            "env_kwargs": {"spawn_rate": 1, "max_cycles": 60},
        },
    ],
    ids=lambda environment: environment["env_id"],
)
def test_actors_learn_from_the_common_critic_and_go_on_with_it(train: Train, environment: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"environment": environment, "policy_configuration": "SHARED_VALUE_FUNCTION"}
    first = train(make_config(**settings, training={"total_timesteps": 200}))
    agents = set(first.episodes[0]["agents"])
    told = {name.split("/")[1] for name in first.last_values if name.endswith("/vf_loss")}
    assert told <= agents
    assert told
    second = train(make_config(**settings, training={"total_timesteps": 400}), resume=first.checkpoints[-1][1])
    assert min(second.metrics) > first.checkpoints[-1][0]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"env_id": "CartPole-v1"}, "has one agent"),
        ({"family": "classic", "env_id": "tictactoe_v3"}, "act in turn"),
        ({"family": "butterfly", "env_id": "cooperative_pong_v5"}, "see images"),
    ],
)
def test_where_it_makes_no_sense_it_is_refused(environment: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(environment=environment, policy_configuration="SHARED_VALUE_FUNCTION")
    (error,) = caught.value.errors
    assert error.field == "policy_configuration"
    assert words in error.message
