"""Self-play: the league grows, is judged, is saved and restored exactly, and the policy gets better."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium.spaces as spaces
import msgspec
import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns

from conftest import Told, make_config
from mosaic.worker import ConfigError
from ray_worker import RayPolicyConfig, create_ray_actor
from ray_worker.config import Matchmaking, PolicyConfiguration
from ray_worker.environments import EnvironmentFactory
from ray_worker.evaluation_results import judge
from ray_worker.league import FILE, League, LeagueState, Member
from ray_worker.modules import RandomModule
from ray_worker.policies import SeatMapping, plan_policies
from ray_worker.policy_actor import RandomActor
from ray_worker.policy_evaluator import PolicyEvaluator
from ray_worker.rllib_env import MASK, OBSERVATIONS

Train = Callable[..., Told]
TICTACTOE = {"family": "classic", "env_id": "tictactoe_v3"}


def self_play_config(**changes: Any) -> Any:
    return make_config(environment=TICTACTOE, policy_configuration="SELF_PLAY", **changes)


def league_with(members: list[Member], matchmaking: Matchmaking, opponents: int = 400) -> League:
    config = self_play_config()
    config = replace(config, league=replace(config.league, matchmaking=matchmaking, opponents=opponents))
    league = League(config, plan_policies(config, EnvironmentFactory(config.environment).facts()))
    league.state.members = members
    return league


def test_every_process_agrees_on_the_seats_and_all_seats_are_used() -> None:
    mapping = SeatMapping(["a", "b", "c"], ["opponent_0", "opponent_1"])
    seats = set()
    for n in range(300):
        episode = SimpleNamespace(id_=f"episode {n}")
        played = {agent: mapping(agent, episode) for agent in "abc"}
        assert list(played.values()).count("main") == 1
        assert played[["a", "b", "c"][zlib.crc32(episode.id_.encode()) % 3]] == "main"
        seats |= set(played.items())
    assert len(seats) == 9


@pytest.mark.parametrize(
    ("matchmaking", "expected"),
    [
        (Matchmaking.LATEST, [0.0, 0.0, 1.0]),
        (Matchmaking.UNIFORM, [1 / 3, 1 / 3, 1 / 3]),
        # Weights (1 - score)^2 of scores 1, 0 and one half, the first raised to the least weight.
        (Matchmaking.PRIORITISED, [0.05 / 1.3, 1 / 1.3, 0.25 / 1.3]),
    ],
)
def test_opponents_are_chosen_as_the_config_says(matchmaking: Matchmaking, expected: list[float]) -> None:
    members = [Member("easy", 0, wins=10), Member("hard", 1, losses=10), Member("new", 2)]
    league = league_with(members, matchmaking)
    chosen = [name for _ in range(20) for name in league.choose()]
    shares = [chosen.count(member.name) / len(chosen) for member in members]
    assert shares == pytest.approx(expected, abs=0.03)


def test_a_draw_is_a_draw() -> None:
    assert judge({"a": 0.0, "b": 0.0}, {"a": "a", "b": "b"}) == {"a": "draw", "b": "draw"}
    assert judge({"a": 1.0, "b": -1.0}, {"a": "a", "b": "b"}) == {"a": "win", "b": "loss"}
    teams = {"a": "red", "b": "red", "c": "blue"}
    assert judge({"a": 4.0, "b": 0.0, "c": 1.0}, teams) == {"a": "win", "b": "win", "c": "loss"}
    assert Member("m", 0, wins=1, draws=2, losses=1).record.score == 0.5


def test_matches_swap_seats_on_the_same_seeds() -> None:
    config = self_play_config()
    with PolicyEvaluator(config.environment) as evaluator:
        one, two = (
            RandomActor(evaluator.game.action_spaces, seed=n, name=name) for n, name in enumerate(("one", "two"))
        )
        results = evaluator.match((one, two), 10)
    assert [episode.seed for episode in results.episodes] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [episode.seats["player_1"] for episode in results.episodes] == ["one", "two"] * 5
    assert results.actor_record("one").games == results.actor_record("two").games == 10


def test_the_league_is_saved_and_restored_exactly(train: Train) -> None:
    settings = {"snapshot_every": 200, "evaluation_games": 4, "keep": 3, "matchmaking": "PRIORITISED"}
    first = train(self_play_config(league=settings, training={"total_timesteps": 800}))
    checkpoint = first.checkpoints[-1][1]
    state = msgspec.json.decode((checkpoint / FILE).read_bytes(), type=LeagueState)
    assert [member.step for member in state.members] == sorted(member.step for member in state.members)
    assert state.members[0].step == 0
    assert len(state.members) == 3
    assert state.members[0].record.games == 4
    assert "league/random/score" in {name for values in first.metrics.values() for name in values}
    for member in state.members:
        assert create_ray_actor(RayPolicyConfig(checkpoint, policy=member.name)).name
    assert {used for episode in first.episodes for used in episode["policies"].values()} == {
        "main",
        "opponent_0",
        "opponent_1",
        "opponent_2",
        "random_0",
    }
    config = self_play_config(league=settings, training={"total_timesteps": 801})
    second = train(config, resume=checkpoint, stop_after=3)
    again = msgspec.json.decode((second.checkpoints[-1][1] / FILE).read_bytes(), type=LeagueState)
    assert again == state, "nothing was drawn or judged in between"


@pytest.mark.slow
def test_a_league_goes_on_where_several_processes_learn(train: Train) -> None:
    settings: dict[str, Any] = {
        "league": {"snapshot_every": 200, "evaluation_games": 2},
        "resources": {"num_learners": 2, "num_envs_per_worker": 4},
    }
    first = train(self_play_config(**settings, training={"total_timesteps": 500}))
    step, checkpoint = first.checkpoints[-1]
    state = msgspec.json.decode((checkpoint / FILE).read_bytes(), type=LeagueState)
    assert len(state.members) > 2
    second = train(self_play_config(**settings, training={"total_timesteps": step + 400}), resume=checkpoint)
    again = msgspec.json.decode((second.checkpoints[-1][1] / FILE).read_bytes(), type=LeagueState)
    assert [member.name for member in again.members][: len(state.members)] == [member.name for member in state.members]
    assert min(second.metrics) > step


def test_random_opponents_do_only_what_is_allowed_and_each_as_often() -> None:
    space = spaces.Discrete(4)
    module = RandomModule(observation_space=None, action_space=space)
    mask = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    batch = {Columns.OBS: {MASK: mask, OBSERVATIONS: torch.zeros(2, 3)}}
    drawn = np.array([module.forward_exploration(batch)[Columns.ACTIONS].tolist() for _ in range(400)])
    assert np.bincount(drawn[:, 0], minlength=4).tolist() == pytest.approx([0, 200, 200, 0], abs=50)
    assert set(drawn[:, 1]) == {3}
    assert len({int(module.forward_exploration({Columns.OBS: mask})[Columns.ACTIONS][0]) for _ in range(100)}) == 4


def test_self_play_needs_a_rival() -> None:
    with pytest.raises(ConfigError, match="has one agent"):
        make_config(policy_configuration=PolicyConfiguration.SELF_PLAY.value)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_self_play_beats_random_and_its_own_beginning(train: Train) -> None:
    config = self_play_config(
        training={
            "total_timesteps": 300_000,
            "hyperparameters": {
                "train_batch_size_per_learner": 4000,
                "minibatch_size": 512,
                "num_epochs": 6,
                "lr": [[0, 0.001], [300_000, 0.0001]],
                "entropy_coeff": 0.01,
                "lambda_": 0.95,
                "model_config": {"fcnet_hiddens": [128, 128]},
            },
        },
        league={"snapshot_every": 15_000, "opponents": 2, "random_opponents": 2},
        resources={"num_workers": 0, "num_envs_per_worker": 32},
    )
    checkpoint = train(config).checkpoints[-1][1]
    trained = create_ray_actor(RayPolicyConfig(checkpoint, policy="main", name="trained"))
    first = create_ray_actor(RayPolicyConfig(checkpoint, policy=f"snapshot_{0:012d}", name="first", explore=True))
    with PolicyEvaluator(config.environment) as evaluator:
        against_random = evaluator.match((trained, RandomActor(evaluator.game.action_spaces)), 200)
        against_first = evaluator.match((trained, first), 200, seed=1)
    assert against_random.actor_record("trained").win_rate.value >= 0.9
    assert against_first.actor_record("trained").win_rate.value >= 0.8
    assert np.isfinite(against_first.total_return.value)
