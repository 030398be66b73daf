"""A worker that counts, fails when told to, and leaves a line in `starts` of its run folder whenever it starts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from counter_worker import CAPABILITIES
from mosaic.worker import Command, ConfigFields, Run, Worker
from mosaic.worker.cli import main
from mosaic.worker.messages import Metric


@dataclass(frozen=True)
class Config:
    run_id: str = ""
    total_timesteps: Annotated[int, Meta(ge=1)] = 20
    pause_s: Annotated[float, Meta(ge=0, le=10, description="between steps")] = 0.01
    checkpoint_every: Annotated[int, Meta(ge=0)] = 0
    fail_at: int | None = None
    failing_attempts: int = 1
    children: Annotated[int, Meta(ge=0, description="count along, each from where the one before it began")] = 0


class Counter(Worker[Config]):
    """Counts."""

    capabilities = CAPABILITIES
    version = "0.1.0"
    title = "Counter"
    config_type = Config
    fields = ConfigFields(algorithm=None, environment=None, seed=None)
    example_config = {"total_timesteps": 20}  # noqa: RUF012

    def run(self, config: Config, run: Run) -> Mapping[str, Any]:
        with (run.folder / "starts").open("a") as file:
            print(run.attempt, os.getpid(), file=file)
        step = run.resume_card.step if run.resume_card else 0
        for index in range(config.children):
            parent = f"child_{index - 1}" if index else ""
            run.telemetry.child_started(
                f"child_{index}",
                {"pace": index + 1},
                parent=parent,
                from_step=step if parent else None,
                changed={"pace": [index, index + 1]},
            )
        while step < config.total_timesteps:
            command = run.poll()
            if command is Command.STOP:
                break
            step += 1
            run.telemetry.metric(step, {"count": float(step)})
            for index in range(config.children):
                run.telemetry.emit(Metric(child=f"child_{index}", step=step, values={"count": step * (index + 1.0)}))
            if command is Command.CHECKPOINT or (config.checkpoint_every and step % config.checkpoint_every == 0):
                self.save(run, step)
            if step == config.fail_at and run.attempt <= config.failing_attempts:
                raise RuntimeError(f"told to fail at step {step}")
            time.sleep(config.pause_s)
        return {"count": step}

    def save(self, run: Run, step: int) -> None:
        def write(folder: Path) -> None:
            (folder / "count").write_text(str(step))

        run.save_checkpoint(step, write, algorithm="count", environment="none")


if __name__ == "__main__":
    sys.exit(main(Counter()))
