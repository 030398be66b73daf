from mosaic.worker import WorkerCapabilities

CAPABILITIES = WorkerCapabilities(worker_type="counter", supports_checkpointing=True, supports_pause_resume=True)


def get_worker_metadata() -> WorkerCapabilities:
    return CAPABILITIES
