"""Algorithm x environment: each cell trained to a checkpoint, resumed from there to another one, and evaluated.

    ./mosaic bench xuance-matrix [--only mappo,tictactoe_v3] [--limit 40] [--again] [--daemon]

These are smoke runs: they show that something runs and learns from what it played, not that it gets good. What does
not go together is found out by asking the worker, which refuses it. Cells that are done are not done again, so that
parts can be run one after another; `--again` repeats those that failed. `--only` takes any names of a cell.

All cells are trained one after another in one process of the worker, because starting one costs several times what a
cell does. With `--daemon`, a part of them that has every algorithm and every environment is run as users do: submitted
to a daemon, cancelled once there is a checkpoint, resumed, cancelled again, and evaluated by another run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from matrix_bench import DAEMON, Matrix, is_good, run_matrix
from worker_bench import WorkerTrainer, newest_checkpoint

from mosaic.client import Run
from mosaic.envs import WorkerEnvs
from mosaic.paths import Home

# Family, environment, arguments; a name of its own where an environment comes twice.
ENVIRONMENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "simple_spread_v3": ("mpe", "simple_spread_v3", {"max_cycles": 25, "continuous_actions": False}),
    "simple_spread_v3, box": ("mpe", "simple_spread_v3", {"max_cycles": 25, "continuous_actions": True}),
    "simple_adversary_v3": ("mpe", "simple_adversary_v3", {"max_cycles": 25, "continuous_actions": False}),
    "simple_adversary_v3, box": ("mpe", "simple_adversary_v3", {"max_cycles": 25, "continuous_actions": True}),
    "simple_speaker_listener_v4": ("mpe", "simple_speaker_listener_v4", {"max_cycles": 25}),
    "simple_tag_v3": ("mpe", "simple_tag_v3", {"max_cycles": 25}),
    "multiwalker_v9": ("sisl", "multiwalker_v9", {}),
    "pursuit_v5": ("sisl", "pursuit_v5", {}),
    "knights_archers_zombies_v11": ("butterfly", "knights_archers_zombies_v11", {}),
    "pistonball_v6": ("butterfly", "pistonball_v6", {"n_pistons": 5, "continuous": False}),
    "pistonball_v6, box": ("butterfly", "pistonball_v6", {"n_pistons": 5, "continuous": True}),
    "cooperative_pong_v6": ("butterfly", "cooperative_pong_v6", {}),
    **{name: ("classic", name, {}) for name in ("tictactoe_v3", "connect_four_v3", "leduc_holdem_v4", "rps_v2")},
    "CartPole-v1": ("gymnasium", "CartPole-v1", {}),
    "Pendulum-v1": ("gymnasium", "Pendulum-v1", {}),
    "FrozenLake-v1": ("gymnasium", "FrozenLake-v1", {}),
    "MiniGrid-Empty-5x5-v0": ("minigrid", "MiniGrid-Empty-5x5-v0", {}),
}
ALONE = ("gymnasium", "minigrid")
# What makes a run small, where the algorithm has it.
SMALL: dict[str, Any] = {"horizon_size": 16, "n_epochs": 1, "start_training": 16, "training_frequency": 4}
BUFFERS = {True: 32, False: 200}  # on-policy or not, in steps
EPISODES_KEPT = {True: 2, False: 20}
LONGEST_EPISODE = 15
STEPS = 80


class Cell(NamedTuple):
    algorithm: str
    environment: str

    @property
    def key(self) -> str:
        return "/".join(self)

    def config(self, algorithms: dict[str, Any]) -> dict[str, Any]:
        family, env_id, arguments = ENVIRONMENTS[self.environment]
        described = algorithms[self.algorithm]
        known = described["params_schema"]["properties"]
        on_policy, facts = described["facts"]["on_policy"], described["facts"]
        sizes = EPISODES_KEPT if facts["memory"] == "always" else BUFFERS
        parameters = {name: value for name, value in SMALL.items() if name in known}
        if "buffer_size" in known:
            parameters["buffer_size"] = sizes[on_policy]
        return {
            "run_id": "cell",
            "algorithm": self.algorithm,
            "env_family": family,
            "env_id": env_id,
            "env_kwargs": arguments,
            "batch_size": None if on_policy else 4,
            "parallels": 2,
            "max_steps": LONGEST_EPISODE,
            "image_size": 36,
            "total_timesteps": STEPS,
            "report_every": 16,
            "hyperparameters": parameters,
        }


class Trainer(WorkerTrainer):
    worker = "xuance"


def all_cells(algorithms: dict[str, Any]) -> list[Cell]:
    """One agent's algorithms on one agent's environments, teams' on teams'."""
    cells = []
    for name, described in algorithms.items():
        alone = described["facts"]["paradigm"] == "single_agent"
        for place, (family, *_) in ENVIRONMENTS.items():
            if alone == (family in ALONE):
                cells.append(Cell(name, place))
    return cells


def each_once(cells: list[Cell]) -> Iterator[Cell]:
    """Few cells that together have every algorithm and every environment; each environment as seldom as possible."""
    count = {cell.environment: 0 for cell in cells}
    for algorithm in dict.fromkeys(cell.algorithm for cell in cells):
        best = min((cell for cell in cells if cell.algorithm == algorithm), key=lambda cell: count[cell.environment])
        count[best.environment] += 1
        yield best
    for place, times in count.items():
        if not times:
            yield next(cell for cell in cells if cell.environment == place)


def mark(rows: dict[str, Any], cell: Cell) -> str:
    row, submitted = rows.get(cell.key), rows.get(DAEMON + cell.key)
    if row is None:
        return ""
    if "refused" in row:
        return "-"
    if not is_good(row) or (submitted and not is_good(submitted)):
        return "fails"
    return "**yes**" if submitted else "yes"


def table(rows: dict[str, Any], cells: list[Cell]) -> str:
    """Markdown: algorithms down, environments across. In bold: through a daemon too. -: refused."""
    lines = []
    for alone in (False, True):
        across = [name for name, (family, *_) in ENVIRONMENTS.items() if alone == (family in ALONE)]
        down = dict.fromkeys(cell.algorithm for cell in cells if cell.environment in across)
        lines += ["| | " + " | ".join(across) + " |", "|---" * (len(across) + 1) + "|"]
        lines += [
            f"| `{name}` | " + " | ".join(mark(rows, Cell(name, where)) for where in across) + " |" for name in down
        ]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    algorithms = WorkerEnvs(Home.from_environment()).describe("xuance")["algorithms"]
    cells = all_cells(algorithms)

    def config(cell: Cell) -> dict[str, Any]:
        return cell.config(algorithms)

    def endless(cell: Cell) -> dict[str, Any]:
        return {**config(cell), "total_timesteps": 10_000_000, "checkpoint_every": STEPS, "keep_checkpoints": 2}

    def evaluate(trainer: WorkerTrainer, run: Run, cell: Cell, name: str) -> bool:
        playing = {"mode": "evaluate", "checkpoint": str(newest_checkpoint(run)), "episodes": 2}
        played = trainer.train({**config(cell), **playing}, name)
        return len(list(played.telemetry(kinds=["episode"]))) == 2

    matrix = Matrix(Trainer, cells, each_once, config, endless, evaluate, lambda rows: table(rows, cells))
    run_matrix(matrix, str(__doc__))


if __name__ == "__main__":
    main()
