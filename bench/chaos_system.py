"""One chaos trial of the whole system: a daemon with its API, several runs, and deeds against all of it.

Workers, shepherds and the daemon are killed at random moments, the disk is filled and emptied, runs are paused,
resumed and cancelled. At the end a fresh daemon must tell the truth about every run that was ever accepted.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_trial import Violation

from mosaic.client import Client, DaemonError, MosaicError, NoDaemon, Run
from mosaic.envs import InstalledWorker
from mosaic.paths import Home
from mosaic.shepherd.clearing import kill_leftovers
from mosaic.shepherd.exit_record import read_exit
from mosaic.shepherd.launch import shared_memory_folder
from mosaic.shepherd.lock import is_locked, read_shepherd
from mosaic.shepherd.processes import leftovers
from mosaic.store import RunReader, StoreMissing

WORKERS = Path(__file__).parent / "workers"
ENDED = {"SUCCEEDED", "FAILED", "CANCELLED", "LOST"}
DEEDS = {
    "kill_daemon": 5,
    "kill_shepherd": 4,
    "kill_worker": 4,
    "stop_daemon": 1,
    "cancel": 2,
    "pause": 2,
    "resume": 2,
    "checkpoint": 1,
    "submit": 3,
    "nothing": 2,
}


@dataclass
class Tracked:
    """A run that was accepted, what a reader has seen of it, and what was done to it."""

    run: Run
    total: int
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    deeds: set[str] = field(default_factory=set)


class SystemTrial:
    def __init__(self, seed: int, base: Path, *, small_disk: bool = False) -> None:
        self.seed = seed
        self._rng = random.Random(seed)
        self._home = Home(base / f"home-{seed}")
        self._ballast = self._home.root / "ballast"
        self._small_disk = small_disk
        self._daemon: subprocess.Popen[bytes] | None = None
        self._client = Client(self._home, timeout=20)
        self._tracked: list[Tracked] = []
        self.log: list[str] = []

    def run(self) -> Counter[str]:
        """How the runs ended; raises Violation. Leaves no process, whatever happens."""
        self._home.root.mkdir()
        if self._small_disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "mosaic-chaos", self._home.root], check=True)
        try:
            self._install_worker()
            self._start_daemon()
            for _ in range(self._rng.randint(1, 3)):
                self._submit()
            until = time.monotonic() + self._rng.uniform(1.0, 4.0)
            while time.monotonic() < until:
                self._watch(self._rng.expovariate(1 / 0.25))
                self._do(self._rng.choices(list(DEEDS), list(DEEDS.values()))[0])
                if self._small_disk and self._rng.random() < 0.15:
                    self._fill_disk()
            return self._settle()
        finally:
            self._clean_up()

    # Deeds

    def _do(self, deed: str) -> None:
        self.log.append(deed)
        tracked = self._rng.choice(self._tracked) if self._tracked else None
        if deed == "kill_daemon":
            self._kill_daemon(signal.SIGKILL)
            if self._rng.random() < 0.8:
                self._start_daemon()
        elif deed == "stop_daemon":
            self._kill_daemon(signal.SIGTERM)
            self._start_daemon()
        elif deed == "submit":
            self._submit()
        elif tracked is not None and deed in ("kill_shepherd", "kill_worker"):
            self._kill(tracked, deed)
        elif tracked is not None and deed in ("cancel", "pause", "resume", "checkpoint"):
            if deed == "resume":  # of a run that has ended, it asks for another attempt: not what is meant here
                with contextlib.suppress(MosaicError, OSError):
                    if tracked.run.refresh().state != "PAUSED":
                        return
            tracked.deeds.add(deed)  # it may have been taken although the answer was lost
            with contextlib.suppress(MosaicError, OSError):
                getattr(tracked.run, deed)()

    def _kill(self, tracked: Tracked, deed: str) -> None:
        info = read_shepherd(self._home.run(tracked.run.id))
        if info is None or not is_locked(self._home.run(tracked.run.id)):
            return
        pid = info.pid if deed == "kill_shepherd" else info.worker_pid
        if pid is not None:
            tracked.deeds.add(deed)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _submit(self) -> None:
        total = self._rng.choice([1, 2000, 20_000, 60_000])
        config = {"total_timesteps": total, "seed": self._rng.randrange(1000), "daemon": self._rng.random() < 0.3}
        retry = self._rng.choice([None, "restart:2", "resume:3"])
        with contextlib.suppress(NoDaemon, DaemonError, OSError):
            self._tracked.append(Tracked(self._client.submit("chaos", config, retry=retry), total))

    def _fill_disk(self) -> None:
        self.log.append("fill_disk")
        for tracked in self._tracked:
            tracked.deeds.add("fill_disk")
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        self._watch(self._rng.uniform(0.1, 2.0))
        self._ballast.unlink()

    def _start_daemon(self) -> None:
        environment = os.environ | {
            "MOSAIC_HOME": str(self._home.root),
            "MOSAIC_CPUS": "2",
            "MOSAIC_ORPHAN_GRACE_S": "0.5",
            "OMP_NUM_THREADS": "1",
        }
        with (self._home.root.parent / f"daemon-{self.seed}.log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "mosaic.daemon", "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + 30
        while self._daemon.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                if json.loads(self._home.daemon_info.read_bytes())["pid"] == self._daemon.pid:
                    return
            time.sleep(0.02)
        if "fill_disk" not in self.log:
            log_text = (self._home.root.parent / f"daemon-{self.seed}.log").read_text()
            raise self._violation(f"the daemon does not start: {log_text[-1000:]}")

    def _kill_daemon(self, number: int) -> None:
        if self._daemon is not None:
            self._daemon.send_signal(number)
            try:
                self._daemon.wait(30)
            except subprocess.TimeoutExpired:
                raise self._violation(f"the daemon does not end by signal {number}") from None
            self._daemon = None

    # Watching, and the reckoning

    def _watch(self, seconds: float) -> None:
        """Read on in every run: what was readable once must stay."""
        until = time.monotonic() + seconds
        while True:
            for tracked in self._tracked:
                tracked.seen += self._rows(tracked.run.id, since=len(tracked.seen), limit=2000)
            if time.monotonic() >= until:
                return
            time.sleep(0.02)

    def _rows(self, run_id: str, *, since: int, limit: int = 1_000_000) -> list[tuple[Any, ...]]:
        try:
            with RunReader(self._home.run(run_id).store) as reader:
                rows = reader.read(since, limit=limit)
        except StoreMissing:
            return []
        return [(row["seq"], row["attempt"], row["type"], row.get("step"), row["time"]) for row in rows]

    def _settle(self) -> Counter[str]:
        self._kill_daemon(signal.SIGKILL)
        self._start_daemon()
        deadline = time.monotonic() + 120
        endings: Counter[str] = Counter()
        for tracked in self._tracked:
            while tracked.run.refresh().state not in ENDED:
                if tracked.run.state == "PAUSED":
                    with contextlib.suppress(MosaicError):
                        tracked.run.resume()
                if time.monotonic() > deadline:
                    raise self._violation(f"run {tracked.run.id} is still {tracked.run.state}")
                time.sleep(0.05)
            self._reckon(tracked)
            endings[f"{tracked.run.state}/{(tracked.run.exit or {}).get('reason')}"] += 1
        self._kill_daemon(signal.SIGTERM)
        return endings

    def _reckon(self, tracked: Tracked) -> None:
        run, folder = tracked.run, self._home.run(tracked.run.id)

        def check(true: bool, what: str) -> None:
            if not true:
                raise self._violation(f"run {run.id} ({run.state}, {sorted(tracked.deeds)}): {what}")

        check(not is_locked(folder), "the lock is still held")
        check(leftovers(run.id) == [], f"processes left: {leftovers(run.id)}")
        check(not shared_memory_folder(run.id).exists(), "shared memory left")
        record = read_exit(folder)
        assert record is not None
        check(record.outcome.upper() == run.state, f"exit.json says {record.outcome}")
        rows = self._rows(run.id, since=0)
        check([row[0] for row in rows] == list(range(1, len(rows) + 1)), "sequence numbers have gaps or doubles")
        check(rows[: len(tracked.seen)] == tracked.seen, "rows that were readable once are gone or changed")
        starts = folder.path / "starts"
        attempts = [line.split()[0] for line in starts.read_text().splitlines()] if starts.exists() else []
        check(len(set(attempts)) == len(attempts), f"attempts started: {attempts}")
        for attempt in {row[1] for row in rows}:
            steps = [row[3] for row in rows if row[1] == attempt and row[2] == "step"]
            if steps:
                check(steps == list(range(steps[0], steps[0] + len(steps))), f"attempt {attempt} has gaps or doubles")
                check(attempt > 1 or steps[0] == 1, "the first step is missing")
        done = {(row[1], row[3]) for row in rows if row[2] == "run_completed"}
        check(run.state != "SUCCEEDED" or (record.attempt, tracked.total) in done, "a success that was none")
        check(run.state != "CANCELLED" or "cancel" in tracked.deeds, "cancelled by nobody")
        check(run.state != "LOST" or "kill_shepherd" in tracked.deeds, "lost by nobody")
        harmed = {"kill_worker", "kill_shepherd", "fill_disk"} & tracked.deeds
        check(run.state != "FAILED" or bool(harmed), f"failed without a reason: {record.message}")

    def _violation(self, what: str) -> Violation:
        return Violation(f"seed {self.seed}: {what}; deeds: {' '.join(self.log)}")

    def _install_worker(self) -> None:
        """What an installed worker leaves in `envs`, with our own Python."""
        folder = self._home.envs / "chaos"
        python = folder / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(
            f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(WORKERS))} exec {shlex.quote(sys.executable)} "$@"\n'
        )
        python.chmod(0o755)
        InstalledWorker(
            name="chaos",
            module="chaos_worker",
            distribution="chaos-worker",
            version="0.1.0",
            folder=folder,
            source="chaos-worker",
            editable=False,
            extras=(),
            installed=time.time(),
            fingerprint="",
        ).write()

    def _clean_up(self) -> None:
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
        for path in self._home.runs.glob("[!.]*"):
            folder = self._home.run(path.name)
            info = read_shepherd(folder)
            if info is not None and is_locked(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(info.pid, signal.SIGKILL)
            kill_leftovers(path.name)
        if self._small_disk:
            subprocess.run(["umount", "--lazy", self._home.root], check=True)
