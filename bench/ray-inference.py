"""One action of the Ray worker's policies against RLlib's own module in eval mode, and from a new process to its first.

    ./mosaic bench ray-inference [--starts 7]

Goals: at least as fast as RLlib's module; under 2 s from a new process to its first action.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ray_bench import Results, Trainer, ask_worker, environment, in_worker, newest_checkpoint

GOAL_S = 2.0
OBSERVATION = [0.1, 0.0, -0.05, 0.0]
SMALL_NETWORK = {"fcnet_hiddens": [64, 64]}
# Vectors with few and with continuous actions, a mask, an image.
POLICIES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "PPO CartPole": ("gymnasium", "CartPole-v1", "PPO", {"model_config": SMALL_NETWORK}),
    "DQN CartPole": ("gymnasium", "CartPole-v1", "DQN", {}),
    "PPO waterworld": ("sisl", "waterworld_v4", "PPO", {"model_config": SMALL_NETWORK}),
    "PPO connect four": ("classic", "connect_four_v3", "PPO", {"model_config": SMALL_NETWORK}),
    "PPO cooperative pong": ("butterfly", "cooperative_pong_v5", "PPO", {"minibatch_size": 16, "num_epochs": 1}),
}
STEPS = {"PPO cooperative pong": 60}


def config(name: str) -> dict[str, Any]:
    family, env_id, algorithm, parameters = POLICIES[name]
    steps = STEPS.get(name, 300)
    batch = 32 if algorithm == "DQN" else steps
    return {
        "environment": {"family": family, "env_id": env_id},
        "training": {
            "algorithm": algorithm,
            "total_timesteps": steps,
            "hyperparameters": {**parameters, "train_batch_size_per_learner": batch},
        },
        "resources": {"num_workers": 0},
    }


def first_action_s(checkpoint: Path) -> tuple[float, float]:
    """Wall-clock and CPU time of a process that loads a policy and acts once."""
    begun, before = time.monotonic(), os.times()
    command = in_worker("first_action.py", str(checkpoint), json.dumps(OBSERVATION))
    subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - begun, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=7)
    arguments = parser.parse_args()
    results = Results("ray-inference")
    with tempfile.TemporaryDirectory(prefix="ray-inference-") as folder, Trainer(Path(folder)) as trainer:
        checkpoints = {name: newest_checkpoint(trainer.train(config(name), name)) for name in POLICIES}
        print("policy | worker, us | RLlib, us | times as fast (quartiles)")
        for name, checkpoint in checkpoints.items():
            row = ask_worker("inferring.py", str(checkpoint))
            results.add(name, row)
            low, high = row["quartiles"]
            cells = f"{row['worker_us']:.0f} | {row['rllib_us']:.0f} | {row['faster']:.1f} ({low:.1f} to {high:.1f})"
            print(f"{name} | {cells}", flush=True)
        starts = [first_action_s(checkpoints["PPO CartPole"]) for _ in range(arguments.starts)]
    wall, cpu = (statistics.median(values) for values in zip(*starts, strict=True))
    results.add("first action", {"wall_s": wall, "cpu_s": cpu, "starts": starts})
    verdict = "" if wall < GOAL_S else f"  not under the goal of {GOAL_S:.0f} s"
    print(f"from a new process to its first action: {wall:.2f} s, {cpu:.2f} s of CPU time{verdict}")


if __name__ == "__main__":
    main()
