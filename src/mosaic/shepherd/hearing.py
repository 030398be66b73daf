"""What the worker says: telemetry to the journal, free text to the log, and what of it bears on the run's life."""

from __future__ import annotations

import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mosaic.paths import RunFolder
from mosaic.shepherd.complaints import complain
from mosaic.shepherd.journal import Journal
from mosaic.shepherd.launch import Launch
from mosaic.shepherd.rotating import RotatingLog
from mosaic.shepherd.spawn import Spawned
from mosaic.shepherd.streams import Stream
from mosaic.shepherd.telemetry import TelemetryReader
from mosaic.shepherd.timers import Timers
from mosaic.worker.messages import AnyMessage, Heartbeat, RunCompleted, RunFailed

_TELEMETRY_TURN = 512 << 10
_LOG_TURN = 128 << 10
_LOG_REST_S = 0.003  # 40 MB/s of free text are enough
_TAIL_BYTES = 4096
_MALFORMED_LOG_BYTES = 1 << 20
_CLOSED_EARLY_S = 1.0  # a worker may close its stdout this long before it ends
_RETRY_S = 1.0
_NOTABLE = frozenset({Heartbeat, RunCompleted, RunFailed})


@dataclass(frozen=True)
class Ears:
    """Whom to tell."""

    heard: Callable[[bool], None]  # something was said; True: something that a paused worker does not say
    heartbeat: Callable[[Literal["running", "paused"]], None]
    cannot_store: Callable[[str], None]  # the disk stayed full for as long as we wait


class Hearing:
    def __init__(
        self,
        folder: RunFolder,
        launch: Launch,
        journal: Journal,
        worker: Spawned,
        poll: select.poll,
        timers: Timers,
        ears: Ears,
    ) -> None:
        self.journal = journal
        self.completed: RunCompleted | None = None
        self.failure: RunFailed | None = None
        self._grace = launch.disk_full_grace_s
        self._timers = timers
        self._ears = ears
        self._reader = TelemetryReader(self._keep_malformed)
        self._malformed = RotatingLog(folder.malformed_log, max_bytes=_MALFORMED_LOG_BYTES, keep=2)
        self._log = RotatingLog(folder.worker_log, max_bytes=launch.log_max_bytes, keep=launch.log_keep)
        self._tail = b""
        self._worker_gone = False
        self.stdout = Stream("stdout", worker.stdout, poll, timers, self._on_telemetry, turn_bytes=_TELEMETRY_TURN)
        self.stderr = Stream(
            "stderr", worker.stderr, poll, timers, self._on_log, turn_bytes=_LOG_TURN, rest_s=_LOG_REST_S
        )

    @property
    def over(self) -> bool:
        """Both streams are at their end, and what they said is stored (or will never be)."""
        stored = self.journal.trouble is None or self.journal.gave_up
        return stored and not self.stdout.open and not self.stderr.open

    @property
    def last_words(self) -> str:
        """The last line on stderr; of a refused config, all that is wrong with it."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        if lines and lines[-1].startswith("config:"):
            return "; ".join(line.removeprefix("config:").lstrip() for line in lines if line.startswith("config:"))
        return lines[-1] if lines else ""

    def on_worker_gone(self) -> None:
        self._worker_gone = True
        self._timers.cancel("closed")

    def drain(self) -> None:
        """Nobody of the run is left to say more: read both streams to their end."""
        self.stdout.drain()
        self.stderr.drain()

    def _on_telemetry(self, data: bytes) -> None:
        messages = self._reader.feed(data) if data else self._reader.finish()
        if not data:
            self._on_end()
        self.journal.count_all(self._reader.counts)
        if self.completed is not None or self.failure is not None:
            self.journal.count("after_close", len(messages))
        self.journal.append(messages)
        notable = [
            (index, message)
            for index, message in enumerate(messages)
            if message.__class__ in _NOTABLE and not message.child
        ]
        for index, message in notable:
            self._on_notable(message, following=len(messages) - index - 1)
        if data:
            self._ears.heard(len(messages) > sum(isinstance(message, Heartbeat) for _, message in notable))
        self.commit()

    def _on_notable(self, message: AnyMessage, *, following: int) -> None:
        if isinstance(message, Heartbeat):
            self._ears.heartbeat(message.state)
        elif self.completed is None and self.failure is None:
            if isinstance(message, RunCompleted):
                self.completed = message
            elif isinstance(message, RunFailed):
                self.failure = message
            self.journal.count("after_close", following)

    def _on_end(self) -> None:
        if self.stdout.abandoned:
            self.journal.count("stdout_held_by_strangers")
        if not self._worker_gone and self.completed is None and self.failure is None:
            self._timers.set("closed", _CLOSED_EARLY_S, lambda: self.journal.count("stdout_closed_early"))

    def _on_log(self, data: bytes) -> None:
        self.journal.count("log_bytes_dropped", self._log.write(data))
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if data:
            self._ears.heard(False)

    def _keep_malformed(self, lines: bytes) -> None:
        self.journal.count("malformed_bytes_dropped", self._malformed.write(lines))

    # Storing

    def commit(self) -> None:
        if self.journal.commit():
            self._timers.cancel("retry")
            self._timers.cancel("disk_full")
            self.stdout.release()
        elif not self.journal.gave_up:
            self.stdout.hold()
            if not self._timers.is_set("disk_full"):
                complain(f"cannot store: {self.journal.trouble}; reading no more telemetry until that works")
                self._timers.set("disk_full", self._grace, self._give_up)
            self._timers.set("retry", _RETRY_S, self.commit)

    def _give_up(self) -> None:
        self._timers.cancel("retry")
        self.journal.give_up()
        self.stdout.release()
        self._ears.cannot_store(f"nothing could be stored for {self._grace:g} s ({self.journal.trouble})")
