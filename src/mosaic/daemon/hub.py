"""Telling those who watch that a run has changed.

Nothing is queued: a listener holds the set of those that it has not looked at yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Listener:
    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._wake = asyncio.Event()
        self.closed = False

    def tell(self, run_id: str) -> None:
        self._changed.add(run_id)
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def wait(self, timeout: float | None = None) -> set[str]:
        """The runs that changed since the last call; empty when the time is over or the daemon closes."""
        try:
            await asyncio.wait_for(self._wake.wait(), timeout)
        except TimeoutError:
            return set()
        self._wake.clear()
        changed, self._changed = self._changed, set()
        return changed


class Hub:
    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._closed = False

    @contextmanager
    def listen(self) -> Iterator[Listener]:
        listener = Listener()
        if self._closed:
            listener.close()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)

    def changed(self, run_id: str) -> None:
        for listener in self._listeners:
            listener.tell(run_id)

    def close(self) -> None:
        """The daemon goes down: everybody who waits is let go."""
        self._closed = True
        for listener in self._listeners:
            listener.close()
