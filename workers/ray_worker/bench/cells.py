"""One side of the matrix: trains many small runs in one process, in the worker's environment.

Each line on stdin is a config; the answer is a line of JSON. A cell is refused by the worker's own checks, or is
trained to a checkpoint, resumed from there to another one, and evaluated from that one. Iterations end as soon as
the budget is used up, which the off-policy and asynchronous algorithms would otherwise exceed by far.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mosaic.worker import ConfigError
from mosaic.worker.checkpoints import latest, verify
from mosaic.worker.config import build_config
from mosaic.worker.control import Control
from mosaic.worker.run import Run, RunPlace
from mosaic.worker.telemetry import Stream, TelemetryEmitter
from ray_worker import EvaluationConfig, RayPolicyConfig, create_ray_actor, run_evaluation
from ray_worker.cluster import own_cluster
from ray_worker.config import RayWorkerConfig, ResourceConfig
from ray_worker.runtime import RayWorkerRuntime
from ray_worker.worker import RayWorker

EPISODES = 2


def keep_iterations_brief() -> None:
    # Not at the top: Ray reads its settings on import, and they are made with the cluster.
    from ray_worker import building

    build = building.build_config

    def build_brief(config: RayWorkerConfig, *others: Any) -> Any:
        steps = config.training.total_timesteps
        return build(config, *others).reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=steps)

    building.build_config = build_brief


class Listener(TelemetryEmitter):
    """Keeps what the learners say."""

    def __init__(self) -> None:
        super().__init__(Stream(os.open(os.devnull, os.O_WRONLY)))
        self.losses: dict[str, float] = {}

    def metric(self, step: int, values: Mapping[str, Any]) -> None:
        self.losses |= {name: value for name, value in values.items() if name.startswith("learner/")}
        super().metric(step, values)


def train(config: RayWorkerConfig, folder: Path, resume: Path | None = None) -> tuple[Path, int]:
    """Train to the end of the budget; the answer is the checkpoint and its step."""
    place = RunPlace(config.run_id, folder, 2 if resume else 1, resume, supervised=False)
    listener = Listener()
    run = Run(place, worker="ray", telemetry=listener, control=Control(supervised=False))
    RayWorkerRuntime(config, run).train()
    listener.close()
    if not any(map(math.isfinite, listener.losses.values())):
        raise RuntimeError("nothing was learned")
    checkpoint = latest(folder)
    assert checkpoint is not None
    return checkpoint, verify(checkpoint).step


def try_cell(content: Mapping[str, Any]) -> dict[str, Any]:
    told = {"train": "no", "resume": "no", "evaluate": "no"}
    try:
        config = build_config(RayWorkerConfig, RayWorker().describe(), dict(content))
        RayWorker().validate(config)
    except ConfigError as refusal:
        return {"refused": str(refusal)}
    with tempfile.TemporaryDirectory(prefix="ray-cell-") as folder:
        try:
            first, step = train(config, Path(folder))
            told["train"] = "yes"
            longer = replace(config.training, total_timesteps=step + config.training.total_timesteps)
            second, further = train(replace(config, training=longer), Path(folder), first)
            told["resume"] = "yes" if further > step else "began anew"
            played = run_evaluation(EvaluationConfig(create_ray_actor(RayPolicyConfig(second)), num_episodes=EPISODES))
            told["evaluate"] = "yes" if math.isfinite(played.total_return.value) else "not a number"
        except Exception as failure:  # whatever it is, it belongs into the table, and the next cell is tried
            told["failure"] = f"{type(failure).__name__}: {failure}"
            traceback.print_exc()
    return told


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with own_cluster(ResourceConfig(num_workers=0), 1):
        keep_iterations_brief()
        for line in sys.stdin:
            begun = time.process_time()
            told = try_cell(json.loads(line))
            print(json.dumps({**told, "cpu_s": round(time.process_time() - begun, 1)}), file=out, flush=True)


if __name__ == "__main__":
    main()
