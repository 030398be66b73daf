"""Algorithm x environment x policy configuration: each cell trained to a checkpoint, resumed from there to another
one, and evaluated without a cluster.

    ./mosaic bench ray-matrix [--only PPO,tictactoe_v3] [--limit 40] [--again] [--daemon]

These are smoke runs: they show that something runs and learns from what it played, not that it gets good. What does
not go together is found out by asking the worker, which refuses it. Cells that are done are not done again, so that
parts can be run one after another; `--again` repeats those that failed. `--only` takes any names of a cell.

All cells are trained one after another in one process of the worker, because starting one costs ten times what a cell
does. With `--daemon`, a part of them that has every environment and every pair of algorithm and policy configuration
is run as users do: submitted to a daemon, cancelled once there is a checkpoint, resumed, cancelled again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from matrix_bench import Matrix, is_good, run_matrix
from ray_bench import Trainer, ask_worker, newest_checkpoint
from worker_bench import WorkerTrainer

from mosaic.client import Run

REPLAY = {
    "num_steps_sampled_before_learning_starts": 16,
    "rollout_fragment_length": 8,
    "train_batch_size_per_learner": 8,
    "replay_buffer_config": {"capacity": 500, "type": "EpisodeReplayBuffer"},
}
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "PPO": {"train_batch_size_per_learner": 48, "minibatch_size": 24, "num_epochs": 1},
    "A2C": {},
    "DQN": REPLAY,
    "IMPALA": {"train_batch_size_per_learner": 40},
    "APPO": {"train_batch_size_per_learner": 40},
    "SAC": REPLAY,
}
# Family, environment, arguments; a name of its own where an environment comes twice.
ENVIRONMENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{name: ("gymnasium", name, {}) for name in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1")},
    **{name: ("classic", name, {}) for name in ("tictactoe_v3", "connect_four_v3", "rps_v2", "chess_v6")},
    "go_v5": ("classic", "go_v5", {"board_size": 5}),
    **{
        f"{name}": ("mpe", name, {"max_cycles": 25})
        for name in (
            "simple_v3",
            "simple_adversary_v3",
            "simple_crypto_v3",
            "simple_push_v3",
            "simple_reference_v3",
            "simple_speaker_listener_v4",
            "simple_spread_v3",
            "simple_tag_v3",
            "simple_world_comm_v3",
            "simple_formation_v1",
            "simple_line_v1",
            "collect_treasure_v1",
        )
    },
    "simple_spread_v3, 100 agents": ("mpe", "simple_spread_v3", {"N": 100, "max_cycles": 10}),
    **{name: ("sisl", name, {}) for name in ("waterworld_v4", "multiwalker_v9", "pursuit_v4")},
    **{name: ("butterfly", name, {}) for name in ("knights_archers_zombies_v10", "cooperative_pong_v5")},
    "pistonball_v6": ("butterfly", "pistonball_v6", {"n_pistons": 5}),
    "pistonball_v6, 100 agents": ("butterfly", "pistonball_v6", {"n_pistons": 100, "continuous": False}),
}
# A policy for each of a hundred agents is possible, but says nothing new.
CROWDED = {"simple_spread_v3, 100 agents", "pistonball_v6, 100 agents"}
LETTERS = {"PARAMETER_SHARING": "P", "INDEPENDENT": "I", "SELF_PLAY": "S", "SHARED_VALUE_FUNCTION": "V"}
STEPS = 48
LONGEST_EPISODE = 30
EVALUATIONS = "2"


class Cell(NamedTuple):
    algorithm: str
    environment: str
    configuration: str

    @property
    def key(self) -> str:
        return "/".join(self)

    def config(self) -> dict[str, Any]:
        family, env_id, arguments = ENVIRONMENTS[self.environment]
        return {
            "run_id": "cell",
            "environment": {
                "family": family,
                "env_id": env_id,
                "env_kwargs": arguments,
                "wrappers": {
                    "max_steps": LONGEST_EPISODE,
                    "image_size": 32,
                    "pad_observations": family == "mpe" and self.configuration == "PARAMETER_SHARING",
                },
            },
            "policy_configuration": self.configuration,
            "training": {
                "algorithm": self.algorithm,
                "total_timesteps": STEPS,
                "hyperparameters": {**HYPERPARAMETERS[self.algorithm], "model_config": {"fcnet_hiddens": [16]}},
            },
            "resources": {"num_workers": 0},
            "league": {"snapshot_every": 40, "evaluation_games": 2},
        }


def all_cells() -> list[Cell]:
    """Self-play is for games with sides; with one agent there is nothing to configure."""
    cells = []
    for name, (family, env_id, _) in ENVIRONMENTS.items():
        wanted: Iterable[str] = LETTERS
        if family != "classic":
            wanted = [kind for kind in LETTERS if kind != "SELF_PLAY"]
        if family == "gymnasium" or env_id == "simple_v3" or name in CROWDED:
            wanted = ["PARAMETER_SHARING"]
        cells += [Cell(algorithm, name, kind) for algorithm, kind in itertools.product(HYPERPARAMETERS, wanted)]
    # They take as long as all others together.
    return sorted(cells, key=lambda cell: cell.environment in CROWDED)


def each_once(cells: list[Cell]) -> Iterator[Cell]:
    """Few cells that together have every environment and every pair of algorithm and policy configuration."""
    seen: Counter[Any] = Counter()
    left = list(cells)
    while left:
        best = max(left, key=lambda cell: _news(cell, seen))
        if not _news(best, seen)[0]:
            return
        seen.update([best.environment, (best.algorithm, best.configuration), best.algorithm])
        left.remove(best)
        yield best


def _news(cell: Cell, seen: Counter[Any]) -> tuple[int, int]:
    """How much of a cell is new; among equals, the algorithm that came least often goes first."""
    new = (not seen[cell.environment]) + (not seen[cell.algorithm, cell.configuration])
    return new, -seen[cell.algorithm]


def endless(cell: Cell) -> dict[str, Any]:
    config = cell.config()
    config["training"]["total_timesteps"] = 10_000_000
    return {**config, "checkpoint": {"frequency": 1, "keep": 2}}


def evaluate(trainer: WorkerTrainer, run: Run, cell: Cell, name: str) -> bool:
    return bool(ask_worker("judging.py", str(newest_checkpoint(run)), EVALUATIONS))


def table(rows: dict[str, Any]) -> str:
    """Markdown: environments down, algorithms across, a letter for each policy configuration; struck out: failed."""
    lines = ["| | " + " | ".join(HYPERPARAMETERS) + " |", "|---" * (len(HYPERPARAMETERS) + 1) + "|"]
    for name in ENVIRONMENTS:
        cells = []
        for algorithm in HYPERPARAMETERS:
            found = ((letter, rows.get(Cell(algorithm, name, kind).key)) for kind, letter in LETTERS.items())
            marks = [
                letter if is_good(row) else f"~~{letter}~~" for letter, row in found if row and "refused" not in row
            ]
            cells.append(" ".join(marks) or "-")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_matrix(Matrix(Trainer, all_cells(), each_once, Cell.config, endless, evaluate, table), str(__doc__))
