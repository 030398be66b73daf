"""The worker's stdout and stderr as the poll loop sees them: bounded work per turn, and reads delayed on purpose.

A commit costs more than a row, so telemetry is gathered before it is stored. It gathers in the pipe: what was read is
committed at once, and a shepherd that is killed loses nothing that it had taken.
"""

from __future__ import annotations

import array
import fcntl
import math
import os
import select
import termios
import time
from collections.abc import Callable

from mosaic.shepherd.timers import Timers

GATHER_S = 0.05
GATHER_BYTES = 256 << 10


class Stream:
    """One pipe. `take` gets what was read, b"" at the end; the stream then closes itself."""

    def __init__(
        self,
        name: str,
        descriptor: int,
        poll: select.poll,
        timers: Timers,
        take: Callable[[bytes], None],
        *,
        turn_bytes: int,
        rest_s: float = 0.0,  # at least this long between two reads: what may be slowed down
    ) -> None:
        self._name = name
        self.descriptor = descriptor
        self._poll = poll
        self._timers = timers
        self._take = take
        self._turn_bytes = turn_bytes
        self._rest = rest_s
        self._rate = 0.0  # bytes per second of late
        self._last_read = -math.inf
        self._held = False
        self._draining = False
        self.open = True
        self.abandoned = False  # closed while somebody outside the run still had the other end
        self._watch()

    def readable(self) -> None:
        """The poll says so: read now, or let it gather first."""
        if self._held or not self.open:
            return  # by another handler, after the poll
        self._unwatch()
        waiting = _bytes_waiting(self.descriptor)
        delay = max(0.0, self._last_read + self._rest - time.monotonic())
        if 0 < waiting < GATHER_BYTES and self._last_read > -math.inf and not self._draining:
            delay = max(delay, min(GATHER_S, (GATHER_BYTES - waiting) / max(self._rate, 1.0)))
        self._timers.set(self._name, delay, self._read)

    def hold(self) -> None:
        """Stop reading: the pipe fills, and its writer waits."""
        self._held = True
        self._unwatch()
        self._timers.cancel(self._name)

    def release(self) -> None:
        if self._held:
            self._held = False
            self._timers.set(self._name, 0.0, self._read)

    def drain(self) -> None:
        """No process of the run is left: read what is there, to the end, without delays."""
        self._draining = True
        if self.open and not self._held:
            self._timers.set(self._name, 0.0, self._read)

    def close(self) -> None:
        if self.open:
            self.hold()
            self.open = False
            os.close(self.descriptor)

    def _read(self) -> None:
        if not self.open:
            return
        try:
            data = os.read(self.descriptor, self._turn_bytes)
        except BlockingIOError:
            if self._draining:
                self.abandoned = True
                self.close()
                self._take(b"")
            else:
                self._watch()
            return
        if not data:
            self.close()
            self._take(b"")
            return
        now = time.monotonic()
        self._rate = len(data) / max(now - self._last_read, 1e-6)
        self._last_read = now
        self._take(data)
        if self._draining and not self._held:
            self._timers.set(self._name, 0.0, self._read)
        elif not self._held:
            self._watch()

    def _watch(self) -> None:
        self._poll.register(self.descriptor, select.POLLIN)

    def _unwatch(self) -> None:
        try:
            self._poll.unregister(self.descriptor)
        except KeyError:
            return  # it was not watched


def _bytes_waiting(descriptor: int) -> int:
    size = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, size)
    return size[0]
