"""It learns: clearly better than chance, over several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Train, make_config
from xuance_worker.environments import make_game
from xuance_worker.games import Game

SEEDS = (1, 2, 3)
SPREAD: dict[str, dict[str, Any]] = {
    "mappo": {"total_timesteps": 40_000, "hyperparameters": {"n_epochs": 5, "buffer_size": 800}},
    "ippo": {"total_timesteps": 40_000, "hyperparameters": {"n_epochs": 5, "buffer_size": 800}},
    "vdn": {"total_timesteps": 30_000, "hyperparameters": {"training_frequency": 10}, "parallels": 5},
}


def interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95% interval."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return float(np.mean(values)), 1.96 * spread / len(values) ** 0.5


def random_returns(episodes: int) -> list[float]:
    game = make_game(make_config())
    random = np.random.default_rng(0)
    returns = []
    for number in range(episodes):
        turn, total = game.reset(number), 0.0
        while not turn.truncated:
            turn = game.step({agent: random.integers(5) for agent in game.agents})
            total += float(np.mean(list(turn.rewards.values())))
        returns.append(total)
    return returns


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("algorithm", SPREAD)
def test_teams_learn_to_spread(train: Train, algorithm: str, capsys: pytest.CaptureFixture[str]) -> None:
    starts, ends = [], []
    for seed in SEEDS:
        told = train(make_config(algorithm=algorithm, seed=seed, **SPREAD[algorithm]))
        returns = [episode["episode_return"] for episode in told.episodes]
        starts.append(float(np.mean(returns[:100])))
        ends.append(float(np.mean(returns[-100:])))
    chance, chance_width = interval(random_returns(200))
    (start, _), (end, width) = interval(starts), interval(ends)
    with capsys.disabled():
        print(f"\n{algorithm}: random {chance:.1f}±{chance_width:.1f}, start {start:.1f}, end {end:.1f}±{width:.1f}")
    assert min(ends) > max(starts)
    assert end - width > chance + chance_width


def share_won(policy: Any, game: Game, games: int) -> float:
    """Of the games against a player who moves by chance, seats swapped from game to game."""
    random = np.random.default_rng(0)
    won = 0.0
    for number in range(games):
        ours, turn = game.agents[number % 2], game.reset(number)
        while not (turn.terminated and all(turn.terminated.values())):
            acting = next(agent for agent in game.agents if game.can_act[agent])
            mask = game.masks()[acting]
            if acting == ours:
                move = policy.select_action(turn.observations[acting], {"agent": acting, "action_mask": mask})
            else:
                move = int(random.choice(np.flatnonzero(mask)))
            turn = game.step({agent: move if agent == acting else 0 for agent in game.agents})
        won += turn.rewards[ours] > 0
    return won / games


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_iql_wins_at_tictactoe(train: Train, capsys: pytest.CaptureFixture[str]) -> None:
    from xuance_worker.policy import TrainedPolicy

    config = make_config(
        algorithm="iql",
        env_family="classic",
        env_id="tictactoe_v3",
        seed=1,
        parallels=5,
        total_timesteps=40_000,
        report_every=10_000,
        hyperparameters={"training_frequency": 10, "q_hidden_size": [128], "representation_hidden_size": [128]},
    )
    checkpoint: Path = train(config).last_checkpoint
    share = share_won(TrainedPolicy(checkpoint), make_game(config), 200)
    with capsys.disabled():
        print(f"\ntictactoe: {share:.0%} won against chance")
    assert share >= 0.8
