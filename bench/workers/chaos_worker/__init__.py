"""A worker for `bench/chaos.py`: it counts, saves checkpoints, and notes every start."""

from mosaic.worker import WorkerCapabilities

CAPABILITIES = WorkerCapabilities(worker_type="chaos", supports_checkpointing=True, supports_pause_resume=True)


def get_worker_metadata() -> WorkerCapabilities:
    return CAPABILITIES
