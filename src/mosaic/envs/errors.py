"""What can go wrong with an environment; every message is one line for people."""

from __future__ import annotations


class EnvsError(Exception):
    """An environment could not be made, found or asked."""


class WorkerMissing(EnvsError):
    """No such worker, or its environment is not installed."""


class InstallFailed(EnvsError):
    """An environment could not be made."""


class DescribeFailed(EnvsError):
    """A worker did not describe itself."""
