"""What a worker can say, apart from how it travels."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from mosaic.worker.messages import (
    Checkpoint,
    ChildStarted,
    Episode,
    Log,
    Message,
    Metric,
    Number,
    RunCompleted,
    RunFailed,
    RunStarted,
    Stage,
    Step,
    to_number,
)


class Teller(ABC):
    """Makes messages of what is said; `emit` decides what becomes of them."""

    last_step: int | None = None

    @abstractmethod
    def emit(self, message: Message) -> None: ...

    def flush(self) -> None:
        """Return when everything said so far is on its way."""
        return

    def run_started(
        self,
        run_id: str,
        worker: str,
        *,
        worker_version: str = "",
        config: dict[str, Any],
        total_steps: int | None = None,
    ) -> None:
        self.emit(
            RunStarted(
                run_id=run_id,
                worker=worker,
                worker_version=worker_version,
                pid=os.getpid(),
                config=config,
                # What no store can hold is as good as unknown.
                total_steps=total_steps if total_steps is not None and total_steps < 2**63 else None,
            )
        )
        self.flush()

    def run_completed(self, *, reason: Literal["finished", "stopped"], summary: Mapping[str, Any]) -> None:
        self.emit(RunCompleted(step=self.last_step, reason=reason, summary=dict(summary)))

    def run_failed(self, error: str, *, traceback: str = "") -> None:
        self.emit(RunFailed(error=error, step=self.last_step, traceback=traceback))

    def metric(self, step: int, values: Mapping[str, float]) -> None:
        """Named scalars at one step."""
        self.last_step = step
        numbers = {name: _number(name, value) for name, value in values.items()}
        self.emit(Metric(step=step, values=numbers))

    def episode(
        self,
        step: int,
        episode: int,
        episode_return: float,
        length: int,
        *,
        agent: str = "",
        env: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.last_step = step
        self.emit(
            Episode(
                step=step,
                episode=episode,
                episode_return=to_number(float(episode_return)),
                length=length,
                agent=agent,
                env=env,
                extra=dict(extra) if extra else {},
            )
        )

    def step(
        self,
        step: int,
        reward: float,
        *,
        episode: int = 0,
        agent: str = "",
        env: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.last_step = step
        self.emit(
            Step(
                step=step,
                reward=to_number(float(reward)),
                episode=episode,
                agent=agent,
                env=env,
                extra=dict(extra) if extra else {},
            )
        )

    def checkpoint(self, step: int, path: str) -> None:
        self.emit(Checkpoint(step=step, path=path))
        self.flush()

    def stage(self, name: str, *, index: int = 0, total: int = 0, step: int | None = None) -> None:
        self.emit(Stage(name=name, index=index, total=total, step=step))

    def log(self, message: str, *, level: Literal["debug", "info", "warning", "error"] = "info") -> None:
        self.emit(Log(message=message, level=level))

    def child_started(
        self,
        child: str,
        config: Mapping[str, Any],
        *,
        from_step: int | None = None,
        parent: str = "",
        changed: Mapping[str, Any] | None = None,
    ) -> None:
        """A child run begins, or begins anew; what it says from now on are messages with its name in `child`."""
        self.emit(
            ChildStarted(
                child=child, config=dict(config), from_step=from_step, parent=parent, changed=dict(changed or {})
            )
        )


def _number(name: str, value: float) -> Number:
    try:
        return to_number(float(value))
    except (TypeError, ValueError):
        raise TypeError(f"metric {name!r}: got {value!r} ({type(value).__name__}), allowed: a number") from None
