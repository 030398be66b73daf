"""What a step of a CleanRL script costs under the worker, telemetry and live frames on, against the bare script.

    ./mosaic bench cleanrl-overhead [--only ppo,dqn] [--pairs 8] [--steps 100000]

Both sides run in turns with the same config and seed, so they make the same updates; the goal is 98% of the bare
script's speed. Compared is CPU time of the script's process, since other work may share the machine: in all, and in the
quickest tenth of the updates of all runs, which noise from elsewhere reaches least (it only ever adds). Starting up is
not counted.
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
        runs: dict[str, list[list[float]]] = {"bare": [], "worker": []}
        for pair in range(arguments.pairs):
            for side in ("bare", "worker") if pair % 2 else ("worker", "bare"):
                runs[side].append(costs(side, config))
                mean, quick = statistics.mean(runs[side][-1]), quickest(runs[side][-1])
                print(f"{name} {side:<6} {mean:7.1f} us a step, in the quickest updates {quick:7.1f}", flush=True)
        row = compared(runs)
        results.add(name, row)
        print(
            f"{name}: {row['quickest']:.1%} of the bare script's speed by the quickest updates, "
            f"{row['all']:.1%} by all (median of {arguments.pairs} pairs)\n",
            flush=True,
        )


def costs(side: str, config: dict[str, Any]) -> list[float]:
    """CPU time of every update of one training, in microseconds a step."""
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
    return [1e6 * (after - before) / (b - a) for (a, before), (b, after) in itertools.pairwise(times)]


def quickest(updates: list[float]) -> float:
    return statistics.quantiles(updates, n=10)[0]


def shared_memory() -> tempfile.TemporaryDirectory[str]:
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="mosaic-bench-", dir=memory if memory.is_dir() else None)


def compared(runs: dict[str, list[list[float]]]) -> dict[str, Any]:
    """The bare script's cost by ours."""
    quick = {side: quickest([update for run in each for update in run]) for side, each in runs.items()}
    pairs = zip(runs["bare"], runs["worker"], strict=True)
    ratio = quick["bare"] / quick["worker"]
    whole = statistics.median(statistics.mean(bare) / statistics.mean(worker) for bare, worker in pairs)
    return {"quickest": ratio, "all": whole, "goal": GOAL, "reached": ratio >= GOAL, "us_a_step": quick, "runs": runs}


if __name__ == "__main__":
    main()
