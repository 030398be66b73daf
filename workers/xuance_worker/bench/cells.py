"""One side of the matrix: trains many small runs in one process, in the worker's environment.

Each line on stdin is a config; the answer is a line of JSON. A cell is refused by the worker's own checks, or is
trained to a checkpoint, resumed from there to another one, and evaluated from that one.
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
from xuance_worker.config import XuanCeWorkerConfig
from xuance_worker.worker import XuanCeWorker

EPISODES = 2


class Listener(TelemetryEmitter):
    """Keeps what the learners say."""

    def __init__(self) -> None:
        super().__init__(Stream(os.open(os.devnull, os.O_WRONLY)))
        self.losses: dict[str, float] = {}

    def metric(self, step: int, values: Mapping[str, Any]) -> None:
        self.losses |= {name: value for name, value in values.items() if name.startswith("learner/")}
        super().metric(step, values)


def run(config: XuanCeWorkerConfig, folder: Path, resume: Path | None = None) -> tuple[Mapping[str, Any], Listener]:
    # Not at the top: XuanCe prints when it is imported.
    from xuance_worker.runtime import XuanCeWorkerRuntime

    place = RunPlace(config.run_id, folder, 2 if resume else 1, resume, supervised=False)
    listener = Listener()
    summary = XuanCeWorkerRuntime(
        config, Run(place, worker="xuance", telemetry=listener, control=Control(supervised=False))
    ).run()
    listener.close()
    return summary, listener


def newest(folder: Path) -> tuple[Path, int]:
    checkpoint = latest(folder)
    assert checkpoint is not None
    return checkpoint, verify(checkpoint).step


def try_cell(content: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"train": "no", "resume": "no", "evaluate": "no"}
    try:
        config = build_config(XuanCeWorkerConfig, XuanCeWorker().describe(), dict(content))
        XuanCeWorker().validate(config)
    except ConfigError as refusal:
        return {"refused": str(refusal)}
    with tempfile.TemporaryDirectory(prefix="xuance-cell-") as folder:
        place = Path(folder)
        try:
            _, listener = run(config, place)
            learned = any(map(math.isfinite, listener.losses.values()))
            told["train"] = "yes" if learned else "learned nothing"
            first, step = newest(place)
            run(replace(config, total_timesteps=2 * step), place, first)
            second, further = newest(place)
            told["resume"] = "yes" if further > step else "began anew"
            playing = replace(config, mode="evaluate", checkpoint=str(second), episodes=EPISODES)
            summary, _ = run(playing, place / "played")
            told["evaluate"] = "yes" if math.isfinite(summary["return_mean"]) else "not a number"
        except Exception as failure:  # whatever it is, it belongs into the table, and the next cell is tried
            told["failure"] = f"{type(failure).__name__}: {failure}"
            traceback.print_exc()
    return told


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        begun = time.process_time()
        told = try_cell(json.loads(line))
        print(json.dumps({**told, "cpu_s": round(time.process_time() - begun, 1)}), file=out, flush=True)


if __name__ == "__main__":
    main()
