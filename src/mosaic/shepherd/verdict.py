"""From what was seen to how the attempt ended: one pure function, so that every case can be tested."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

from mosaic.shepherd.exit_record import Outcome, Reason

# Why the shepherd itself ended the worker, if it did.
Cause = Literal["cancel", "out_of_memory", "disk_full", "told_to_end"]

_BAD_CONFIG = 2


@dataclass(frozen=True)
class Seen:
    status: int | None = None  # as wait(2) gave it; None: the worker's end was not seen
    cause: Cause | None = None
    detail: str = ""  # about the cause
    completed: Literal["finished", "stopped"] | None = None
    failure: str | None = None  # the error that the worker itself reported
    last_words: str = ""  # the last line on stderr
    kernel_killed: bool = False  # the run's own cgroup counted an out-of-memory kill
    machine_oom: bool = False  # the machine's counter of such kills moved meanwhile
    unspoken: int = 0  # messages that could not be stored


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    reason: Reason
    message: str
    exit_code: int | None = None
    signal: str | None = None


def judge(seen: Seen) -> Verdict:
    exit_code, signal_name = _parse(seen.status)

    def verdict(outcome: Outcome, reason: Reason, message: str) -> Verdict:
        return Verdict(outcome, reason, message, exit_code, signal_name)

    if seen.kernel_killed or seen.cause == "out_of_memory":
        return verdict("failed", "out_of_memory", seen.detail or "killed by the kernel: over the run's memory limit")
    if seen.cause == "disk_full":
        return verdict("failed", "disk_full", f"{seen.detail}; {seen.unspoken} messages are lost")
    if seen.completed == "finished" and seen.cause is not None:
        return verdict("succeeded", "completed", "completed, and was then told to end")
    if seen.cause == "cancel":
        return verdict("cancelled", "cancelled", _how_it_went("cancelled", exit_code, signal_name))
    if seen.cause == "told_to_end":
        return verdict("lost", "killed", _how_it_went("the shepherd was told to end", exit_code, signal_name))
    if exit_code == 0:
        if seen.failure is not None:
            return verdict("failed", "error", seen.failure)
        if seen.completed == "stopped":
            # By a signal from outside MOSAIC: it ended in good order, but not with what was asked for.
            return verdict("cancelled", "stopped", "ended early, told to stop by something other than MOSAIC")
        return verdict("succeeded", "completed", "completed")
    if signal_name is not None:
        hint = ", while the kernel's out-of-memory killer was at work on this machine" if seen.machine_oom else ""
        words = seen.failure or seen.last_words
        return verdict(
            "failed", "killed", f"killed by {signal_name}{hint}" + (f"; it last said: {words}" if words else "")
        )
    if exit_code is None:
        return verdict("lost", "unknown", "the worker's end was not seen")
    said = seen.failure or seen.last_words
    if seen.completed is not None:
        said = f"reported '{seen.completed}' and then ended with exit code {exit_code}" + (f": {said}" if said else "")
    elif not said:
        said = f"exit code {exit_code} without a word"
    elif seen.failure is None and exit_code != _BAD_CONFIG:
        # The last line of its log may be an error, or anything else that it happened to print.
        said = f"exit code {exit_code}; it last said: {said}"
    return verdict("failed", "bad_config" if exit_code == _BAD_CONFIG else "error", said)


def _how_it_went(what: str, exit_code: int | None, signal_name: str | None) -> str:
    if signal_name is not None:
        return f"{what}; the worker ended by {signal_name}"
    if exit_code is None:
        return f"{what}; the worker's end was not seen"
    return f"{what}; the worker ended with exit code {exit_code}"


def _parse(status: int | None) -> tuple[int | None, str | None]:
    """Exit code and signal name of a wait status."""
    if status is None:
        return None, None
    if status & 0x7F == 0:
        return status >> 8 & 0xFF, None
    number = status & 0x7F
    if number in signal.valid_signals():
        try:
            return None, signal.Signals(number).name
        except ValueError:
            return None, f"SIGRTMIN+{number - signal.SIGRTMIN}"
    return None, f"signal {number}"
