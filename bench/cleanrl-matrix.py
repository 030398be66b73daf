"""Every CleanRL algorithm through a daemon: a tiny training to a checkpoint, a resumption from the middle, and an
evaluation of the end.

    ./mosaic bench cleanrl-matrix [ALGORITHM ...] [--missing] [--home FOLDER]

These are smoke runs: they show that something runs, not that it learns. `exact`: the resumed run ended with the same
weights, bit for bit, as the uninterrupted one; `anew`: its environments began new episodes. Rows of earlier calls are
kept; `--missing` does only what has no good one yet. Exit code 1 if something failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worker_bench import Results, WorkerTrainer, newest_checkpoint

from mosaic.client import BadConfig, Run

# By what a script has: enough for a few updates on each side of the middle.
ON_POLICY = {
    "num_envs": 2,
    "num_steps": 16,
    "update_epochs": 1,
    "num_minibatches": 2,
    "num_iterations_obs_norm_init": 1,
    "n_iteration": 2,
    "num_aux_rollouts": 1,
    "e_auxiliary": 1,
}
OFF_POLICY = {"learning_starts": 60, "min_replay_history": 60, "buffer_size": 150, "batch_size": 32}
STEPS = {"on": 128, "off": 200}
# Beside every algorithm in its default environment: the families of environments that are nobody's default.
MORE = {
    "ppo": ("LunarLander-v2", "FrozenLake-v1", "MiniGrid-Empty-5x5-v0", "BabyAI-GoToRedBall-v0"),
    "dqn": ("MiniGrid-Empty-5x5-v0",),
    "ppo_continuous_action": ("Hopper-v4", "dm_control/cartpole-balance-v0"),
    "td3_continuous_action": ("BipedalWalker-v3",),
    "sac_continuous_action": ("dm_control/reacher-easy-v0",),
}
# Two untrained players of Pong are at it for a quarter of an hour; this game has an end.
INSTEAD = {"ppo_pettingzoo_ma_atari": "boxing_v2"}
TEACHER = "dqn_atari"
GOOD = ("yes", "exact", "anew")


class Trainer(WorkerTrainer):
    worker = "cleanrl"
    teacher: Path | None = None


class Failed(Exception):
    pass


class Cell:
    """One algorithm in one environment."""

    def __init__(self, trainer: Trainer, name: str, algorithm: dict[str, Any], environment: str) -> None:
        self._trainer, self._name, self._environment = trainer, name, environment
        off_policy = algorithm["facts"]["replay_buffer"]
        self.steps = STEPS["off" if off_policy else "on"]
        known = algorithm["params_schema"]["properties"]
        wanted = OFF_POLICY if off_policy else ON_POLICY
        self.params: dict[str, Any] = {name: value for name, value in wanted.items() if name in known}
        if "teacher" in known:
            self.params["teacher"] = str(trainer.teacher)

    def run(self, what: str, **extras: Any) -> Run:
        config = {
            "algo": self._name,
            "env_id": self._environment,
            "seed": 1,
            "total_timesteps": self.steps,
            "extras": {"algo_params": self.params, "save_replay_buffer": True, **extras},
        }
        name = f"{self._name}-{self._environment}-{what}".replace("/", "-")
        try:
            run = self._trainer.client.submit("cleanrl", config, name=name).wait()
        except BadConfig as error:
            raise Failed(str(error)) from None
        if run.state != "SUCCEEDED":
            raise Failed(run.exit["message"] if run.exit else run.state)
        return run

    def judged(self) -> Iterator[tuple[str, str]]:
        try:
            trained = self.run("trained", checkpoint_interval=self.steps // 2)
        except Failed as failure:
            yield "train", str(failure)
            return
        half, *_, last = sorted((trained.folder / "checkpoints").glob("step_*"))
        yield "train", "yes" if weights(half) != weights(last) else "runs, but the weights stay the same"
        try:
            resumed = self.run("resumed", mode="resume_training", checkpoint_path=str(half))
            yield "resume", "exact" if weights(newest_checkpoint(resumed)) == weights(last) else "anew"
        except Failed as failure:
            yield "resume", str(failure)
        try:
            self.run("played", mode="policy_eval", policy_path=str(last), eval_episodes=2, deterministic=False)
            yield "evaluate", "yes"
        except Failed as failure:
            yield "evaluate", str(failure)


def weights(checkpoint: Path) -> str:
    files: dict[str, str] = json.loads((checkpoint / "card.json").read_bytes())["files"]
    (digest,) = (digest for name, digest in files.items() if name.endswith(".cleanrl_model"))
    return digest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", metavar="ALGORITHM")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    results, fine = Results("cleanrl-matrix"), True
    with (
        tempfile.TemporaryDirectory(prefix="cleanrl-matrix-") as folder,
        Trainer(arguments.home or Path(folder)) as trainer,
    ):
        algorithms = trainer.client.worker("cleanrl")["algorithms"]
        for name in arguments.algorithms or algorithms:
            default = INSTEAD.get(name, algorithms[name]["facts"]["default_env"])
            for environment in (default, *MORE.get(name, ())):
                key = f"{name} | {environment}"
                if not (arguments.missing and is_good(results.rows.get(key, {}))):
                    results.add(key, row(trainer, algorithms, name, environment))
                    fine &= is_good(results.rows[key])
                    print(" | ".join([key, *results.rows[key].values()]), flush=True)
    return 0 if fine else 1


def row(trainer: Trainer, algorithms: dict[str, Any], name: str, environment: str) -> dict[str, str]:
    if "teacher" in algorithms[name]["params_schema"]["properties"] and trainer.teacher is None:
        cell = Cell(trainer, TEACHER, algorithms[TEACHER], environment)
        trainer.teacher = newest_checkpoint(cell.run("teacher"))
    begun = time.monotonic()
    found = dict(Cell(trainer, name, algorithms[name], environment).judged())
    return {**found, "seconds": f"{time.monotonic() - begun:.0f}"}


def is_good(row: dict[str, str]) -> bool:
    return all(row.get(column) in GOOD for column in ("train", "resume", "evaluate"))


if __name__ == "__main__":
    sys.exit(main())
