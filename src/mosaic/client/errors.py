"""What can go wrong when talking to MOSAIC, as types to catch. Every message is one line for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic.client.runs import Run
    from mosaic.worker.validation import FieldError


class MosaicError(Exception):
    """Anything that MOSAIC refuses or fails to do."""


class NoDaemon(MosaicError):
    """No daemon answers for this home folder."""


class DaemonStartFailed(MosaicError):
    """The daemon was started and ended, or never answered."""


class NoSuchRun(MosaicError):
    """No run, or more than one, goes by this name."""


class NoSuchWorker(MosaicError):
    """No worker of this name is known."""


class NotPossible(MosaicError):
    """The run's state does not allow it, such as pausing a run that has ended."""


class NotAllowed(MosaicError):
    """The daemon refused the token, the Host or the Origin."""


class DaemonError(MosaicError):
    """The daemon answered with an error of its own."""


class BadConfig(MosaicError):
    """The config was refused; `errors` says which fields and why."""

    def __init__(self, message: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.errors = list(errors)

    def __str__(self) -> str:
        lines = [error.message for error in self.errors]
        return "\n".join(lines) if lines else super().__str__()


class RunDidNotSucceed(MosaicError):
    """`Run.wait(check=True)`: the run ended, and not well."""

    def __init__(self, run: Run) -> None:
        message = run.exit["message"] if run.exit else "no record of its end"
        super().__init__(f"run {run.name} ended {run.state}: {message}")
        self.run = run


class WaitTimeout(MosaicError, TimeoutError):
    """The run had not ended within the time given."""
