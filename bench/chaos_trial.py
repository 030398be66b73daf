"""One chaos trial: a run whose worker numbers what it says, random deeds against it, and then the reckoning.

Used by `bench/chaos.py` (hundreds of trials) and by `tests/shepherd/test_chaos.py` (a few). Everything random comes
from the trial's seed, except the moments at which the machine schedules us.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mosaic.paths import RunFolder
from mosaic.shepherd import control
from mosaic.shepherd.clearing import kill_leftovers
from mosaic.shepherd.exit_record import ExitRecord, read_exit
from mosaic.shepherd.launch import Launch, shared_memory_folder, shepherd_command
from mosaic.shepherd.lock import read_shepherd, take_lock
from mosaic.shepherd.processes import leftovers
from mosaic.shepherd.recovery import bury
from mosaic.store import RunReader, StoreMissing

# Says step 1, 2, 3 ... in bursts of any size. `said` holds two numbers: what it is about to say, what it has said.
WORKER = r"""
import os, random, signal, sys, time
start, target, seed, manners = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rng = random.Random(seed)
said = os.open(os.environ["MOSAIC_RUN_DIR"] + f"/said-{os.environ['MOSAIC_ATTEMPT']}", os.O_CREAT | os.O_WRONLY)
os.makedirs(os.environ["MOSAIC_FASTLANE_DIR"], exist_ok=True)
open(os.environ["MOSAIC_FASTLANE_DIR"] + "/ring", "w").write("frame")
if "deaf" in manners:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "daemon" in manners and os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        while True:
            os.write(2, b"a daemon lives\n")
            time.sleep(0.05)
    os._exit(0)
def write(data):
    while data:
        data = data[os.write(1, data):]
step = start
while step < target:
    burst = min(target - step, int(rng.expovariate(1 / 300)) + 1)
    line = b'{"type":"step","step":%d,"extra":{"x":"%s"}}\n'
    lines = b"".join(line % (step + k + 1, b"." * rng.randrange(80)) for k in range(burst))
    step += burst
    os.pwrite(said, b"%020d" % step, 0)
    write(lines)
    os.pwrite(said, b"%020d" % step, 20)
    time.sleep(rng.expovariate(1 / 0.01))
write(b'{"type":"run_completed","step":%d}\n' % step)
"""

DEEDS = ("kill_worker", "kill_shepherd", "term_shepherd", "cancel", "pause_resume", "nothing")


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Trial:
    seed: int
    base: Path
    attempts: list[str] = field(default_factory=list)  # what was done and how it ended, for the report

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self.run_id = f"C{os.getpid()}-{self.seed}-{time.time_ns():x}"
        self.folder = RunFolder(self.base / self.run_id)
        self._worker = self.base / f"{self.run_id}.py"

    def run(self) -> list[str]:
        """All attempts of one run; raises Violation. Leaves no process, whatever happens."""
        self.folder.logs.mkdir(parents=True)
        self._worker.write_text(WORKER)
        start = 0
        try:
            for attempt in range(1, self._rng.randint(1, 3) + 1):
                record = self._attempt(attempt, start)
                if record.outcome == "succeeded":
                    break
                start = self._rng.randint(0, record.last_step or 0)  # "the checkpoint" to resume from
        finally:
            kill_leftovers(self.run_id)
        return self.attempts

    def _attempt(self, attempt: int, start: int) -> ExitRecord | NeverStarted:
        rng = self._rng
        target = start + rng.choice([0, 300, 30_000, 100_000, 1_000_000])
        manners = rng.choice(["plain", "plain", "deaf", "daemon", "deaf+daemon"])
        launch = Launch(
            run_id=self.run_id,
            attempt=attempt,
            argv=[sys.executable, "-I", "-S", str(self._worker), str(start), str(target), str(self.seed), manners],
            resume_step=start if attempt > 1 else None,
            term_grace_s=0.3,
        )
        self.folder.launch.write_bytes(msgspec.json.encode(launch))
        with self.folder.shepherd_log.open("ab") as log:
            shepherd = subprocess.Popen(
                shepherd_command(self.folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deeds = rng.choices(DEEDS, weights=(4, 4, 1, 2, 2, 1), k=rng.randint(1, 2))
        seen = 0
        if rng.random() < 0.8:  # else the deed comes while everything is still being set up
            self._await_first_word(shepherd, attempt)
        for deed in deeds:
            until = time.monotonic() + rng.choice([0.0, 0.05, 0.15, 0.4]) * rng.uniform(0.5, 1.5)
            while time.monotonic() < until and shepherd.poll() is None:
                seen = max(seen, self._acknowledged(attempt))
                time.sleep(0.01)
            self._do(deed, shepherd, attempt)
        if target - start == 1_000_000 and not {"kill_shepherd", "term_shepherd"} & set(deeds):
            self._cancel(shepherd)
            deeds.append("cancel")
        self._await_end(shepherd, deeds)
        return self._reckon(attempt, start, target, seen, deeds, manners)

    def _await_first_word(self, shepherd: subprocess.Popen[bytes], attempt: int) -> None:
        while self._said(attempt) == (0, 0) and shepherd.poll() is None:
            time.sleep(0.005)

    def _do(self, deed: str, shepherd: subprocess.Popen[bytes], attempt: int) -> None:
        if deed == "kill_worker":
            info = read_shepherd(self.folder)
            if info is not None and info.attempt == attempt and info.worker_pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(info.worker_pid, signal.SIGKILL)
        elif deed == "kill_shepherd":
            shepherd.kill()
        elif deed == "term_shepherd":
            shepherd.terminate()
        elif deed in ("cancel", "pause_resume"):
            with contextlib.suppress(control.ShepherdGone):
                for command in ("cancel",) if deed == "cancel" else ("pause", "resume"):
                    control.send(self.folder, command)

    def _cancel(self, shepherd: subprocess.Popen[bytes]) -> None:
        while shepherd.poll() is None:
            try:
                control.send(self.folder, "cancel")
            except control.ShepherdGone:
                time.sleep(0.01)
            else:
                return

    def _await_end(self, shepherd: subprocess.Popen[bytes], deeds: list[str]) -> None:
        try:
            code = shepherd.wait(60)
        except subprocess.TimeoutExpired:
            shepherd.kill()
            raise Violation(f"seed {self.seed}: the run did not end after {deeds}") from None
        if code in (-signal.SIGKILL, -signal.SIGTERM):  # SIGTERM: before it could listen
            bury(self.folder, grace_s=0.3)
        elif code != 0:
            log = self.folder.shepherd_log.read_text()
            raise Violation(f"seed {self.seed}: the shepherd exited with {code}: {log}")

    def _acknowledged(self, attempt: int) -> int:
        """The highest step of this attempt that a reader sees."""
        try:
            with RunReader(self.folder.store) as reader:
                info = reader.last_attempt()
                return (info.last_step or 0) if info and info.attempt == attempt else 0
        except StoreMissing:
            return 0

    def _said(self, attempt: int) -> tuple[int, int]:
        path = self.folder.path / f"said-{attempt}"
        text = path.read_text() if path.exists() else ""
        return int(text[:20] or 0), int(text[20:40] or 0)

    def _reckon(
        self, attempt: int, start: int, target: int, seen: int, deeds: list[str], manners: str
    ) -> ExitRecord | NeverStarted:
        def check(true: bool, what: str) -> None:
            if not true:
                raise Violation(f"seed {self.seed}, attempt {attempt}, {manners}, {deeds}: {what}")

        check(self._lock_is_free(), "the lock is still held")
        check(leftovers(self.run_id) == [], f"processes left: {leftovers(self.run_id)}")
        check(not shared_memory_folder(self.run_id).exists(), "shared memory left")
        record = read_exit(self.folder)
        if record is None or record.attempt != attempt:
            info = read_shepherd(self.folder)
            check(info is None or info.attempt != attempt, "it was started, but its end is not on record")
            self.attempts.append(f"{manners} {'+'.join(deeds)}: never started")
            return NeverStarted()
        self.attempts.append(f"{manners} {'+'.join(deeds)}: {record.outcome}/{record.reason}")
        rows = self._rows()
        check([row["seq"] for row in rows] == list(range(1, len(rows) + 1)), "sequence numbers have gaps or doubles")
        check(record.last_seq == len(rows), f"exit.json says last_seq {record.last_seq}, the store holds {len(rows)}")
        steps = [row["step"] for row in rows if row["type"] == "step" and row["attempt"] == attempt]
        last = start + len(steps)
        check(steps == list(range(start + 1, last + 1)), "steps are missing, doubled or out of order")
        intended, confirmed = self._said(attempt)
        check(last <= max(intended, start), f"{last} steps stored, but only {intended} were ever said")
        check(last >= seen, f"step {seen} was acknowledged, but the store ends at {last}")
        watched = "kill_shepherd" not in deeds or record.outcome != "lost"
        check(not watched or last >= confirmed, f"the worker had written {confirmed}, the store ends at {last}")
        completed = any(row["type"] == "run_completed" and row["attempt"] == attempt for row in rows)
        check(record.outcome != "succeeded" or (completed and last == target), "a success that was none")
        check(record.outcome != "cancelled" or "cancel" in deeds, "cancelled by nobody")
        check(record.outcome != "failed" or "kill_worker" in deeds, f"failed without a reason: {record.message}")
        check(record.outcome != "lost" or {"kill_shepherd", "term_shepherd"} & set(deeds) != set(), "lost by nobody")
        return record

    def _lock_is_free(self) -> bool:
        # Patiently, as everybody takes it: a child that another trial's thread is forking here has it until its exec.
        lock = take_lock(self.folder)
        if lock is not None:
            os.close(lock)
        return lock is not None

    def _rows(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        if not self.folder.store.exists():  # killed before it was made
            return rows
        with RunReader(self.folder.store) as reader:
            while batch := reader.read(len(rows), limit=50_000):
                rows += batch
        return rows


class NeverStarted:
    outcome = "never started"
    last_step = 0
