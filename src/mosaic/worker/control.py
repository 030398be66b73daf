"""What a run is told while it runs: `pause`, `resume`, `checkpoint` and `stop` as JSON lines on stdin, and SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from enum import Enum
from types import FrameType
from typing import Literal

import msgspec


class Command(Enum):
    """What `Run.poll` asks of the worker."""

    CHECKPOINT = "checkpoint"
    STOP = "stop"


class ControlLine(msgspec.Struct):
    type: Literal["pause", "resume", "checkpoint", "stop"]


class Control:
    """Listens for commands in a thread and keeps them until the training loop asks."""

    def __init__(self, *, supervised: bool) -> None:
        # One attribute for the hot path: false as long as there is nothing to do.
        self.pending = False
        self._supervised = supervised
        self._changed = threading.Condition(threading.RLock())
        self._paused = False
        self._checkpoint = False
        self._stop = False
        self._relay: Callable[[str], None] | None = None

    @property
    def stop_requested(self) -> bool:
        return self._stop

    def listen(self) -> None:
        """Take stdin and the stop signals for control. Call once, in the main thread."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_interrupt)
        if not self._supervised:
            return
        descriptor = os.dup(0)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        threading.Thread(target=self._read_loop, args=(descriptor,), name="mosaic-control", daemon=True).start()

    def request_stop(self) -> None:
        with self._changed:
            self._stop = self.pending = True
            self._changed.notify_all()
            if self._relay is not None:
                self._relay("stop")

    def relay_to(self, send: Callable[[str], None] | None) -> None:
        """Hand what was asked so far, and all that follows, to a child process that obeys in this one's place."""
        with self._changed:
            self._relay = send
            asked = {"pause": self._paused, "checkpoint": self._checkpoint, "stop": self._stop}
            for command, wanted in asked.items():
                if send is not None and wanted:
                    send(command)

    def take(self, on_pause: Callable[[Literal["running", "paused"]], None]) -> Command | None:
        """The next thing to do, if any. While the run is paused this waits, and a pause ends by resume or stop."""
        with self._changed:
            if self._paused and not self._stop:
                on_pause("paused")
                while self._paused and not self._stop and not self._checkpoint:
                    # With a timeout, so that signal handlers of the main thread get their turn.
                    self._changed.wait(1.0)
                if not self._paused or self._stop:
                    on_pause("running")
            if self._checkpoint:
                self._checkpoint = False
                self.pending = self._stop or self._paused
                return Command.CHECKPOINT
            self.pending = self._stop
            return Command.STOP if self._stop else None

    def _read_loop(self, descriptor: int) -> None:
        decoder = msgspec.json.Decoder(ControlLine)
        with os.fdopen(descriptor, "rb") as stream:
            for line in stream:
                try:
                    command = decoder.decode(line).type
                except msgspec.DecodeError as error:
                    print(f"mosaic: ignored a control line: {error}: {line[:200]!r}", file=sys.stderr)
                    continue
                self._obey(command)
        # The shepherd holds the other end for as long as it lives.
        self.request_stop()

    def _obey(self, command: Literal["pause", "resume", "checkpoint", "stop"]) -> None:
        with self._changed:
            match command:
                case "pause":
                    self._paused = True
                case "resume":
                    self._paused = False
                case "checkpoint":
                    self._checkpoint = True
                case "stop":
                    self._stop = True
            self.pending = True
            self._changed.notify_all()
            if self._relay is not None:
                self._relay(command)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.request_stop()

    def _on_interrupt(self, signum: int, frame: FrameType | None) -> None:
        # The first Ctrl-C stops in good order, the second at once.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.request_stop()
