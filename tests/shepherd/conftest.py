"""Real shepherds with small hostile workers: `shepherd(script)` starts one. A run that is waited for must be clean."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from mosaic.paths import RunFolder
from mosaic.shepherd import control
from mosaic.shepherd.clearing import kill_leftovers
from mosaic.shepherd.exit_record import ExitRecord, read_exit
from mosaic.shepherd.launch import Launch, shared_memory_folder, shepherd_command
from mosaic.shepherd.lock import read_shepherd
from mosaic.shepherd.processes import leftovers, read_process
from mosaic.shepherd.status import RunStatus, read_status
from mosaic.store import RunReader, StoreMissing

T = TypeVar("T")

PRELUDE = """\
import json, os, signal, subprocess, sys, time
def say(type, **fields):
    os.write(1, (json.dumps({"type": type, **fields}) + "\\n").encode())
def commands():
    for line in sys.stdin:
        yield json.loads(line)["type"]
"""


def wait_for(condition: Callable[[], T], what: str, timeout: float = 30.0) -> T:
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(0.01)


class Shepherded:
    """A run folder and the shepherd that tends it."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.attempt = 0
        self.peak_mb = 0.0  # of the shepherd's memory, once it has ended

    def start(self, argv: list[str], *, max_files: int | None = None, **launch: Any) -> Shepherded:
        self.attempt += 1
        launch = {"attempt": self.attempt, "term_grace_s": 5.0, "argv": argv} | launch
        self.folder.path.mkdir(exist_ok=True)
        self.folder.logs.mkdir(exist_ok=True)
        self.folder.launch.write_bytes(msgspec.json.encode(Launch(run_id=self.folder.run_id, **launch)))
        with self.folder.shepherd_log.open("ab") as log:
            limit = [] if max_files is None else ["prlimit", f"--nofile={max_files}"]
            self.process = subprocess.Popen(
                [*limit, *shepherd_command(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def script(self, text: str, **launch: Any) -> Shepherded:
        path = self.folder.path.parent / f"{self.folder.run_id}-{self.attempt + 1}.py"
        path.write_text(PRELUDE + textwrap.dedent(text))
        return self.start([sys.executable, "-I", "-S", str(path)], **launch)

    def wait(self, timeout: float = 60.0, *, end_in_store: bool = True) -> ExitRecord:
        """Wait for the shepherd's end and see that it left nothing behind but the record."""
        assert self.process is not None
        wait_for(self._has_ended, "the shepherd's end", timeout)
        assert self.process.returncode == 0, self.folder.shepherd_log.read_text()
        record = read_exit(self.folder)
        assert record is not None
        assert record.attempt == self.attempt
        self.assert_clean()
        assert self.status().state == record.outcome.upper()
        with RunReader(self.folder.store) as reader:
            assert reader.last_seq() == record.last_seq
            if end_in_store:
                assert reader.counters(self.attempt) == record.counts
                assert self.rows("ended")[-1]["outcome"] == record.outcome
        return record

    def _has_ended(self) -> bool:
        assert self.process is not None
        # Not the rusage of its end: that counts the memory of the process which spawned it, too.
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), "0")
        self.peak_mb = max(self.peak_mb, int(peak) / 1024)
        return self.process.poll() is not None

    def assert_clean(self) -> None:
        assert leftovers(self.folder.run_id) == []
        assert not shared_memory_folder(self.folder.run_id).exists()
        assert not self.folder.control.exists()

    def status(self) -> RunStatus:
        return read_status(self.folder)

    def send(self, command: str) -> None:
        wait_for(self.folder.control.exists, "the control FIFO")
        control.send(self.folder, command)

    def rows(self, *kinds: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        try:
            with RunReader(self.folder.store) as reader:
                while batch := reader.read(rows[-1]["seq"] if rows else 0, kinds=kinds or None, limit=100_000):
                    rows += batch
        except StoreMissing:
            return []
        return rows

    def until_state(self, state: str) -> RunStatus:
        def reached() -> RunStatus | None:
            status = self.status()
            return status if status.state == state else None

        return wait_for(reached, f"state {state}")

    def until_row(self, kind: str, **fields: Any) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((r for r in self.rows(kind) if fields.items() <= r.items()), None)

        return wait_for(found, f"a row {kind} {fields}")

    @property
    def worker_pid(self) -> int:
        def pid() -> int | None:
            info = read_shepherd(self.folder)
            return info.worker_pid if info and info.attempt == self.attempt else None

        return wait_for(pid, "the worker's pid")

    def kill_shepherd(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @staticmethod
    def wait_for(condition: Callable[[], T], what: str, timeout: float = 30.0) -> T:
        return wait_for(condition, what, timeout)

    @staticmethod
    def process_states() -> dict[int, tuple[int, str]]:
        """Parent and state letter of every process, zombies included."""
        found = (read_process(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit())
        return {process.pid: (process.parent, process.state) for process in found if process}

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        kill_leftovers(self.folder.run_id)


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[Callable[[], Shepherded]]:
    """Makes run folders without a shepherd."""
    runs: list[Shepherded] = []

    def make() -> Shepherded:
        run_id = f"T{os.getpid()}-{time.time_ns():x}"
        runs.append(Shepherded(RunFolder(tmp_path / run_id)))
        return runs[-1]

    yield make
    for run in runs:
        run.end()


@pytest.fixture
def shepherd(new_run: Callable[[], Shepherded]) -> Callable[..., Shepherded]:
    """Starts a shepherd with a worker script (or argv)."""

    def start(script: str, **launch: Any) -> Shepherded:
        return new_run().script(script, **launch)

    return start
