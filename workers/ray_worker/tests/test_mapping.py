"""Explicit mappings: teams, frozen policies, scripts and dice beside those who learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium.spaces as spaces
import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns

from conftest import Told, make_config
from mosaic.worker import ConfigError
from ray_worker import EvaluationConfig, RayPolicyConfig, RayPolicyController, create_ray_actor, run_evaluation
from ray_worker.config import MappingConfig
from ray_worker.mapping import FrozenPlayer, ScriptPlayer, policy_of_each
from ray_worker.modules import PLAYER, PlayedModule
from ray_worker.observations import codec_for
from ray_worker.policy_actor import RandomActor

Train = Callable[..., Told]

TICTACTOE = {"family": "classic", "env_id": "tictactoe_v3"}
TAG = {"family": "mpe", "env_id": "simple_tag_v3", "env_kwargs": {"max_cycles": 15}}

SCRIPT = """
seen = []

def first_allowed(observation, info):
    seen.append((observation.shape, info["agent"]))
    return int(info["action_mask"].argmax())

def stand_still(observation, info):
    return 0

number = 3
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "scripted_play.py"
    path.write_text(SCRIPT)
    yield str(path)


def mapped(environment: dict[str, Any], mapping: dict[str, Any], steps: int = 100) -> Any:
    return make_config(
        environment=environment,
        policy_configuration="MAPPING",
        mapping=mapping,
        training={"total_timesteps": steps, "hyperparameters": {"train_batch_size_per_learner": 100}},
    )


def test_an_agents_own_entry_goes_before_its_teams() -> None:
    agents = ["adversary_0", "adversary_1", "agent_0"]
    mapping = MappingConfig(
        agents={"adversary_1": "lone", "hunters": "pack", "agent_0": "prey"}, teams={"hunters": ["adversary_*"]}
    )
    assert policy_of_each(mapping, agents) == {"adversary_0": "pack", "adversary_1": "lone", "agent_0": "prey"}


def test_one_learns_against_a_frozen_policy_and_both_are_in_the_checkpoint(train: Train) -> None:
    base = train(make_config(environment=TICTACTOE, training={"total_timesteps": 100})).checkpoints[-1][1]
    mapping = {
        "agents": {"player_1": "learner", "player_2": "rival"},
        "policies": {"rival": {"kind": "FROZEN", "checkpoint": str(base)}},
    }
    told = train(mapped(TICTACTOE, mapping))
    assert set(told.episodes[0]["policies"].values()) == {"learner", "rival"}
    learned = [name for name in told.last_values if name.startswith("learner/")]
    assert {name.split("/")[1] for name in learned} == {"learner"}, learned
    checkpoint = told.checkpoints[-1][1]
    rival = create_ray_actor(RayPolicyConfig(checkpoint, policy="rival"))
    frozen = create_ray_actor(RayPolicyConfig(base, policy="shared"))
    for mask in np.eye(9, dtype=np.int8) + np.eye(9, dtype=np.int8)[::-1]:
        seen = {"observation": np.random.default_rng(0).integers(0, 2, (3, 3, 2)), "action_mask": mask}
        info = {"agent": "player_2"}
        assert rival.select_action(seen, info) == frozen.select_action(seen, info)
    again = train(mapped(TICTACTOE, mapping, steps=250), resume=checkpoint)
    assert min(again.metrics) > told.checkpoints[-1][0]


def test_scripts_and_dice_play_beside_a_team_that_learns(train: Train, script: str) -> None:
    mapping = {
        "agents": {"hunters": "pack", "adversary_2": "dice", "agent_0": "prey"},
        "teams": {"hunters": ["adversary_*"]},
        "policies": {
            "pack": {"kind": "TRAINED"},
            "dice": {"kind": "RANDOM"},
            "prey": {"kind": "SCRIPTED", "script": f"{script}:stand_still"},
        },
    }
    told = train(mapped(TAG, mapping))
    assert told.episodes[0]["policies"] == {
        "adversary_0": "pack",
        "adversary_1": "pack",
        "adversary_2": "dice",
        "agent_0": "prey",
    }
    actor = create_ray_actor(RayPolicyConfig(told.checkpoints[-1][1]))
    with pytest.raises(ConfigError, match="stand_still"):
        run_evaluation(EvaluationConfig(actor, num_episodes=1))
    assert run_evaluation(EvaluationConfig(actor, num_episodes=2, scripts=True)).length.value > 0
    with pytest.raises(ValueError, match="give it an actor"):
        actor.select_action(np.zeros(14), {"agent": "agent_0"})
    five = dict.fromkeys(["agent_0", "adversary_2"], spaces.Discrete(5))
    others = RayPolicyController({"adversary_0": actor, "adversary_1": actor, **dict.fromkeys(five, RandomActor(five))})
    assert run_evaluation(EvaluationConfig(others, num_episodes=1)).length.value > 0


def test_a_script_sees_what_the_environment_shows_and_who_it_plays(script: str) -> None:
    codec = codec_for(
        spaces.Dict(
            {"observation": spaces.Box(0, 1, (3, 3, 2), np.int8), "action_mask": spaces.Box(0, 1, (9,), np.int8)}
        )
    )
    act = ScriptPlayer(f"{script}:first_allowed", "player_1", codec).load(0)
    mask = np.zeros(9, np.float32)
    mask[4] = 1
    assert act(codec.encode(np.ones((3, 3, 2))), mask) == 4
    assert act.__closure__ is not None


def test_what_others_choose_is_stretched_back_for_rllib(tmp_path: Path) -> None:
    path = tmp_path / "steering.py"
    path.write_text("def steer(observation, info):\n    return observation[:2]\n")
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 5.0], np.float32))
    player = ScriptPlayer(f"{path}:steer", "a", codec_for(spaces.Box(-1, 1, (3,), np.float32)))
    module = PlayedModule(
        observation_space=spaces.Box(-1, 1, (3,), np.float32), action_space=space, model_config={PLAYER: player}
    )
    batch = {Columns.OBS: torch.tensor([[2.0, 5.0, 0.0], [0.0, 0.0, 0.0]])}
    assert module.forward_exploration(batch)[Columns.ACTIONS].tolist() == [[1.0, 1.0], [0.0, -1.0]]


@pytest.mark.parametrize(
    ("mapping", "field", "words"),
    [
        ({"agents": {"player_1": "a"}}, "mapping.agents", "none for player_2"),
        ({"agents": {"player_1": "a", "player_3": "b"}}, "mapping.agents", "did you mean"),
        ({"agents": {"both": "a"}, "teams": {"both": ["white*"]}}, "mapping.teams.both", "player_1, player_2"),
        (
            {"agents": {"player_1": "a", "player_2": "b"}, "policies": {"c": {"kind": "RANDOM"}}},
            "mapping.policies",
            "somebody plays: a, b",
        ),
        (
            {"agents": {"player_1": "a", "player_2": "a"}, "policies": {"a": {"kind": "RANDOM"}}},
            "mapping.policies",
            "at least one policy of kind TRAINED",
        ),
        (
            {"agents": {"player_1": "a", "player_2": "b"}, "policies": {"b": {"kind": "FROZEN"}}},
            "mapping.policies.b.checkpoint",
            "FROZEN needs",
        ),
        (
            {"agents": {"player_1": "a", "player_2": "b"}, "policies": {"b": {"script": "x:y"}}},
            "mapping.policies.b.script",
            "nothing for a policy of kind TRAINED",
        ),
        (
            {
                "agents": {"player_1": "a", "player_2": "b"},
                "policies": {"b": {"kind": "SCRIPTED", "script": "no_such_module:play"}},
            },
            "mapping.policies.b.script",
            "No module named",
        ),
        (
            {
                "agents": {"player_1": "a", "player_2": "b"},
                "policies": {"b": {"kind": "FROZEN", "checkpoint": "no/such/folder"}},
            },
            "mapping.policies.b.checkpoint",
            "a checkpoint",
        ),
    ],
)
def test_what_does_not_map_is_refused(mapping: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mapped(TICTACTOE, mapping)
    (error,) = caught.value.errors
    assert error.field == field
    assert words in error.message
    assert "\n" not in error.message


def test_a_checkpoint_of_another_environment_or_of_other_agents_is_refused(train: Train, script: str) -> None:
    base = train(make_config(environment=TICTACTOE, training={"total_timesteps": 100})).checkpoints[-1][1]
    for environment, words in (
        ({"family": "classic", "env_id": "connect_four_v3"}, "a checkpoint of connect_four_v3"),
        ({**TICTACTOE, "wrappers": {"flatten_grids": False}}, r"who sees \(3, 3, 2\)"),
    ):
        agents = ["player_1", "player_2"] if environment["env_id"] == "tictactoe_v3" else ["player_0", "player_1"]
        rival = {"kind": "FROZEN", "checkpoint": str(base)}
        with pytest.raises(ConfigError, match=words):
            mapped(environment, {"agents": dict(zip(agents, "ab", strict=True)), "policies": {"b": rival}})
    with pytest.raises(ConfigError, match="is no function"):
        bot = {"kind": "SCRIPTED", "script": f"{script}:number"}
        mapped(TICTACTOE, {"agents": {"player_1": "a", "player_2": "bot"}, "policies": {"bot": bot}})
    with pytest.raises(ConfigError, match="unless policy_configuration is MAPPING"):
        make_config(environment=TICTACTOE, mapping={"agents": {"player_1": "a", "player_2": "b"}})
    assert FrozenPlayer(str(base), "shared", False).load(0) is not None
