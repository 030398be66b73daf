"""What a worker can do, as `get_worker_metadata()` of the entry point group `mosaic.workers` returns it."""

from __future__ import annotations

from dataclasses import dataclass

ENTRY_POINT_GROUP = "mosaic.workers"


@dataclass(frozen=True, kw_only=True)
class WorkerCapabilities:
    worker_type: str
    supported_paradigms: tuple[str, ...] = ("sequential",)
    env_families: tuple[str, ...] = ()
    action_spaces: tuple[str, ...] = ()
    observation_spaces: tuple[str, ...] = ()
    max_agents: int = 1
    supports_checkpointing: bool = False
    supports_self_play: bool = False
    supports_population_based_training: bool = False
    supports_pause_resume: bool = False
    requires_gpu: bool = False
    estimated_memory_mb: int = 512
