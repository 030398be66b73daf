"""Does the Ray worker learn? Real trainings through a daemon, judged on games of their own.

    ./mosaic bench ray-learning [--only ppo_cartpole,tictactoe,...] [--seeds 0,1,2] [--steps N] [--home FOLDER]

Results of earlier calls are kept, so that parts can be run one after another. `--home` keeps the runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ray_bench import Results, Trainer, ask_worker, newest_checkpoint

ONE_PROCESS = {"num_workers": 0, "num_envs_per_worker": 8}
MANY_GAMES = {"num_workers": 0, "num_envs_per_worker": 32}
SMALL_NETWORK = {"fcnet_hiddens": [64, 64]}
BOARD_GAME = {
    # Falling: what is left at the end are small mistakes.
    "lr": [[0, 0.001], [300_000, 0.0001]],
    "train_batch_size_per_learner": 4000,
    "minibatch_size": 512,
    "num_epochs": 6,
    "entropy_coeff": 0.01,
    "lambda_": 0.95,
    "model_config": {"fcnet_hiddens": [128, 128]},
}
# Half of the games against random play: who only meets what cannot be beaten learns to draw, not to punish mistakes.
LEAGUE = {"snapshot_every": 15_000, "opponents": 2, "random_opponents": 2}
TOGETHER = {
    "lr": 0.0005,
    "train_batch_size_per_learner": 2000,
    "minibatch_size": 500,
    "num_epochs": 8,
    "entropy_coeff": 0.01,
    "lambda_": 0.95,
    "gamma": 0.95,
    # By default, RLlib cuts off errors of the value function beyond 10, and with them what it could learn from.
    "vf_clip_param": 10_000.0,
    "model_config": SMALL_NETWORK,
}


@dataclass(frozen=True)
class Task:
    environment: dict[str, Any]
    algorithm: str
    steps: int
    hyperparameters: dict[str, Any]
    policies: str = "PARAMETER_SHARING"
    games: int = 200
    seeds: tuple[int, ...] = (0,)
    resources: dict[str, Any] = field(default_factory=lambda: dict(ONE_PROCESS))
    league: dict[str, Any] = field(default_factory=dict)

    def config(self, seed: int) -> dict[str, Any]:
        training = {
            "algorithm": self.algorithm,
            "total_timesteps": self.steps,
            "hyperparameters": self.hyperparameters,
            "seed": seed,
        }
        content: dict[str, Any] = {
            "environment": self.environment,
            "policy_configuration": self.policies,
            "training": training,
            "resources": self.resources,
        }
        return {**content, "league": self.league} if self.league else content


CARTPOLE = {"family": "gymnasium", "env_id": "CartPole-v1"}
SPREAD = {"family": "mpe", "env_id": "simple_spread_v3", "env_kwargs": {"max_cycles": 25}}
TASKS = {
    "ppo_cartpole": Task(
        CARTPOLE,
        "PPO",
        150_000,
        {
            "lr": 0.0003,
            "train_batch_size_per_learner": 2000,
            "num_epochs": 10,
            "lambda_": 0.95,
            "vf_clip_param": 10_000.0,
            "model_config": SMALL_NETWORK,
        },
        games=100,
    ),
    "a2c_cartpole": Task(CARTPOLE, "A2C", 150_000, {}, games=100),
    "tictactoe": Task(
        {"family": "classic", "env_id": "tictactoe_v3"},
        "PPO",
        300_000,
        BOARD_GAME,
        "SELF_PLAY",
        resources=MANY_GAMES,
        league=LEAGUE,
    ),
    "connect_four": Task(
        {"family": "classic", "env_id": "connect_four_v3"},
        "PPO",
        300_000,
        BOARD_GAME,
        "SELF_PLAY",
        resources=MANY_GAMES,
        league=LEAGUE,
    ),
    "spread_independent": Task(SPREAD, "PPO", 200_000, TOGETHER, "INDEPENDENT", seeds=(0, 1, 2), resources=MANY_GAMES),
    "spread_shared_value": Task(
        SPREAD, "PPO", 200_000, TOGETHER, "SHARED_VALUE_FUNCTION", seeds=(0, 1, 2), resources=MANY_GAMES
    ),
    "waterworld": Task({"family": "sisl", "env_id": "waterworld_v4"}, "PPO", 100_000, TOGETHER, games=20),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TASKS))
    parser.add_argument("--seeds", help="instead of each task's own")
    parser.add_argument("--steps", type=int, help="instead of each task's own")
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    results = Results("ray-learning")
    with (
        tempfile.TemporaryDirectory(prefix="ray-learning-") as folder,
        Trainer(arguments.home or Path(folder)) as trainer,
    ):
        for name in arguments.only.split(","):
            task = replace(TASKS[name], steps=arguments.steps or TASKS[name].steps)
            for seed in map(int, arguments.seeds.split(",")) if arguments.seeds else task.seeds:
                begun = time.monotonic()
                run = trainer.train(task.config(seed), f"{name}-{seed}")
                recent = run.metrics("episode_return_mean").values[-1]
                row = {"steps": run.step, "recent_return": recent, "seconds": time.monotonic() - begun}
                row |= ask_worker("judging.py", str(newest_checkpoint(run)), str(task.games))
                results.add(f"{name}/{seed}", row)
                print(f"{name} seed {seed}: {told(row)}", flush=True)


def told(row: dict[str, Any]) -> str:
    parts = [f"{row['steps']:,} steps, return while training {row['recent_return']:.1f}"]
    for name in ("against_random", "against_first"):
        if name in row:
            rate, record = row[name]["win_rate"], row[name]
            interval = f"{rate['value']:.0%} ({rate['low']:.0%} to {rate['high']:.0%})"
            parts.append(f"{name.replace('_', ' ')} won {interval}, drawn {record['draws']}, lost {record['losses']}")
    for name in ("trained", "random"):
        if name in row:
            parts.append(f"{name} {row[name]['value']:.1f} ({row[name]['low']:.1f} to {row[name]['high']:.1f})")
    return "; ".join(parts)


if __name__ == "__main__":
    main()
