"""Steps per CPU-second of the Ray worker against plain RLlib scripts of the same config, an iteration of each by turns.

    ./mosaic bench ray-throughput [--only ppo_cartpole,...] [--rounds 12] [--pairs 2]

A pair is two processes; the first iterations of each are not counted. Goal: at least 0.97 of the plain script's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from typing import Any

from ray_bench import Results, environment, in_worker

CASES = ("ppo_cartpole", "dqn_cartpole", "ppo_spread", "ppo_waterworld", "ppo_tictactoe")
WARM_UP = 2
GOAL = 0.97


class Side:
    def __init__(self, side: str, case: str) -> None:
        self._process = subprocess.Popen(
            in_worker("iterating.py", side, case),
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


def pair(case: str, rounds: int) -> tuple[list[float], list[float]]:
    worker, plain = Side("worker", case), Side("plain", case)
    for _ in range(WARM_UP):
        worker.iterate(), plain.iterate()
    speeds: tuple[list[float], list[float]] = [], []
    for n in range(rounds):
        # Who goes first changes, so that neither always finds the machine as the other one left it.
        for side, kept in ((worker, speeds[0]), (plain, speeds[1]))[:: 1 if n % 2 else -1]:
            kept.append(side.iterate())
    worker.end(), plain.end()
    return speeds


def measure(case: str, pairs: int, rounds: int) -> dict[str, Any]:
    worker: list[float] = []
    plain: list[float] = []
    by_pair = []
    for _ in range(pairs):
        ours, theirs = pair(case, rounds)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=2)
    arguments = parser.parse_args()
    results = Results("ray-throughput")
    print("case | worker steps/CPU-s | plain | ratio (quartiles; each pair)")
    for case in arguments.only.split(","):
        row = measure(case, arguments.pairs, arguments.rounds)
        results.add(case, row)
        spread = f"{row['quartiles'][0]:.3f} to {row['quartiles'][1]:.3f}"
        pairs = ", ".join(f"{ratio:.3f}" for ratio in row["pairs"])
        verdict = "" if row["ratio"] >= GOAL else f"  below the goal of {GOAL}"
        print(
            f"{case} | {row['worker']:.0f} | {row['plain']:.0f} | {row['ratio']:.3f} ({spread}; {pairs}){verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
