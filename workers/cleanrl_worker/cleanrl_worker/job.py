"""What the worker asks of the process that runs a script."""

from __future__ import annotations

import msgspec

from cleanrl_worker.families import Observation
from cleanrl_worker.schedule import CurriculumStage

JOB_VARIABLE = "CLEANRL_WORKER_JOB"


class Tracking(msgspec.Struct, frozen=True):
    """Where a run is logged at Weights & Biases."""

    project: str
    entity: str | None


class ScriptJob(msgspec.Struct, frozen=True):
    algorithm: str
    env_id: str
    seed: int
    observation: Observation
    loop_line: int
    carried: list[str]
    checkpoint_interval: int = 0
    keep_checkpoints: int = 0
    save_replay_buffer: bool = False
    tensorboard_dir: str = "tensorboard"
    render: bool = False
    tracking: Tracking | None = None
    curriculum: tuple[CurriculumStage, ...] = ()

    @property
    def carried_names(self) -> frozenset[str]:
        return frozenset(self.carried)
