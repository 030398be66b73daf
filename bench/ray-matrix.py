"""Algorithm x environment x policy configuration: each cell trained through a daemon to a checkpoint and cancelled,
resumed from there to another one, and evaluated without a cluster.

    ./mosaic bench ray-matrix [--only PPO,tictactoe_v3] [--limit 12] [--again]

These are smoke runs: they show that something runs, not that it learns. What does not go together is found out by
asking the worker, which refuses it. Cells that are done are not done again; those that show most that is new (pairs of
algorithm, environment and policy configuration) come first. `--only` takes any names of a cell; `--again` repeats those
that failed.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ray_bench import Results, Trainer, ask_worker, newest_checkpoint

from mosaic.client import BadConfig, MosaicError, Run

REPLAY = {
    "num_steps_sampled_before_learning_starts": 64,
    "rollout_fragment_length": 8,
    "train_batch_size_per_learner": 32,
    "replay_buffer_config": {"capacity": 2000, "type": "EpisodeReplayBuffer"},
}
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "PPO": {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 1},
    "A2C": {},
    "DQN": REPLAY,
    "IMPALA": {"train_batch_size_per_learner": 100},
    "APPO": {"train_batch_size_per_learner": 100},
    "SAC": REPLAY,
}
GYMNASIUM = ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1")
FAMILIES: dict[str, tuple[str, ...]] = {
    "classic": ("tictactoe_v3", "connect_four_v3", "rps_v2", "chess_v6", "go_v5"),
    "mpe": ("simple_spread_v3", "simple_adversary_v3", "simple_tag_v3"),
    "sisl": ("waterworld_v4", "multiwalker_v9", "pursuit_v4"),
    "butterfly": ("knights_archers_zombies_v10", "cooperative_pong_v5", "pistonball_v6"),
}
ARGUMENTS: dict[str, dict[str, Any]] = {"go_v5": {"board_size": 5}, "pistonball_v6": {"n_pistons": 5}}
UNLIKE = ("simple_adversary_v3", "simple_tag_v3")
CONFIGURATIONS = ("PARAMETER_SHARING", "INDEPENDENT", "SELF_PLAY", "SHARED_VALUE_FUNCTION")
LONGEST_EPISODE = 60
CELL_S = 900
EVALUATIONS = "2"


class Cell(NamedTuple):
    algorithm: str
    environment: str
    configuration: str

    @property
    def key(self) -> str:
        return "/".join(self)

    def config(self) -> dict[str, Any]:
        family = next((name for name, members in FAMILIES.items() if self.environment in members), "gymnasium")
        unlike = self.environment in UNLIKE and self.configuration == "PARAMETER_SHARING"
        return {
            "environment": {
                "family": family,
                "env_id": self.environment,
                "env_kwargs": ARGUMENTS.get(self.environment, {}),
                "wrappers": {"max_steps": LONGEST_EPISODE, "pad_observations": unlike, "image_size": 32},
            },
            "policy_configuration": self.configuration,
            "training": {
                "algorithm": self.algorithm,
                "total_timesteps": 10_000_000,
                "hyperparameters": {**HYPERPARAMETERS[self.algorithm], "model_config": {"fcnet_hiddens": [16]}},
            },
            "resources": {"num_workers": 0},
            "checkpoint": {"frequency": 1, "keep": 2},
            "league": {"snapshot_every": 100, "evaluation_games": 2},
        }


def all_cells() -> list[Cell]:
    """Self-play is for games with sides; with one agent there is nothing to configure."""
    cells = [Cell(algorithm, name, CONFIGURATIONS[0]) for algorithm in HYPERPARAMETERS for name in GYMNASIUM]
    for family, names in FAMILIES.items():
        wanted = [name for name in CONFIGURATIONS if name != "SELF_PLAY" or family == "classic"]
        cells += itertools.starmap(Cell, itertools.product(HYPERPARAMETERS, names, wanted))
    return cells


def most_new_first(cells: list[Cell]) -> Iterator[Cell]:
    left, seen = list(cells), set[tuple[str, str]]()
    while left:
        best = max(left, key=lambda cell: len(set(itertools.combinations(cell, 2)) - seen))
        seen |= set(itertools.combinations(best, 2))
        left.remove(best)
        yield best


def try_cell(trainer: Trainer, cell: Cell) -> dict[str, Any]:
    try:
        run = trainer.client.submit("ray", cell.config(), name=cell.key.replace("/", "-"))
    except BadConfig as refusal:
        return {"refused": str(refusal)}
    begun, told = time.monotonic(), {"train": "no", "resume": "no", "evaluate": "no"}
    try:
        first = cancel_at_checkpoint(run, 0)
        told["train"] = "yes"
        before = newest_checkpoint(run)
        run.resume()
        second = cancel_at_checkpoint(run, first["seq"], step_of(before))
        told["resume"] = "yes" if second["step"] > step_of(before) else "began anew"
        answer = ask_worker("judging.py", str(newest_checkpoint(run)), EVALUATIONS)
        told["evaluate"] = "yes" if answer else "nothing played"
    except (MosaicError, RuntimeError) as failure:
        told["failure"] = f"{failure}"
    finally:
        if not run.refresh().ended:
            run.cancel().wait(60)
    return {**told, "seconds": time.monotonic() - begun}


def cancel_at_checkpoint(run: Run, since: int, beyond: int = 0) -> dict[str, Any]:
    """Wait for a checkpoint beyond a step and end the run there; the answer is the row that told of it."""
    deadline = time.monotonic() + CELL_S / 2
    while time.monotonic() < deadline:
        for row in run.telemetry(since, kinds=["checkpoint"]):
            if row["step"] > beyond:
                ended = run.cancel().wait(CELL_S / 2)
                if ended.state != "CANCELLED":
                    raise RuntimeError(f"{ended.state}: {ended.exit}")
                return row
        if run.refresh().ended:
            raise RuntimeError(f"{run.state}: {(run.exit or {}).get('message')}")
        time.sleep(1)
    raise RuntimeError(f"no checkpoint in {CELL_S / 2:.0f} s")


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step_"))


def is_good(row: dict[str, Any]) -> bool:
    return "refused" in row or all(row[key] == "yes" for key in ("train", "resume", "evaluate"))


def table(rows: dict[str, Any]) -> str:
    """Markdown: environments down, algorithms across, a letter for each policy configuration."""
    letters = {"PARAMETER_SHARING": "P", "INDEPENDENT": "I", "SELF_PLAY": "S", "SHARED_VALUE_FUNCTION": "V"}
    names = [*GYMNASIUM, *itertools.chain(*FAMILIES.values())]
    lines = ["| | " + " | ".join(HYPERPARAMETERS) + " |", "|---" * (len(HYPERPARAMETERS) + 1) + "|"]
    for name in names:
        cells = []
        for algorithm in HYPERPARAMETERS:
            found = ((letters[kind], rows.get(Cell(algorithm, name, kind).key)) for kind in CONFIGURATIONS)
            marks = [
                letter if is_good(row) else f"~~{letter}~~" for letter, row in found if row and "refused" not in row
            ]
            cells.append(" ".join(marks))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, all of which a cell must have")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    results = Results("ray-matrix")
    wanted = set(filter(None, arguments.only.split(",")))
    left = [cell for cell in most_new_first(all_cells()) if wanted <= set(cell)]
    left = [
        cell
        for cell in left
        if cell.key not in results.rows or (arguments.again and not is_good(results.rows[cell.key]))
    ]
    done = 0
    with tempfile.TemporaryDirectory(prefix="ray-matrix-") as folder, Trainer(Path(folder)) as trainer:
        for cell in left:
            if done >= arguments.limit:
                break
            row = try_cell(trainer, cell)
            results.add(cell.key, row)
            if "refused" not in row:
                done += 1
                print(f"{cell.key}: {', '.join(f'{key} {value}' for key, value in row.items())}", flush=True)
    print(table(results.rows))


if __name__ == "__main__":
    main()
