"""The telemetry emitter: one JSON object a line on the worker's original stdout.

The emitter takes file descriptor 1 for itself and points everybody else's stdout at stderr, so that no
library's `print` can corrupt the stream. What is said is queued, at less than a microsecond, and a thread of its own
encodes and writes it in batches a few milliseconds later. Nothing is ever dropped: when the reader is slow, the queue
fills up to a bound and then the worker waits.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from mosaic.worker.messages import Heartbeat, Message
from mosaic.worker.telling import Teller

HEARTBEAT_VARIABLE = "MOSAIC_HEARTBEAT_S"
TELEMETRY_FD_VARIABLE = "MOSAIC_TELEMETRY_FD"
FLUSH_INTERVAL_S = 0.02
QUEUE_LIMIT = 50_000
BATCH = 2_000

# Writes of whole lines up to this size are atomic on a pipe (POSIX's PIPE_BUF on Linux), so that a worker and the child
# processes that it shares its stream with cannot cut each other's lines.
ATOMIC_WRITE = 4096


class Stream(NamedTuple):
    """Where telemetry goes; `shared`: another process writes there too, so lines must not be cut by its lines."""

    descriptor: int
    shared: bool = False


def take_stdout() -> Stream:
    """Keep the original stdout for telemetry and send whatever else is printed, children's output included, to stderr.

    In a child that the parent shares its stream with, this is the parent's stream.
    """
    sys.stdout.flush()
    inherited = os.environ.pop(TELEMETRY_FD_VARIABLE, None)
    if inherited is not None:
        os.set_inheritable(int(inherited), False)
        return Stream(int(inherited), shared=True)
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return Stream(descriptor)


class TelemetryEmitter(Teller):
    """Says what happens in a run. Every method may be called from any thread, and only queues what it is given; the
    reader is waited for only when the queue is full, and by what must be said at once (start, state, checkpoints)."""

    def __init__(self, stream: Stream, *, on_reader_gone: Callable[[], None] | None = None) -> None:
        self._descriptor = stream.descriptor
        self._encoder = msgspec.json.Encoder()
        # Appending to and popping from a deque is atomic, with and without the GIL: the hot path takes no lock.
        self._queue: deque[Message] = deque()
        self._wake = threading.Event()
        self._write_lock = threading.Lock()
        self._closed = False
        self._shared = stream.shared
        self._reader_gone = False
        self._on_reader_gone = on_reader_gone
        self._heartbeat_s = float(os.environ.get(HEARTBEAT_VARIABLE, "30"))
        self._state: Literal["running", "paused"] = "running"
        self._writer = threading.Thread(target=self._write_loop, name="mosaic-telemetry", daemon=True)
        self._writer.start()
        # A forked child has no writer thread and must not repeat what the parent will say.
        os.register_at_fork(after_in_child=self._silence)

    def set_state(self, state: Literal["running", "paused"]) -> None:
        """Tell at once, by a heartbeat, that the worker has paused or goes on."""
        self._state = state
        self._emit_heartbeat()
        self.flush()

    # How it is said.

    def emit(self, message: Message) -> None:
        if self._closed:
            return
        if not message.time:
            message.time = time.time()
        self._queue.append(message)
        if len(self._queue) > QUEUE_LIMIT:
            self.flush()

    def flush(self) -> None:
        """Return when everything said so far is in the pipe."""
        with self._write_lock:
            self._write_queued()

    def share(self) -> tuple[int, dict[str, str]]:
        """Let a child process say things on this stream: (descriptor for `pass_fds`, variables for its environment)."""
        self._shared = True
        return self._descriptor, {TELEMETRY_FD_VARIABLE: str(self._descriptor)}

    def leave_heartbeats_to_child(self) -> None:
        """The process that does the work knows step and state; two hearts on one stream would contradict each other."""
        self._heartbeat_s = float("inf")

    def close(self) -> None:
        self.flush()
        self._closed = True
        self._wake.set()
        self._writer.join()
        os.close(self._descriptor)

    def _silence(self) -> None:
        self._closed = True

    def _emit_heartbeat(self) -> None:
        self.emit(Heartbeat(step=self.last_step, state=self._state))

    def _write_loop(self) -> None:
        last_heartbeat = time.monotonic()
        while not self._wake.wait(FLUSH_INTERVAL_S):
            now = time.monotonic()
            if now >= last_heartbeat + self._heartbeat_s:
                last_heartbeat = now  # not a beat for each that was missed while the process was stopped
                self._emit_heartbeat()
            if self._queue:
                self.flush()

    def _write_queued(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            if self._shared:
                for chunk in _atomic_chunks(self._encoder.encode(message) for message in batch):
                    self._write(chunk)
            else:
                self._write(self._encoder.encode_lines(batch))

    def _write(self, data: bytes) -> None:
        if self._reader_gone:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BrokenPipeError:
            self._reader_gone = True
            print(
                "mosaic: nobody reads this run's telemetry any more (the shepherd is gone): stopping", file=sys.stderr
            )
            if self._on_reader_gone is not None:
                self._on_reader_gone()


def _atomic_chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, joined up to what a pipe takes in one piece."""
    chunk = bytearray()
    for line in lines:
        if chunk and len(chunk) + len(line) >= ATOMIC_WRITE:
            yield bytes(chunk)
            chunk.clear()
        chunk += line + b"\n"
    if chunk:
        yield bytes(chunk)
