"""How good is a checkpoint? `judging.py CHECKPOINT GAMES`, in the worker's environment; the answer is a line of JSON.

In a game that is played in turns, the policy plays against chance, seats swapped from game to game. Any other policy
plays its environment, and so does chance, on the same seeds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mosaic.worker.estimates import mean_of, share
from xuance_worker.checkpoints import CONFIG
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.environments import make_game
from xuance_worker.games import Game, TurnGame
from xuance_worker.policy import TrainedPolicy

Choose = Callable[[Game], Mapping[str, Any]]
# Seeds that no training began with.
FIRST_SEED = 1_000_000


def judge(checkpoint: Path, games: int) -> dict[str, Any]:
    config = msgspec.convert(json.loads((checkpoint / CONFIG).read_text()), XuanCeWorkerConfig)
    policy = TrainedPolicy(checkpoint)
    game = make_game(config)
    if isinstance(game, TurnGame):
        return _against_chance(policy, game, games)
    chance = np.random.default_rng(0)
    played: dict[str, Choose] = {
        "trained": policy.actions_for_vector,
        "random": lambda game: {agent: chance.integers(game.action_spaces[agent].n) for agent in game.agents},
    }
    return {name: asdict(mean_of(_returns(game, choose, games))) for name, choose in played.items()}


def _returns(game: Game, choose: Choose, episodes: int) -> list[float]:
    """Of the team: the mean over its agents."""
    returns = []
    for number in range(episodes):
        turn, total = game.reset(FIRST_SEED + number), 0.0
        while not turn.truncated and not (turn.terminated and all(turn.terminated.values())):
            turn = game.step(choose(game))
            total += float(np.mean(list(turn.rewards.values())))
        returns.append(total)
    return returns


def _against_chance(policy: TrainedPolicy, game: Game, games: int) -> dict[str, Any]:
    chance = np.random.default_rng(0)
    rewards = []
    for number in range(games):
        ours, turn = game.agents[number % len(game.agents)], game.reset(FIRST_SEED + number)
        while not (turn.terminated and all(turn.terminated.values())):
            acting = next(agent for agent in game.agents if game.can_act[agent])
            mask = game.masks()[acting]
            if acting == ours:
                move = policy.select_action(turn.observations[acting], {"agent": acting, "action_mask": mask})
            else:
                move = int(chance.choice(np.flatnonzero(mask)))
            turn = game.step({agent: move if agent == acting else 0 for agent in game.agents})
        rewards.append(turn.rewards[ours])
    won = sum(reward > 0 for reward in rewards)
    lost = sum(reward < 0 for reward in rewards)
    return {"won": asdict(share(won, games)), "draws": games - won - lost, "losses": lost}


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints
    print(json.dumps(judge(Path(sys.argv[1]), int(sys.argv[2]))), file=out)
