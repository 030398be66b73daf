"""Tabular reinforcement learning under MOSAIC: the living example of the worker contract."""

from mosaic.worker import WorkerCapabilities

__version__ = "0.1.0"

CAPABILITIES = WorkerCapabilities(
    worker_type="tabular",
    supported_paradigms=("sequential",),
    env_families=("toy_text",),
    action_spaces=("discrete",),
    observation_spaces=("discrete",),
    supports_checkpointing=True,
    supports_pause_resume=True,
    estimated_memory_mb=128,
)


def get_worker_metadata() -> WorkerCapabilities:
    return CAPABILITIES
