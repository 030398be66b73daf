"""Starting and stopping the daemon from outside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mosaic import __version__, flock
from mosaic.build import fingerprint
from mosaic.client.errors import DaemonStartFailed, MosaicError, NoDaemon
from mosaic.client.transport import DaemonInfo, read_daemon_info
from mosaic.paths import HOME_VARIABLE, Home
from mosaic.system import HAS_RUNS, NEEDS_LINUX

if TYPE_CHECKING:
    from mosaic.client import Client

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Started:
    """What `start_daemon` found or did."""

    info: DaemonInfo
    how: Literal["running", "started", "replaced"]


def start_daemon(client: Client) -> Started:
    """Make sure that a daemon of this very code answers; one of another version hands over first."""
    if not HAS_RUNS:
        raise DaemonStartFailed(NEEDS_LINUX)
    how: Literal["started", "replaced"] = "started"
    running = _answering(client)
    if running is not None:
        if (running.version, running.code) == (__version__, fingerprint()):
            return Started(running, "running")
        stop_daemon(client)
        how = "replaced"
    process, log, log_start = _spawn(client.home)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        info = _answering(client)
        if info is not None:
            return Started(info, how)
        if process.poll() not in (None, 0) and not lock_is_held(client.home):
            raise DaemonStartFailed(f"the daemon did not start: {_last_line(log, log_start)} (all of it: {log})")
        time.sleep(0.02)
    raise DaemonStartFailed(f"the daemon did not answer within {START_TIMEOUT_S:g} s; its log: {log}")


def stop_daemon(client: Client) -> None:
    """Ask the daemon to end and wait until it has let go of its lock."""
    client.transport.request("POST", "/daemon/shutdown")
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while lock_is_held(client.home):
        if time.monotonic() > deadline:
            raise MosaicError(f"the daemon was told to stop and still runs after {STOP_TIMEOUT_S:g} s")
        time.sleep(0.02)


def lock_is_held(home: Home) -> bool:
    """Whether a daemon lives: it holds the lock for as long as it does."""
    return flock.is_held(home.daemon_lock)


def _answering(client: Client) -> DaemonInfo | None:
    try:
        client.transport.request("GET", "/status")
    except NoDaemon:
        return None
    return read_daemon_info(client.home)


def _spawn(home: Home) -> tuple[subprocess.Popen[bytes], Path, int]:
    home.trainer.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = home.daemon_log
    with log.open("ab") as file:
        log_start = file.tell()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mosaic.daemon"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=home.root,
            env={**os.environ, HOME_VARIABLE: str(home.root)},
            start_new_session=True,
        )
    return process, log, log_start


def _last_line(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else "it said nothing"
