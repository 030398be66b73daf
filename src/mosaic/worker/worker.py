"""`Worker`: what a package implements to run under MOSAIC. `mosaic.worker.cli.main` gives it the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from mosaic.worker.capabilities import WorkerCapabilities
from mosaic.worker.config import as_dict
from mosaic.worker.description import Algorithm, ConfigFields, describe, value_at
from mosaic.worker.run import Run
from mosaic.worker.schema import schema_of

C = TypeVar("C")


class Session(Protocol):
    """An environment that somebody outside steps: the `--interactive` session. Answers are JSON-ready objects."""

    def reset(self, seed: int | None) -> Mapping[str, Any]: ...

    def step(self, action: Any) -> Mapping[str, Any]: ...

    def close(self) -> None: ...


@runtime_checkable
class DrawingSession(Session, Protocol):
    """A session that can also show what it looks like: an array, height x width x 3, uint8."""

    def render(self) -> Any: ...


class Policy(Protocol):
    """A trained policy that answers action requests: `--serve CHECKPOINT`."""

    def select_action(self, observation: Any, info: Mapping[str, Any]) -> Any: ...


class NotOffered(Exception):
    """The worker has no such mode."""


class Worker(ABC, Generic[C]):
    capabilities: ClassVar[WorkerCapabilities]
    version: ClassVar[str]
    title: ClassVar[str]
    config_type: type[C]
    fields: ClassVar[ConfigFields] = ConfigFields()
    example_config: ClassVar[Mapping[str, Any]] = {}

    @property
    def algorithms(self) -> Mapping[str, Algorithm]:
        """The algorithms on offer, by name; empty for a worker that has just one way to run."""
        return {}

    @property
    def not_offered(self) -> Mapping[str, str]:
        """What the upstream has too, but this worker does not offer, each with the reason."""
        return {}

    @abstractmethod
    def run(self, config: C, run: Run) -> Mapping[str, Any] | None:
        """Do what the config asks; return a summary. Ask `run.poll()` often and return early when it says STOP."""

    def validate(self, config: C) -> None:
        """Check what a schema cannot say (the environment exists, its spaces fit): raise ConfigError."""
        return

    def command(self, config: C) -> list[str]:
        """What a run with this config starts, where it is another program that does the work: a dry run tells it."""
        return []

    def total_steps(self, config: C) -> int | None:
        """How far a run with this config goes, for its progress; None where that is not known beforehand."""
        total: int | None = value_at(as_dict(config), self.fields.total_steps)
        return total

    def open_session(self, config: C) -> Session:
        raise NotOffered(f"worker {self.capabilities.worker_type} has no interactive mode")

    def load_policy(self, checkpoint: Path) -> Policy:
        raise NotOffered(f"worker {self.capabilities.worker_type} serves no policies")

    def describe(self) -> dict[str, Any]:
        return describe(
            capabilities=self.capabilities,
            version=self.version,
            title=self.title,
            summary=(self.__doc__ or "").strip(),
            config_schema=schema_of(self.config_type),
            fields=self.fields,
            algorithms=self.algorithms,
            not_offered=self.not_offered,
            example_config=self.example_config,
        )
