"""A worker process under test: started as the shepherd would start it, its telemetry read line by line."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from mosaic.worker.messages import AnyMessage, Message

M = TypeVar("M", bound=Message)


class CheckFailed(Exception):
    """What the worker does is not what the contract says."""


class CheckSkipped(Exception):
    """The check asks for something that this worker does not claim to do."""


@dataclass
class Subject:
    """The worker to check: its command (`python -m package.cli`), and how patient to be with it."""

    command: Sequence[str]
    patience_s: float = 120.0
    grace_s: float = 30.0
    _description: dict[str, Any] | None = field(default=None, repr=False)
    _silent: bool = field(default=False, repr=False)

    @property
    def description(self) -> dict[str, Any]:
        if self._silent:
            raise CheckSkipped("needs a --describe that works")
        if self._description is None:
            self._silent = True
            done = self.call("--describe")
            if done.returncode != 0:
                raise CheckFailed(f"--describe exits with {done.returncode}: {last_line(done.stderr)}")
            try:
                self._description = msgspec.json.decode(done.stdout, type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise CheckFailed(f"--describe does not print one JSON object on stdout: {error}") from None
            self._silent = False
        return self._description

    def call(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """One short call of the worker's command line."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                return subprocess.run(
                    [*self.command, *arguments],
                    cwd=folder,
                    env=environment(),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=self.patience_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise CheckFailed(f"{' '.join(arguments)} does not end within {self.patience_s:.0f} s") from None

    def dry_run(self, config: Any) -> subprocess.CompletedProcess[bytes]:
        with tempfile.NamedTemporaryFile("wb", suffix=".json") as file:
            file.write(config if isinstance(config, bytes) else msgspec.json.encode(config))
            file.flush()
            return self.call("--config", file.name, "--dry-run")

    def start(self, config: Mapping[str, Any], folder: Path, **options: Any) -> WorkerProcess:
        return WorkerProcess(self, config, folder, **options)


def environment() -> dict[str, str]:
    """The caller's environment without what belongs to a run that the caller may itself be part of."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("MOSAIC_")}
    return {**mine, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "(nothing on stderr)"


class WorkerProcess:
    """A running worker. Use as a context manager: whatever happens, its process group is gone afterwards."""

    def __init__(
        self,
        subject: Subject,
        config: Mapping[str, Any],
        folder: Path,
        *,
        attempt: int = 1,
        resume_from: Path | None = None,
        heartbeat_s: float = 30.0,
    ) -> None:
        self._subject = subject
        self.folder = folder
        self.messages: list[AnyMessage] = []
        self.bad_lines: list[bytes] = []
        self._incoming: queue.SimpleQueue[AnyMessage | None] = queue.SimpleQueue()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "job.json"
        run_id = str(config["run_id"])
        path.write_bytes(msgspec.json.encode({"run_id": run_id, "metadata": {"worker": {"config": config}}}))
        variables = {
            "MOSAIC_RUN_ID": run_id,
            "MOSAIC_RUN_DIR": str(folder),
            "MOSAIC_ATTEMPT": str(attempt),
            "MOSAIC_HEARTBEAT_S": str(heartbeat_s),
        }
        if resume_from is not None:
            variables["MOSAIC_RESUME_FROM"] = str(resume_from)
        self._stderr = (folder / "stderr.log").open("wb")
        self.process = subprocess.Popen(
            [*subject.command, "--config", str(path)],
            cwd=folder,
            env={**environment(), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The leader may be gone while children of its group live on.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._stderr.close()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode({"type": command}) + b"\n")
        self.process.stdin.flush()

    def wait_for(self, kind: type[M], what: str, fits: Callable[[M], bool] = lambda message: True) -> M:
        """The next message of a kind that fits, or CheckFailed when patience or the stream ends."""
        deadline = time.monotonic() + self._subject.patience_s
        while True:
            try:
                message = self._incoming.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                patience = self._subject.patience_s
                raise CheckFailed(f"no {what} within {patience:.0f} s; {self._last_words()}") from None
            if message is None:
                raise CheckFailed(f"the worker ended before its {what}; {self._last_words()}")
            if isinstance(message, kind) and fits(message):
                return message

    def wait(self, within_s: float, after: str) -> int:
        """The exit code, once the worker has ended and all that it said was read."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"still running {within_s:.0f} s after {after}") from None
        self._reader.join(self._subject.grace_s)
        return code

    def stderr_tail(self) -> str:
        return last_line((self.folder / "stderr.log").read_bytes())

    def _last_words(self) -> str:
        return f"last line on stderr: {self.stderr_tail()}"

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(AnyMessage)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message: AnyMessage = decoder.decode(line)
            except msgspec.DecodeError:
                self.bad_lines.append(line)
                continue
            self.messages.append(message)
            self._incoming.put(message)
        self._incoming.put(None)
