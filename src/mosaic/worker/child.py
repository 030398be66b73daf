"""A worker whose upstream runs in a process of its own: the child says and obeys what the worker would.

The worker calls `run_child`, the child's code calls `joined_run`. The child writes telemetry on the worker's stream,
gets every control command on its stdin, sends the heartbeats, and hands its summary back through a pipe. Saying
`run_started` and `run_completed` stays with the worker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mosaic.worker.control import Control
from mosaic.worker.run import RUN_DIR_VARIABLE, Run, RunPlace
from mosaic.worker.telemetry import TelemetryEmitter, take_stdout

RESULT_FD_VARIABLE = "MOSAIC_RESULT_FD"


class ChildFailed(Exception):
    """The child process did not do its work; the child's own traceback, if it had one, is a note on this."""


class _Result(msgspec.Struct, omit_defaults=True):
    summary: dict[str, Any] = {}
    step: int | None = None
    error: str = ""
    traceback: str = ""


def run_child(
    run: Run, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> dict[str, Any]:
    """Let a child process do the work of this run, to its end; the answer is its summary."""
    descriptor, shared = run.telemetry.share()
    result_read, result_write = os.pipe()
    variables = {
        **os.environ,
        **shared,
        RESULT_FD_VARIABLE: str(result_write),
        RUN_DIR_VARIABLE: str(run.folder),
        "MOSAIC_RUN_ID": run.id,
        "MOSAIC_ATTEMPT": str(run.attempt),
        **(env or {}),
    }
    run.telemetry.leave_heartbeats_to_child()
    with os.fdopen(result_read, "rb") as results:
        process = subprocess.Popen(
            argv,
            env=variables,
            cwd=cwd or run.folder,
            stdin=subprocess.PIPE,
            stdout=sys.stderr,
            pass_fds=(descriptor, result_write),
        )
        os.close(result_write)
        assert process.stdin is not None
        pipe = process.stdin.fileno()

        def send(command: str) -> None:
            with contextlib.suppress(BrokenPipeError):
                os.write(pipe, msgspec.json.encode({"type": command}) + b"\n")

        run.control.relay_to(send)
        answer = results.read()
        code = process.wait()
        run.control.relay_to(None)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    run.manifest.reload()
    return _judge(run, answer, code)


def _judge(run: Run, answer: bytes, code: int) -> dict[str, Any]:
    result = msgspec.json.decode(answer, type=_Result) if answer else _Result()
    run.telemetry.last_step = result.step
    if result.error:
        failure = ChildFailed(result.error)
        if result.traceback:
            failure.add_note(result.traceback)
        raise failure
    if answer:
        # It has done its work, however its process came to its end: a stop's SIGTERM may still reach it while it
        # winds down, when Python no longer minds its signals.
        return result.summary
    if code < 0:
        raise ChildFailed(f"the child process was ended by {signal.Signals(-code).name}")
    raise ChildFailed(f"the child process ended with exit code {code} without a result")


@dataclass
class ChildRun:
    """The child's side: the run that it works for, and the summary that it hands back."""

    run: Run
    summary: dict[str, Any] = field(default_factory=dict)


@contextmanager
def joined_run(worker: str) -> Iterator[ChildRun]:
    """In the child: be part of the run. What is raised inside is told to the worker and then raised again."""
    results = int(os.environ.pop(RESULT_FD_VARIABLE))
    os.set_inheritable(results, False)
    control = Control(supervised=True)
    control.listen()
    telemetry = TelemetryEmitter(take_stdout(), on_reader_gone=control.request_stop)
    child = ChildRun(Run(RunPlace.from_environment(""), worker=worker, telemetry=telemetry, control=control))
    result = _Result()
    try:
        yield child
        result.summary = child.summary
    except BaseException as error:
        result.error = f"{type(error).__name__}: {error}"
        result.traceback = traceback.format_exc()
        raise
    finally:
        telemetry.close()
        result.step = telemetry.last_step
        with os.fdopen(results, "wb") as pipe:
            pipe.write(msgspec.json.encode(result))
