"""The environments behind their one face: whose turn it is, who may do what, who gets which reward."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

from conftest import make_config
from mosaic.worker import ConfigError
from xuance_worker.environments import make_game
from xuance_worker.games import TurnGame
from xuance_worker.session import GameSession

TICTACTOE = {"env_family": "classic", "env_id": "tictactoe_v3", "algorithm": "iql"}


def play(game: TurnGame, *fields: int) -> list[dict[str, float]]:
    """Both players' rewards of each move."""
    game.reset(1)
    rewards = []
    for field in fields:
        acting = next(agent for agent in game.agents if game.can_act[agent])
        turn = game.step({agent: field if agent == acting else 0 for agent in game.agents})
        rewards.append(turn.rewards)
    return rewards


def test_who_loses_while_idle_is_told() -> None:
    game = make_game(make_config(**TICTACTOE))
    assert isinstance(game, TurnGame)
    rewards = play(game, 0, 3, 1, 4, 2)  # the first player fills the first column
    assert rewards[-1] == {"player_1": 1.0, "player_2": -1.0}
    assert rewards[:-1] == [{"player_1": 0.0, "player_2": 0.0}] * 4


def test_masks_allow_what_the_rules_allow_and_the_idle_only_nothing() -> None:
    game = make_game(make_config(**TICTACTOE))
    game.reset(1)
    assert game.masks()["player_1"].tolist() == [True] * 9
    assert game.masks()["player_2"].tolist() == [True] + [False] * 8
    game.step({"player_1": 4, "player_2": 0})
    assert game.masks()["player_1"].tolist() == [True] + [False] * 8
    assert game.masks()["player_2"].tolist() == [True] * 4 + [False] + [True] * 4


def test_the_end_is_an_end_for_both() -> None:
    game = make_game(make_config(**TICTACTOE))
    game.reset(1)
    for number, field in enumerate((0, 3, 1, 4, 2)):
        acting = "player_1" if number % 2 == 0 else "player_2"
        turn = game.step({"player_1": 0, "player_2": 0, acting: field})
    assert turn.terminated == {"player_1": True, "player_2": True}
    assert not turn.truncated


@pytest.mark.parametrize(
    ("family", "env_id", "algorithm"),
    [
        ("mpe", "simple_spread_v3", "mappo"),
        ("mpe", "simple_adversary_v3", "maddpg"),
        ("mpe", "simple_speaker_listener_v4", "qmix"),
        ("classic", "connect_four_v3", "iql"),
        ("classic", "rps_v2", "ippo"),
        ("sisl", "pursuit_v5", "vdn"),
        ("sisl", "multiwalker_v9", "isac"),
        ("butterfly", "knights_archers_zombies_v11", "ippo"),
        ("butterfly", "pistonball_v6", "isac"),
        ("butterfly", "cooperative_pong_v6", "vdn"),
        ("classic", "leduc_holdem_v4", "iql"),
        ("classic", "texas_holdem_no_limit_v6", "iql"),
        ("classic", "chess_v6", "qmix"),
        ("minigrid", "MiniGrid-Empty-5x5-v0", "ppo"),
        ("gymnasium", "CarRacing-v3", "dqn"),
    ],
)
def test_every_agent_has_an_entry_in_all_that_is_told(family: str, env_id: str, algorithm: str) -> None:
    config = make_config(env_family=family, env_id=env_id, algorithm=algorithm, max_steps=40)
    game = make_game(config, continuous=algorithm in ("maddpg", "isac"))
    turn = game.reset(3)
    random = np.random.default_rng(0)
    for _ in range(40):
        actions = {}
        for agent, space in game.action_spaces.items():
            assert turn.observations[agent].shape == game.observation_spaces[agent].shape
            if isinstance(space, spaces.Box):
                # beyond the bounds: clipped
                actions[agent] = random.normal(0, 3, space.shape)
            else:
                allowed = np.flatnonzero(game.masks()[agent]) if game.masked else np.arange(space.n)
                actions[agent] = random.choice(allowed)
        turn = game.step(actions)
        assert list(turn.rewards) == list(turn.terminated) == game.agents
        if turn.truncated or all(turn.terminated.values()):
            break
    assert turn.truncated or all(turn.terminated.values())
    game.close()


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"algorithm": "mapo"}, "algorithm", "one of mappo"),
        ({"algorithm": "cwqmix"}, "algorithm", "cwqmix is not offered: in XuanCe 1.4.4, its first update fails"),
        ({"algorithm": "qtran_alt", "parameter_sharing": False}, "parameter_sharing", "true for QTRAN-alt"),
        (
            {"algorithm": "ippo", "parameter_sharing": False, "hyperparameters": {"use_rnn": True, "buffer_size": 8}},
            "hyperparameters.use_rnn",
            "false where the agents of IPPO do not share one network",
        ),
        ({"algorithm": "commnet", "parameter_sharing": False}, "parameter_sharing", "true for CommNet"),
        ({"algorithm": "commnet", "env_id": "simple_adversary_v3"}, "env_id", "agents with like spaces for CommNet"),
        ({"algorithm": "dcg", "env_id": "simple_speaker_listener_v4"}, "env_id", "like action spaces for DCG"),
        ({"env_id": "simple_spred_v3"}, "env_id", "simple_spread_v3"),
        ({"env_kwargs": {"M": 3}}, "env_kwargs", "arguments of simple_spread_v3"),
        ({"algorithm": "qmix", "env_kwargs": {"continuous_actions": True}}, "env_id", "discrete actions for QMIX"),
        ({"algorithm": "sac", "env_family": "gymnasium", "env_id": "CartPole-v1"}, "env_id", "box actions for SAC"),
        ({"env_family": "gymnasium", "env_id": "CartPole-v1"}, "env_id", "several agents for MAPPO"),
        ({"algorithm": "dqn"}, "env_id", "one agent for DQN"),
        ({"env_id": "simple_adversary_v3", "parameter_sharing": True}, "parameter_sharing", "unlike spaces"),
        ({"parallels": 3, "hyperparameters": {"buffer_size": 400}}, "hyperparameters.buffer_size", "such as 402"),
        ({"batch_size": 300, "hyperparameters": {"buffer_size": 400}}, "batch_size", "divides"),
        (
            {"algorithm": "perdqn", "env_family": "gymnasium", "env_id": "CartPole-v1", "batch_size": 4},
            "batch_size",
            "at least parallels (8)",
        ),
        ({"hyperparameters": {"gama": 0.9}}, "hyperparameters.gama", "gamma"),
        ({"hyperparameters": {"gamma": 1.5}}, "hyperparameters.gamma", "<= 1"),
        ({"curriculum": [{"steps": 10, "env_id": "simple_tag_v3"}]}, "curriculum[0].env_id", "agents of simple_spread"),
        ({"mode": "evaluate"}, "checkpoint", "folder of a checkpoint"),
        ({"env_family": "minigrid", "env_id": "MiniGrid-Emty-5x5-v0"}, "env_id", "MiniGrid-Empty-5x5-v0"),
        (
            {"algorithm": "maddpg", "env_family": "butterfly", "env_id": "pistonball_v6"},
            "env_id",
            "observations are vectors for MADDPG",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_field(given: dict[str, object], field: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make_config(**given)
    (error,) = raised.value.errors
    assert error.field == field
    assert allowed in error.message
    assert "\n" not in error.message


def test_images_are_shrunk_and_keep_their_colours() -> None:
    config = make_config(env_family="butterfly", env_id="pistonball_v6", env_kwargs={"n_pistons": 2}, image_size=32)
    game = make_game(config)
    shown = game.reset(1).observations["piston_0"]
    raw = game.env.observe("piston_0") if hasattr(game.env, "observe") else None
    assert shown.shape == game.observation_spaces["piston_0"].shape == (32, 32, 3)
    assert shown.min() >= 0
    assert 1 < shown.max() <= 255
    assert raw is None or abs(float(raw.mean()) - float(shown.mean())) < 1
    game.close()


def test_the_seeds_example_is_accepted() -> None:
    make_config(algorithm="mappo", learning_rate=5e-4, batch_size=256, backend="torch")


def test_session_of_a_board_game() -> None:
    session = GameSession(make_game(make_config(**TICTACTOE)))
    told = session.reset(1)
    assert told["agents"] == ["player_1"]
    told = session.step({"player_1": 8})
    assert told["agents"] == ["player_2"]
    assert not told["action_masks"]["player_2"][8]
    with pytest.raises(ValueError, match="player_2"):
        session.step({"player_1": 1})
    session.close()


def test_checking_a_config_needs_neither_torch_nor_xuance() -> None:
    """Else every submit of a run and every dry run would wait for them."""
    check = (
        "import sys; from xuance_worker.worker import XuanCeWorker;"
        "from xuance_worker.config import XuanCeWorkerConfig;"
        "worker = XuanCeWorker(); worker.describe(); worker.validate(XuanCeWorkerConfig());"
        "print([name for name in ('torch', 'xuance') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
