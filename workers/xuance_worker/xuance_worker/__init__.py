"""XuanCe under MOSAIC: multi-agent algorithms, imported and driven in process."""

import os

from mosaic.worker import WorkerCapabilities

# Before anything imports tqdm: XuanCe draws a progress bar for each call of `train`, and we call it a lot.
os.environ.setdefault("TQDM_DISABLE", "1")

__version__ = "0.1.0"

CAPABILITIES = WorkerCapabilities(
    worker_type="xuance",
    supported_paradigms=("parallel", "aec", "sequential"),
    env_families=("mpe", "sisl", "butterfly", "classic", "gymnasium", "minigrid", "smac"),
    action_spaces=("discrete", "box"),
    observation_spaces=("box", "discrete", "image"),
    max_agents=64,
    supports_checkpointing=True,
    supports_pause_resume=True,
    estimated_memory_mb=700,
)


def get_worker_metadata() -> WorkerCapabilities:
    return CAPABILITIES
