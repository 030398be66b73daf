"""What the matrix benches of workers share: all cells tried in one process of the worker, or some through a daemon.

A worker has `bench/cells.py`, which reads a config a line on stdin and answers each with what became of it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker_bench import Results, WorkerTrainer, environment, in_worker

from mosaic.client import BadConfig, MosaicError, Run

CELL_S = 400
DAEMON = "daemon/"
KEYS = ("train", "resume", "evaluate")
Row = dict[str, Any]


@dataclass(frozen=True)
class Matrix:
    """A cell is a named tuple of names with a `key`."""

    trainer: type[WorkerTrainer]
    cells: list[Any]
    each_once: Callable[[list[Any]], Iterable[Any]]  # few of them, that together have all that there is
    config: Callable[[Any], dict[str, Any]]
    endless: Callable[[Any], dict[str, Any]]  # the same, with checkpoints, going on until it is cancelled
    evaluate: Callable[[WorkerTrainer, Run, Any, str], bool]  # from a run's newest checkpoint, under a name
    table: Callable[[dict[str, Row]], str]

    @property
    def worker(self) -> str:
        return self.trainer.worker


def run_matrix(matrix: Matrix, description: str) -> None:
    arguments = _arguments(description)
    results = Results(f"{matrix.worker}-matrix")
    how, prefix, cells = in_one_process, "", matrix.cells
    if arguments.daemon:
        refused = {key for key, row in results.rows.items() if "refused" in row}
        cells = list(matrix.each_once([cell for cell in cells if cell.key not in refused]))
        how, prefix = through_a_daemon, DAEMON
    wanted = set(filter(None, arguments.only.split(",")))

    def is_left(cell: Any) -> bool:
        row = results.rows.get(prefix + cell.key)
        return wanted <= set(cell) and (row is None or (arguments.again and not is_good(row)))

    left = [cell for cell in cells if is_left(cell)]
    with how(matrix) as try_cell:
        for cell in left[: arguments.limit]:
            row = try_cell(cell)
            results.add(prefix + cell.key, row)
            print(f"{cell.key}: {', '.join(f'{key} {value}' for key, value in row.items())}", flush=True)
    print(matrix.table(results.rows))
    print(_summary(results.rows), f"{len(left) - len(left[: arguments.limit])} left to do", sep="; ")


def _arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, all of which a cell must have")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--daemon", action="store_true")
    return parser.parse_args()


@contextmanager
def in_one_process(matrix: Matrix) -> Iterator[Callable[[Any], Row]]:
    command = in_worker(matrix.worker, "cells.py")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def try_cell(cell: Any) -> Row:
            print(json.dumps(matrix.config(cell)), file=stdin, flush=True)
            row: Row = json.loads(stdout.readline())
            return row

        yield try_cell
        stdin.close()


@contextmanager
def through_a_daemon(matrix: Matrix) -> Iterator[Callable[[Any], Row]]:
    prefix = f"{matrix.worker}-matrix-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, matrix.trainer(Path(folder)) as trainer:
        yield lambda cell: _submit(matrix, trainer, cell)


def _submit(matrix: Matrix, trainer: WorkerTrainer, cell: Any) -> Row:
    name = re.sub(r"[/, ]+", "-", cell.key)
    try:
        run = trainer.client.submit(matrix.worker, matrix.endless(cell), name=name)
    except BadConfig as refusal:
        return {"refused": str(refusal)}
    begun, told = time.monotonic(), dict.fromkeys(KEYS, "no")
    try:
        first = _cancel_at_checkpoint(run, 0)
        told["train"] = "yes"
        run.resume()
        second = _cancel_at_checkpoint(run, first["seq"], first["step"])
        told["resume"] = "yes" if second["attempt"] > first["attempt"] else "began anew"
        told["evaluate"] = "yes" if matrix.evaluate(trainer, run, cell, f"{name}-played") else "nothing played"
    except (MosaicError, RuntimeError) as failure:
        told["failure"] = f"{failure}"
    finally:
        if not run.refresh().ended:
            run.cancel().wait(60)
    return {**told, "seconds": round(time.monotonic() - begun, 1)}


def _cancel_at_checkpoint(run: Run, since: int, beyond: int = 0) -> Row:
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


def is_good(row: Row) -> bool:
    return "refused" in row or all(row[key] == "yes" for key in KEYS)


def _summary(rows: dict[str, Row]) -> str:
    parts = []
    for how, wanted in (("in one process", False), ("through a daemon", True)):
        chosen = [row for key, row in rows.items() if key.startswith(DAEMON) == wanted]
        refused = sum("refused" in row for row in chosen)
        good = sum(is_good(row) for row in chosen) - refused
        parts.append(f"{how}: {good} run, {len(chosen) - good - refused} fail, {refused} refused")
    return "; ".join(parts)
