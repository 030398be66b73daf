"""CleanRL under MOSAIC: its single-file algorithms, unmodified, behind the worker contract."""

from mosaic.worker import WorkerCapabilities

__version__ = "0.1.0"

CAPABILITIES = WorkerCapabilities(
    worker_type="cleanrl",
    supported_paradigms=("sequential",),
    env_families=(
        *("gymnasium", "minigrid", "babyai", "atari", "mujoco", "dm_control"),
        *("procgen", "envpool", "maatari"),
    ),
    action_spaces=("discrete", "continuous"),
    observation_spaces=("vector", "image"),
    max_agents=1,
    supports_checkpointing=True,
    supports_pause_resume=True,
    requires_gpu=False,
    estimated_memory_mb=512,
)


def get_worker_metadata() -> WorkerCapabilities:
    return CAPABILITIES
