"""One training of an upstream script, bare or under the worker, telling what its updates cost. For
`bench/cleanrl-overhead.py`, in the worker's own environment.

    overhead.py bare CONFIG OUT     the script by itself, as `python cleanrl/ppo.py ...`
    overhead.py worker CONFIG OUT   through the worker's command line, telemetry and live frames and all

Writes to OUT, for every update, the step and the CPU seconds that the script's process had used by then.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

OUT_VARIABLE = "CLEANRL_OVERHEAD_OUT"
# What a script logs once in an update.
CLOCK = "charts/SPS"


def main(mode: str, *arguments: str) -> int:
    if mode == "launched":
        del sys.argv[0]
        from cleanrl_worker import launcher

        return clocked(launcher.main)
    config, out = arguments
    os.environ[OUT_VARIABLE] = out
    return bare(Path(config)) if mode == "bare" else through_worker(config)


def through_worker(config: str) -> int:
    from cleanrl_worker import patches, runtime

    from mosaic.worker.cli import main as worker_main

    runtime.LAUNCHER = (sys.executable, __file__, "launched")
    patches.install()
    return worker_main(runtime.CleanRLWorkerRuntime(), ["--config", config])


def bare(path: Path) -> int:
    """With the command line that the worker would give it."""
    from cleanrl_worker.config import CleanRLWorkerConfig
    from cleanrl_worker.runtime import LAUNCHER, script_command

    config = msgspec.json.decode(path.read_bytes(), type=CleanRLWorkerConfig)
    os.chdir(path.parent)

    def script() -> None:
        sys.argv = script_command(config)[len(LAUNCHER) :]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

    return clocked(script)


def clocked(script: Callable[[], None]) -> int:
    from torch.utils.tensorboard import writer

    times: list[tuple[int, float]] = []
    add_scalar = writer.SummaryWriter.add_scalar

    def timed(self: Any, tag: str, value: Any, step: Any = None, *rest: Any, **more: Any) -> None:
        add_scalar(self, tag, value, step, *rest, **more)
        if tag == CLOCK:
            times.append((int(step), time.process_time()))

    writer.SummaryWriter.add_scalar = timed
    script()
    Path(os.environ[OUT_VARIABLE]).write_text(json.dumps(times))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
