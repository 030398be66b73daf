"""Does the XuanCe worker learn? Real trainings through a daemon, judged on games of their own.

    ./mosaic bench xuance-learning [--only mappo_spread,tictactoe,...] [--seeds 1,2,3] [--home FOLDER]

Results of earlier calls are kept, so that parts can be run one after another. `--home` keeps the runs. Exit code 1 if
a goal was missed: every seed's interval above that of chance and that of its own first episodes, or 80% of games won.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from worker_bench import Results, WorkerTrainer, ask_worker, newest_checkpoint

from mosaic.client import Run
from mosaic.worker.estimates import mean_of, mean_of_few

FIRST_EPISODES = 100
SHARE_TO_WIN = 0.8
BOARD = {"env_family": "classic", "env_id": "tictactoe_v3"}
OF_TWO_LAYERS = {"representation_hidden_size": [128], "q_hidden_size": [128]}
ROLLOUTS = {"buffer_size": 1600, "n_epochs": 10, "learning_rate": 0.0007}


@dataclass(frozen=True)
class Task:
    algorithm: str
    steps: int
    hyperparameters: dict[str, Any]
    environment: dict[str, Any] = field(default_factory=dict)  # empty: simple_spread_v3
    parallels: int = 8
    games: int = 200
    seeds: tuple[int, ...] = (1, 2, 3)

    def config(self, seed: int) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "total_timesteps": self.steps,
            "hyperparameters": self.hyperparameters,
            "parallels": self.parallels,
            "seed": seed,
            **self.environment,
        }


TASKS = {
    "mappo_spread": Task("mappo", 100_000, ROLLOUTS),
    "ippo_spread": Task("ippo", 80_000, {**ROLLOUTS, "buffer_size": 800}),
    # Epsilon falls over half of the budget, which is the worker's default.
    "vdn_spread": Task("vdn", 60_000, {"training_frequency": 10}, parallels=5),
    "qmix_spread": Task("qmix", 60_000, {"training_frequency": 10}, parallels=5),
    "tictactoe": Task("iql", 40_000, {"training_frequency": 10, **OF_TWO_LAYERS}, BOARD, parallels=5, games=400),
}


class Trainer(WorkerTrainer):
    worker = "xuance"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TASKS))
    parser.add_argument("--seeds", help="instead of each task's own")
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    results, missed = Results("xuance-learning"), False
    with (
        tempfile.TemporaryDirectory(prefix="xuance-learning-") as folder,
        Trainer(arguments.home or Path(folder)) as trainer,
    ):
        for name in arguments.only.split(","):
            task = TASKS[name]
            for seed in map(int, arguments.seeds.split(",")) if arguments.seeds else task.seeds:
                row = judged(trainer, task, seed, f"{name}-{seed}")
                results.add(f"{name}/{seed}", row)
                missed |= not row["reached"]
                print(f"{name} seed {seed}: {told(row)}", flush=True)
            rows = [row for key, row in results.rows.items() if key.startswith(f"{name}/")]
            print(f"{name}: {over_seeds(rows)}", flush=True)
    return int(missed)


def judged(trainer: Trainer, task: Task, seed: int, name: str) -> dict[str, Any]:
    begun = time.monotonic()
    run = trainer.train(task.config(seed), name)
    row: dict[str, Any] = {"steps": run.step, "seconds": round(time.monotonic() - begun, 1)}
    row |= ask_worker("xuance", "judging.py", str(newest_checkpoint(run)), str(task.games))
    if "won" in row:
        return {**row, "reached": row["won"]["value"] >= SHARE_TO_WIN}
    row["start"] = asdict(mean_of(first_returns(run)))
    return {**row, "reached": row["trained"]["low"] > max(row["random"]["high"], row["start"]["high"])}


def first_returns(run: Run) -> list[float]:
    """Of the episodes with which the training began."""
    return [row["episode_return"] for row in itertools.islice(run.telemetry(kinds=["episode"]), FIRST_EPISODES)]


def told(row: dict[str, Any]) -> str:
    parts = [f"{row['steps']:,} steps in {row['seconds']:.0f} s"]
    if "won" in row:
        won = row["won"]
        interval = f"{won['value']:.1%} ({won['low']:.1%} to {won['high']:.1%})"
        parts.append(f"against chance won {interval}, drawn {row['draws']}, lost {row['losses']}")
    for name in ("trained", "start", "random"):
        if name in row:
            parts.append(f"{name} {row[name]['value']:.1f} ({row[name]['low']:.1f} to {row[name]['high']:.1f})")
    return "; ".join(parts) + ("" if row["reached"] else "  missed the goal")


def over_seeds(rows: list[dict[str, Any]]) -> str:
    parts = []
    for name in ("won", "trained", "start", "random"):
        if name in rows[0]:
            found = mean_of_few(row[name]["value"] for row in rows)
            parts.append(f"{name} {found.value:.3g} ({found.low:.3g} to {found.high:.3g})")
    return f"{len(rows)} seeds: {', '.join(parts)}"


if __name__ == "__main__":
    sys.exit(main())
