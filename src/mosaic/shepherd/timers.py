"""Named alarms for a poll loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Timers:
    def __init__(self) -> None:
        self._due: dict[str, tuple[float, Callable[[], None]]] = {}

    def set(self, name: str, delay_s: float, action: Callable[[], None]) -> None:
        """Run `action` once after the delay; an alarm of that name that was set before is replaced."""
        self._due[name] = (time.monotonic() + delay_s, action)

    def cancel(self, name: str) -> None:
        self._due.pop(name, None)

    def is_set(self, name: str) -> bool:
        return name in self._due

    def poll_timeout_ms(self) -> int | None:
        """How long a poll may wait; None without any alarm."""
        if not self._due:
            return None
        wait = min(at for at, _ in self._due.values()) - time.monotonic()
        return max(0, math.ceil(wait * 1000))

    def run_due(self) -> None:
        now = time.monotonic()
        for name in [name for name, (at, _) in self._due.items() if at <= now]:
            alarm = self._due.pop(name, None)  # an earlier action may have cancelled it
            if alarm is not None:
                alarm[1]()
