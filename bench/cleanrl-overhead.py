"""What a step of a CleanRL script costs under the worker, telemetry and live frames on, against the bare script.

    ./mosaic bench cleanrl-overhead [--only ppo,dqn] [--pairs 8] [--steps 100000]

Both sides run in turns with the same config and seed, so they make the same updates; the goal is 98% of the bare
script's speed. Compared is CPU time of the script's process, since other work may share the machine: in all, and as the
median update, which noise from elsewhere does not reach. Starting up is not counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from worker_bench import Results, environment, in_worker

GOAL = 0.98
SCRIPTS: dict[str, dict[str, Any]] = {
    "ppo": {"algo": "ppo_upstream", "env_id": "CartPole-v1"},
    "dqn": {"algo": "dqn", "env_id": "CartPole-v1", "extras": {"algo_params": {"learning_starts": 1000}}},
}
# The first updates warm up.
SKIPPED = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SCRIPTS))
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100_000)
    arguments = parser.parse_args()
    results = Results("cleanrl-overhead")
    for name in arguments.only.split(","):
        config = {"run_id": "overhead", "seed": 1, "total_timesteps": arguments.steps, **SCRIPTS[name]}
        costs: dict[str, list[tuple[float, float]]] = {"bare": [], "worker": []}
        for pair in range(arguments.pairs):
            for side in ("bare", "worker") if pair % 2 else ("worker", "bare"):
                costs[side].append(cost(side, config))
                total, median = costs[side][-1]
                print(
                    f"{name} {side:<6} {total * 1e6:7.1f} us a step, in the median update {median * 1e6:7.1f}",
                    flush=True,
                )
        row = compared(costs)
        results.add(name, row)
        print(
            f"{name}: {row['total']:.1%} of the bare script's speed, by the median update {row['median']:.1%}\n",
            flush=True,
        )


def cost(side: str, config: dict[str, Any]) -> tuple[float, float]:
    """CPU seconds a step: over the whole training, and in its median update."""
    with tempfile.TemporaryDirectory(prefix="cleanrl-overhead-") as folder, shared_memory() as lane:
        path, out = Path(folder) / "config.json", Path(folder) / "times.json"
        path.write_text(json.dumps(config))
        variables = {**environment(), "MOSAIC_FASTLANE_DIR": lane}
        command = in_worker("cleanrl", "overhead.py", side, str(path), str(out))
        done = subprocess.run(
            command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
        times = json.loads(out.read_bytes())
    times = times[int(len(times) * SKIPPED) :]
    (first_step, first), (last_step, last) = times[0], times[-1]
    updates = [(after - before) / (b - a) for (a, before), (b, after) in itertools.pairwise(times)]
    return (last - first) / (last_step - first_step), statistics.median(updates)


def shared_memory() -> tempfile.TemporaryDirectory[str]:
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="mosaic-bench-", dir=memory if memory.is_dir() else None)


def compared(costs: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """The bare script's cost by ours: the median over the pairs, each of two runs that followed each other."""
    ratios = [
        [b / w for b, w in zip(bare, worker, strict=True)]
        for bare, worker in zip(costs["bare"], costs["worker"], strict=True)
    ]
    total, median = (statistics.median(column) for column in zip(*ratios, strict=True))
    return {"total": total, "median": median, "goal": GOAL, "reached": median >= GOAL, "costs": costs}


if __name__ == "__main__":
    main()
