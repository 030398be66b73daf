"""`Run`: what a worker holds of the run that it is part of."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.worker import checkpoints
from mosaic.worker.checkpoints import CheckpointCard
from mosaic.worker.control import Command, Control
from mosaic.worker.manifest import Manifest
from mosaic.worker.telemetry import TelemetryEmitter

RUN_DIR_VARIABLE = "MOSAIC_RUN_DIR"


@dataclass(frozen=True)
class RunPlace:
    """Which run this process belongs to, as the shepherd tells by environment variables."""

    run_id: str
    folder: Path
    attempt: int
    resume_from: Path | None
    supervised: bool

    @classmethod
    def from_environment(cls, run_id: str) -> RunPlace:
        """Started by hand, without a shepherd, a run lies in `runs/<run_id>` below the current folder."""
        given = os.environ.get(RUN_DIR_VARIABLE)
        resume = os.environ.get("MOSAIC_RESUME_FROM")
        return cls(
            run_id=os.environ.get("MOSAIC_RUN_ID", run_id),
            folder=Path(given) if given else Path.cwd() / "runs" / run_id,
            attempt=int(os.environ.get("MOSAIC_ATTEMPT", "1")),
            resume_from=Path(resume) if resume else None,
            supervised=given is not None,
        )


class Run:
    """Say what happens (`telemetry`), obey (`poll`), save (`save_checkpoint`), and list what was made (`manifest`)."""

    def __init__(self, place: RunPlace, *, worker: str, telemetry: TelemetryEmitter, control: Control) -> None:
        self.id = place.run_id
        self.folder = place.folder
        self.attempt = place.attempt
        self.telemetry = telemetry
        self.control = control
        self._worker = worker
        self.manifest = Manifest(place.folder, run_id=place.run_id, worker=worker)
        self.resume_card: CheckpointCard | None = None
        self.resume_folder = place.resume_from
        if place.resume_from is not None:
            self.resume_card = checkpoints.verify(place.resume_from)

    @property
    def stop_requested(self) -> bool:
        return self.control.stop_requested

    def poll(self) -> Command | None:
        """Ask often, between steps: costs one attribute look-up when there is nothing to do.

        A pause is spent in here. The answer is CHECKPOINT (save one now), STOP (save one if you can, return), or None.
        """
        if not self.control.pending:
            return None
        return self.control.take(self.telemetry.set_state)

    def save_checkpoint(
        self,
        step: int,
        write: Callable[[Path], None],
        *,
        algorithm: str,
        environment: str,
        seed: int | None = None,
        observation_space: str = "",
        action_space: str = "",
        agents: list[str] | None = None,
        extra: Mapping[str, Any] | None = None,
        keep: int | None = None,
    ) -> Path:
        """Save what `write(folder)` puts into a folder as a checkpoint of this run, and tell the platform."""
        card = CheckpointCard(
            worker=self._worker,
            algorithm=algorithm,
            environment=environment,
            step=step,
            run_id=self.id,
            attempt=self.attempt,
            created=time.time(),
            seed=seed,
            observation_space=observation_space,
            action_space=action_space,
            agents=agents or [],
            extra=dict(extra or {}),
        )
        folder = self.folder / "checkpoints"
        path = checkpoints.save(folder, card, write)
        if keep is not None:
            checkpoints.prune(folder, keep)
        self.manifest.add("checkpoint", path, step=step)
        self.telemetry.checkpoint(step, str(path.relative_to(self.folder)))
        return path
