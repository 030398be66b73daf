"""What the throughput benches of workers share: a worker and a plain script of the same config, in turns.

Each worker has `bench/iterating.py worker|plain CASE`, which trains an iteration for each line on stdin and answers
with its steps and CPU time. A pair is two processes; the first iterations of each are not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from typing import Any

from worker_bench import Results, environment, in_worker

WARM_UP = 2
GOAL = 0.97


class Side:
    def __init__(self, worker: str, side: str, case: str) -> None:
        self._process = subprocess.Popen(
            in_worker(worker, "iterating.py", side, case),
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # The first answer comes after the first iteration, by itself.
        self._answer()

    def iterate(self) -> float:
        """Train once; the answer is steps per CPU-second."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told = self._answer()
        return float(told["steps"] / told["cpu"])

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a side has ended with code {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        self._process.communicate()


def pair(name: str, case: str, rounds: int) -> tuple[list[float], list[float]]:
    worker, plain = Side(name, "worker", case), Side(name, "plain", case)
    for _ in range(WARM_UP):
        worker.iterate(), plain.iterate()
    speeds: tuple[list[float], list[float]] = [], []
    for n in range(rounds):
        # Who goes first changes, so that neither always finds the machine as the other one left it.
        for side, kept in ((worker, speeds[0]), (plain, speeds[1]))[:: 1 if n % 2 else -1]:
            kept.append(side.iterate())
    worker.end(), plain.end()
    return speeds


def measure(name: str, case: str, pairs: int, rounds: int) -> dict[str, Any]:
    worker: list[float] = []
    plain: list[float] = []
    by_pair = []
    for _ in range(pairs):
        ours, theirs = pair(name, case, rounds)
        worker += ours
        plain += theirs
        by_pair.append(statistics.median(one / other for one, other in zip(ours, theirs, strict=True)))
    ratios = [one / other for one, other in zip(worker, plain, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "worker": statistics.median(worker),
        "plain": statistics.median(plain),
        "ratio": middle,
        "quartiles": [low, high],
        "pairs": by_pair,
        "rounds": len(ratios),
    }


def compare(name: str, cases: tuple[str, ...], about: str | None) -> None:
    """The bench of a worker: its command line, its table, its results."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(cases))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=2)
    arguments = parser.parse_args()
    results = Results(f"{name}-throughput")
    print("case | worker steps/CPU-s | plain | ratio (quartiles; each pair)")
    for case in arguments.only.split(","):
        row = measure(name, case, arguments.pairs, arguments.rounds)
        results.add(case, row)
        spread = f"{row['quartiles'][0]:.3f} to {row['quartiles'][1]:.3f}"
        pairs = ", ".join(f"{ratio:.3f}" for ratio in row["pairs"])
        verdict = "" if row["ratio"] >= GOAL else f"  below the goal of {GOAL}"
        print(
            f"{case} | {row['worker']:.0f} | {row['plain']:.0f} | {row['ratio']:.3f} ({spread}; {pairs}){verdict}",
            flush=True,
        )
