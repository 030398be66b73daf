from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from chaos_worker import CAPABILITIES
from mosaic.worker import Command, ConfigFields, Run, Worker
from mosaic.worker.cli import main


@dataclass(frozen=True)
class Config:
    run_id: str = ""
    total_timesteps: Annotated[int, Meta(ge=1)] = 20
    seed: int = 0
    daemon: Annotated[bool, Meta(description="leave a process behind that ignores SIGTERM")] = False


class Chaos(Worker[Config]):
    """Says step 1, 2, 3 ... in bursts."""

    capabilities = CAPABILITIES
    version = "0.1.0"
    title = "Chaos"
    config_type = Config
    fields = ConfigFields(algorithm=None, environment=None)
    example_config = {"total_timesteps": 20}  # noqa: RUF012

    def run(self, config: Config, run: Run) -> Mapping[str, Any]:
        with (run.folder / "starts").open("a") as file:
            print(run.attempt, os.getpid(), file=file)
        shared = Path(os.environ["MOSAIC_FASTLANE_DIR"])
        shared.mkdir(exist_ok=True)
        (shared / "ring").write_text("frame")
        if config.daemon and os.fork() == 0:
            self.be_a_daemon()
        chance = random.Random(config.seed + run.attempt)
        step = run.resume_card.step if run.resume_card else 0
        while step < config.total_timesteps:
            command = run.poll()
            if command is Command.STOP:
                break
            for _ in range(min(config.total_timesteps - step, chance.randint(1, 200))):
                step += 1
                run.telemetry.step(step, reward=chance.random())
            if command is Command.CHECKPOINT or chance.random() < 0.1:
                at = str(step)
                run.save_checkpoint(
                    step, lambda folder, at=at: (folder / "at").write_text(at), algorithm="chaos", environment="none"
                )
            time.sleep(chance.expovariate(1 / 0.005))
        return {"step": step}

    def be_a_daemon(self) -> None:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)


if __name__ == "__main__":
    sys.exit(main(Chaos()))
