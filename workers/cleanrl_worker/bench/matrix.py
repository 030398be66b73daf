"""Every algorithm: a tiny training to a checkpoint, a resumption from the middle, an evaluation of the end.

Run by `./mosaic bench cleanrl-matrix [ALGORITHM ...]` in the worker's own environment. These are smoke runs: they show
that something runs, not that it learns. `exact`: the resumed run ended with the same weights, bit for bit.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY, AlgorithmEntry

# By what a script has: enough for a few updates on each side of the middle.
ON_POLICY = {"num_steps": 64, "update_epochs": 1, "num_minibatches": 2}
OFF_POLICY = {"learning_starts": 60, "min_replay_history": 60, "buffer_size": 150, "batch_size": 32}
STEPS = {True: 200, False: 256}


def parameters(entry: AlgorithmEntry) -> dict[str, Any]:
    known = entry.script.flags
    wanted = {**(OFF_POLICY if entry.off_policy else ON_POLICY)}
    if not entry.off_policy and "num_envs" in known:
        wanted["num_envs"] = 2
    return {name: value for name, value in wanted.items() if name in known}


def call(folder: Path, config: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """One run of the worker: what it told, and in one line why it failed."""
    folder.mkdir(parents=True)
    path = folder / "config.json"
    path.write_bytes(msgspec.json.encode({"run_id": "matrix", **config}))
    mine = {name: value for name, value in os.environ.items() if not name.startswith("MOSAIC_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "cleanrl_worker.cli", "--config", str(path)],
        cwd=folder,
        env={**mine, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    if done.returncode == 0:
        return told, ""
    failed = [message["error"] for message in told if message["type"] == "run_failed"]
    return told, (failed or done.stderr.strip().splitlines() or ["no word"])[-1]


def checkpoints(folder: Path, told: list[dict[str, Any]]) -> list[Path]:
    return [folder / "runs" / "matrix" / message["path"] for message in told if message["type"] == "checkpoint"]


def weights_hash(checkpoint: Path) -> str:
    (file,) = checkpoint.glob("*.cleanrl_model")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def row(name: str, entry: AlgorithmEntry, folder: Path) -> dict[str, str]:
    steps = STEPS[entry.off_policy]
    extras = {"algo_params": parameters(entry), "save_replay_buffer": True}

    def config(**more: Any) -> dict[str, Any]:
        base = {"algo": name, "env_id": entry.default_env, "seed": 1, "total_timesteps": steps}
        return {**base, "extras": {**extras, **more}}

    told, failure = call(folder / "whole", config(checkpoint_interval=steps // 2))
    if failure:
        return {"train": failure, "resume": "", "evaluate": ""}
    half, last = checkpoints(folder / "whole", told)
    learned = "yes" if weights_hash(half) != weights_hash(last) else "runs, but the weights stay the same"
    told, failure = call(folder / "resumed", config(mode="resume_training", checkpoint_path=str(half)))
    resumed = failure
    if not failure:
        (end,) = checkpoints(folder / "resumed", told)
        resumed = "exact" if weights_hash(end) == weights_hash(last) else "anew"
    if entry.policy is None:
        return {"train": learned, "resume": resumed, "evaluate": "not offered"}
    _, failure = call(
        folder / "played", config(mode="policy_eval", policy_path=str(last), eval_episodes=2, deterministic=False)
    )
    return {"train": learned, "resume": resumed, "evaluate": failure or "yes"}


def main(names: list[str]) -> int:
    rows = {}
    for name in names or DEFAULT_ALGO_REGISTRY:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cleanrl-matrix-") as folder:
            rows[name] = row(name, DEFAULT_ALGO_REGISTRY[name], Path(folder))
        rows[name] |= {"environment": DEFAULT_ALGO_REGISTRY[name].default_env}
        rows[name] |= {"seconds": f"{time.monotonic() - started:.0f}"}
        cells = [name, *(rows[name][key] for key in ("environment", "train", "resume", "evaluate", "seconds"))]
        print(" | ".join(cells), flush=True)
    out = Path(os.environ["CLEANRL_MATRIX_OUT"])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))
    good = ("yes", "exact", "anew", "not offered")
    return 0 if all(row[key] in good for row in rows.values() for key in ("train", "resume", "evaluate")) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
