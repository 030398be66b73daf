"""Does the CleanRL worker learn? Real trainings through a daemon, judged by the worker's own `policy_eval`.

    ./mosaic bench cleanrl-learning [--only ppo_cartpole,goto_curriculum,...] [--seeds 1,2,3] [--home FOLDER]

Results of earlier calls are kept, so that parts can be run one after another. `--home` keeps the runs. Exit code 1 if a
goal was missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker_bench import Results, WorkerTrainer, newest_checkpoint

from mosaic.cli.quickstart import TRAINING
from mosaic.client import Run

QUICKSTART = TRAINING["extras"]["algo_params"]
# BabyAI's own script trains with these: long rollouts of many environments, no decay of the learning rate.
BABYAI = {"num_envs": 16, "num_steps": 64, "learning_rate": 1e-3, "anneal_lr": False, "ent_coef": 0.01}
# Once every episode is as good as the next, normalised advantages are noise: without a bound on the divergence a policy
# that had learned an empty room unlearned it again.
MINIGRID = {"num_envs": 8, "learning_rate": 5e-4, "target_kl": 0.02}

# CleanRL's defaults take half a million steps, and not for good: a buffer of 10,000 steps soon holds no failures.
VALUES = {
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "train_frequency": 4,
    "learning_rate": 5e-4,
    "exploration_fraction": 0.3,
    "end_e": 0.02,
}
DQN = {**VALUES, "tau": 0.05, "target_network_frequency": 20}
C51 = {**VALUES, "v_min": 0, "v_max": 100}


@dataclass(frozen=True)
class Task:
    algo: str
    env_id: str
    steps: int
    goal: float  # mean return of the evaluation
    params: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1,)
    deterministic: bool = True
    curriculum: list[dict[str, Any]] | None = None

    def training(self, seed: int) -> dict[str, Any]:
        extras: dict[str, Any] = {"algo_params": self.params}
        if self.curriculum:
            extras["curriculum_schedule"] = self.curriculum
        return {**self._of(seed), "total_timesteps": self.steps, "extras": extras}

    def evaluation(self, seed: int, checkpoint: Path, episodes: int) -> dict[str, Any]:
        extras = {
            "mode": "policy_eval",
            "policy_path": str(checkpoint),
            "eval_episodes": episodes,
            "eval_batch_size": 10,
            "deterministic": self.deterministic,
        }
        return {**self._of(1000 + seed), "extras": extras}

    def _of(self, seed: int) -> dict[str, Any]:
        return {"algo": self.algo, "env_id": self.env_id, "seed": seed}


TASKS = {
    "ppo_cartpole": Task("ppo", "CartPole-v1", 500_000, 475, seeds=(1, 2, 3)),
    "ppo_quickstart": Task(
        "ppo", "CartPole-v1", TRAINING["total_timesteps"], 475, QUICKSTART, seeds=(1, 2, 3, 4, 5, 6, 7, 8)
    ),
    "dqn_cartpole": Task("dqn", "CartPole-v1", 150_000, 475, DQN, seeds=(1, 2)),
    "c51_cartpole": Task("c51", "CartPole-v1", 100_000, 475, C51, seeds=(1, 2)),
    "sac_pendulum": Task("sac_continuous_action", "Pendulum-v1", 15_000, -200, {"learning_starts": 1000}),
    "ppo_empty_5x5": Task("ppo", "MiniGrid-Empty-5x5-v0", 60_000, 0.94, MINIGRID, deterministic=False),
    "ppo_empty_8x8": Task("ppo", "MiniGrid-Empty-8x8-v0", 120_000, 0.94, MINIGRID, deterministic=False),
    "goto_curriculum": Task(
        "ppo",
        "BabyAI-GoToLocal-v0",
        400_000,
        0.5,
        BABYAI,
        deterministic=False,
        curriculum=[
            {"env_id": "BabyAI-GoToRedBallNoDists-v0", "condition": "episode_return>=0.8|steps>=150000"},
            {"env_id": "BabyAI-GoToRedBall-v0", "condition": "episode_return>=0.7|steps>=150000"},
            {"env_id": "BabyAI-GoToObj-v0", "condition": "episode_return>=0.7|steps>=150000"},
            {"env_id": "BabyAI-GoToLocal-v0"},
        ],
    ),
}


class Trainer(WorkerTrainer):
    worker = "cleanrl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TASKS))
    parser.add_argument("--seeds", help="instead of each task's own")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    results, missed = Results("cleanrl-learning"), False
    with (
        tempfile.TemporaryDirectory(prefix="cleanrl-learning-") as folder,
        Trainer(arguments.home or Path(folder)) as trainer,
    ):
        for name in arguments.only.split(","):
            task = TASKS[name]
            for seed in map(int, arguments.seeds.split(",")) if arguments.seeds else task.seeds:
                row = judged(trainer, task, seed, f"{name}-{seed}", arguments.episodes)
                results.add(f"{name}/{seed}", row)
                missed |= not row["reached"]
                print(f"{name} seed {seed}: {told(row)}", flush=True)
    return int(missed)


def judged(trainer: Trainer, task: Task, seed: int, name: str, episodes: int) -> dict[str, Any]:
    """One training and an evaluation of what it came to."""
    begun = time.monotonic()
    run = trainer.train(task.training(seed), name)
    seconds = time.monotonic() - begun
    evaluation = task.evaluation(seed, newest_checkpoint(run), episodes)
    played = trainer.train(evaluation, f"{name}-played")
    summary = last_summary(played)
    stages = [row["name"] for row in run.telemetry(kinds=["stage"])]
    return {
        "steps": run.step,
        "seconds": round(seconds, 1),
        "return": summary["return"],
        "episodes": summary["episodes"],
        "goal": task.goal,
        "reached": summary["return"]["mean"] >= task.goal and len(stages) == len(task.curriculum or ()),
        "stages": [(row["name"], row["step"]) for row in run.telemetry(kinds=["stage"])],
    }


def last_summary(run: Run) -> dict[str, Any]:
    (completed,) = run.telemetry(kinds=["run_completed"])
    summary: dict[str, Any] = completed["summary"]
    return summary


def told(row: dict[str, Any]) -> str:
    found, (low, high) = row["return"]["mean"], row["return"]["ci95"]
    verdict = "" if row["reached"] else f"  missed the goal of {row['goal']}"
    stages = "".join(f"; {name} from step {step:,}" for name, step in row["stages"])
    return (
        f"{row['steps']:,} steps in {row['seconds']:.0f} s; return {found:.2f} ({low:.2f} to {high:.2f}, "
        f"{row['episodes']} episodes){stages}{verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
