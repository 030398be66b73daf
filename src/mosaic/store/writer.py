"""The one writer of a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mosaic.worker.messages import AnyMessage


class RunWriter:
    """Appends to a run's store; made by the shepherd, which holds the run's lock.

    Everything is buffered, in memory, until `commit()` writes it in one transaction. Use it from one thread.
    """

    def __init__(self, path: Path) -> None:
        """Open the store, or make it (whole or not at all). Numbers go on where the last committed row ended.

        Raises StoreForeign or StoreTooNew, and sqlite3.OperationalError on a full disk.
        """
        raise NotImplementedError

    def begin_attempt(
        self, attempt: int, *, started: float, resumed_from: str | None = None, resumed_step: int | None = None
    ) -> None:
        """Start the next attempt (a number above all earlier ones), in state STARTING. Also a journal row `attempt`.

        Rows of earlier attempts past `resumed_step` are superseded from now on; all that have a step if it is None.
        Must come before `append`, `count`, `set_state` and `end_attempt`, which all speak about this attempt.
        """
        raise NotImplementedError

    def append(self, messages: Sequence[AnyMessage], received: float) -> None:
        """Take telemetry, in the order in which it was said. A message without a time gets `received`."""
        raise NotImplementedError

    def count(self, name: str, by: int = 1) -> None:
        """Count something odd (malformed lines, oversized lines, ...) under this attempt."""
        raise NotImplementedError

    def set_state(self, state: str, time: float, detail: str = "") -> None:
        """The attempt's state (STARTING, RUNNING, PAUSED, ...). Also a journal row `state`, so that followers see it."""
        raise NotImplementedError

    def end_attempt(
        self,
        *,
        outcome: str,
        ended: float,
        exit_code: int | None = None,
        signal: str | None = None,
        reason: str = "",
        message: str = "",
    ) -> None:
        """The attempt has ended; its state becomes the outcome in capitals. Also a journal row `ended`."""
        raise NotImplementedError

    def commit(self) -> int:
        """Write all that is buffered, in one transaction, and return the last seq that is now in the store.

        On a full disk it raises sqlite3.OperationalError and keeps the batch: call it again later. A batch is in the
        store exactly once, whatever happened in between. Nothing buffered: nothing is written.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Bring what was committed safely to the disk (fsync) and close. What was not committed is forgotten."""
        raise NotImplementedError

    @property
    def last_seq(self) -> int:
        """The last number given out, committed or not; 0 in a new store."""
        raise NotImplementedError

    @property
    def last_step(self) -> int | None:
        """The highest step that this attempt spoke of (at least the one it resumed from)."""
        raise NotImplementedError

    @property
    def last_attempt(self) -> int:
        """The newest attempt in the store; 0 in a new store."""
        raise NotImplementedError

    @property
    def counts(self) -> dict[str, int]:
        """What `count` has counted in this attempt."""
        raise NotImplementedError

    @property
    def pending(self) -> int:
        """How many rows wait for `commit`."""
        raise NotImplementedError
