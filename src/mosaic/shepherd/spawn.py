"""Start the worker: its own session and group, three pipes, and a death signal tied to the shepherd."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mosaic.shepherd.processes import die_with_parent

_TELEMETRY_PIPE_BYTES = 1 << 20
_LOG_PIPE_BYTES = 256 << 10


class SpawnFailed(Exception):
    """The worker could not be started; the text is one line for people."""


@dataclass(frozen=True)
class Spawned:
    pid: int
    stdin: int
    stdout: int
    stderr: int


def spawn(argv: Sequence[str], environment: Mapping[str, str], folder: str) -> Spawned:
    stdin_read, stdin_write = os.pipe2(os.O_CLOEXEC)
    stdout_read, stdout_write = os.pipe2(os.O_CLOEXEC)
    stderr_read, stderr_write = os.pipe2(os.O_CLOEXEC)
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    shepherd = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_worker(shepherd, (stdin_read, stdout_write, stderr_write), report_write, argv, environment, folder)
    for descriptor in (stdin_read, stdout_write, stderr_write, report_write):
        os.close(descriptor)
    with os.fdopen(report_read, "rb") as report:
        trouble = report.read()  # ends at the worker's exec, which closes the other end
    if trouble:
        os.waitpid(pid, 0)
        for descriptor in (stdin_write, stdout_read, stderr_read):
            os.close(descriptor)
        raise SpawnFailed(trouble.decode())
    for descriptor in (stdin_write, stdout_read, stderr_read):
        os.set_blocking(descriptor, False)
    _enlarge(stdout_read, _TELEMETRY_PIPE_BYTES)
    _enlarge(stderr_read, _LOG_PIPE_BYTES)
    return Spawned(pid, stdin_write, stdout_read, stderr_read)


def _become_worker(
    shepherd: int,
    streams: tuple[int, int, int],
    report: int,
    argv: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
) -> NoReturn:
    """In the forked child: must end in exec or exit, never return into the shepherd's code."""
    step = "prepare the worker process"
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setsid()
        die_with_parent(signal.SIGTERM)
        if os.getppid() != shepherd:  # it died before the line above took effect
            os._exit(127)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
        step = f"enter the working folder {folder}"
        os.chdir(folder)
        step = f"start {argv[0]}"
        os.execvpe(argv[0], list(argv), dict(environment))
    except OSError as error:
        os.write(report, f"could not {step}: {error.strerror}".encode(errors="replace"))
    except ValueError as error:  # a NUL byte in an argument or a variable
        os.write(report, f"could not {step}: {error}".encode(errors="replace"))
    finally:
        os._exit(127)


def _enlarge(pipe: int, size: int) -> None:
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)
    except PermissionError:
        return  # over the user's share of pipe memory: the default size works too, in more turns
