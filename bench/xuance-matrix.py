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

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from worker_bench import Results, WorkerTrainer, environment, in_worker, newest_checkpoint

from mosaic.client import BadConfig, MosaicError, Run
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
CELL_S = 400
DAEMON = "daemon/"
KEYS = ("train", "resume", "evaluate")


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


@contextmanager
def in_one_process(algorithms: dict[str, Any]) -> Iterator[Callable[[Cell], dict[str, Any]]]:
    with subprocess.Popen(
        in_worker("xuance", "cells.py"), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def try_cell(cell: Cell) -> dict[str, Any]:
            print(json.dumps(cell.config(algorithms)), file=stdin, flush=True)
            row: dict[str, Any] = json.loads(stdout.readline())
            return row

        yield try_cell
        stdin.close()


@contextmanager
def through_a_daemon(algorithms: dict[str, Any]) -> Iterator[Callable[[Cell], dict[str, Any]]]:
    with tempfile.TemporaryDirectory(prefix="xuance-matrix-") as folder, Trainer(Path(folder)) as trainer:
        yield lambda cell: submit_cell(trainer, cell, cell.config(algorithms))


def submit_cell(trainer: Trainer, cell: Cell, config: dict[str, Any]) -> dict[str, Any]:
    name = cell.key.replace("/", "-").replace(", ", "-")
    training = {**config, "total_timesteps": 10_000_000, "checkpoint_every": STEPS, "keep_checkpoints": 2}
    try:
        run = trainer.client.submit("xuance", training, name=name)
    except BadConfig as refusal:
        return {"refused": str(refusal)}
    begun, told = time.monotonic(), dict.fromkeys(KEYS, "no")
    try:
        first = cancel_at_checkpoint(run, 0)
        told["train"] = "yes"
        run.resume()
        second = cancel_at_checkpoint(run, first["seq"], first["step"])
        told["resume"] = "yes" if second["attempt"] > first["attempt"] else "began anew"
        playing = {**config, "mode": "evaluate", "checkpoint": str(newest_checkpoint(run)), "episodes": 2}
        played = trainer.train(playing, f"{name}-played")
        told["evaluate"] = "yes" if len(list(played.telemetry(kinds=["episode"]))) == 2 else "nothing played"
    except (MosaicError, RuntimeError) as failure:
        told["failure"] = f"{failure}"
    finally:
        if not run.refresh().ended:
            run.cancel().wait(60)
    return {**told, "seconds": round(time.monotonic() - begun, 1)}


def cancel_at_checkpoint(run: Run, since: int, beyond: int = 0) -> dict[str, Any]:
    """Wait for a checkpoint beyond a step and end the run there; the answer is the row of its last one."""
    deadline = time.monotonic() + CELL_S / 2
    while time.monotonic() < deadline:
        for row in run.telemetry(since, kinds=["checkpoint"]):
            if row["step"] > beyond:
                ended = run.cancel().wait(CELL_S / 2)
                if ended.state != "CANCELLED":
                    raise RuntimeError(f"{ended.state}: {ended.exit}")
                *_, last = run.telemetry(kinds=["checkpoint"])
                return last
        if run.refresh().ended:
            raise RuntimeError(f"{run.state}: {(run.exit or {}).get('message')}")
        time.sleep(0.5)
    raise RuntimeError(f"no checkpoint in {CELL_S / 2:.0f} s")


def is_good(row: dict[str, Any]) -> bool:
    return "refused" in row or all(row[key] == "yes" for key in KEYS)


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


def summary(rows: dict[str, Any]) -> str:
    parts = []
    for how, wanted in (("in one process", False), ("through a daemon", True)):
        chosen = [row for key, row in rows.items() if key.startswith(DAEMON) == wanted]
        refused = sum("refused" in row for row in chosen)
        good = sum(is_good(row) for row in chosen) - refused
        parts.append(f"{how}: {good} run, {len(chosen) - good - refused} fail, {refused} refused")
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, all of which a cell must have")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--daemon", action="store_true")
    arguments = parser.parse_args()
    results = Results("xuance-matrix")
    algorithms = WorkerEnvs(Home.from_environment()).describe("xuance")["algorithms"]
    wanted = set(filter(None, arguments.only.split(",")))
    every, prefix, how = all_cells(algorithms), "", in_one_process
    cells = every
    if arguments.daemon:
        refused = {key for key, row in results.rows.items() if "refused" in row}
        how, prefix, cells = through_a_daemon, DAEMON, list(each_once([one for one in every if one.key not in refused]))
    left = [
        cell
        for cell in cells
        if wanted <= set(cell)
        and (
            prefix + cell.key not in results.rows or (arguments.again and not is_good(results.rows[prefix + cell.key]))
        )
    ]
    with how(algorithms) as try_cell:
        for cell in left[: arguments.limit]:
            row = try_cell(cell)
            results.add(prefix + cell.key, row)
            print(f"{cell.key}: {', '.join(f'{key} {value}' for key, value in row.items())}", flush=True)
    print(table(results.rows, every))
    print(summary(results.rows), f"{len(left) - len(left[: arguments.limit])} left to do", sep="; ")


if __name__ == "__main__":
    main()
