"""The contract between MOSAIC and its workers. Needs msgspec alone. How to write a worker: `docs/workers.md`."""

from mosaic.worker.capabilities import WorkerCapabilities
from mosaic.worker.checkpoints import CheckpointCard, CheckpointError
from mosaic.worker.control import Command
from mosaic.worker.description import Algorithm, ConfigFields
from mosaic.worker.run import Run
from mosaic.worker.schema import schema_of
from mosaic.worker.validation import ConfigError, FieldError, refuse
from mosaic.worker.worker import NotOffered, Policy, Session, Worker

__all__ = [
    "Algorithm",
    "CheckpointCard",
    "CheckpointError",
    "Command",
    "ConfigError",
    "ConfigFields",
    "FieldError",
    "NotOffered",
    "Policy",
    "Run",
    "Session",
    "Worker",
    "WorkerCapabilities",
    "refuse",
    "schema_of",
]
