"""Control: commands come in through the run folder's FIFO and go out to the worker's stdin, and neither ever blocks."""

from __future__ import annotations

import errno
import os
import select
import stat
from typing import Literal

import msgspec

from mosaic.paths import RunFolder

Command = Literal["pause", "resume", "checkpoint", "cancel"]
COMMANDS: tuple[Command, ...] = ("pause", "resume", "checkpoint", "cancel")

_LINE_LIMIT = 4096
_UNHEARD_LIMIT = 16 * 1024


class ControlError(Exception):
    """A command could not be handed to the shepherd; the text is one line for people."""


class ShepherdGone(ControlError):
    """No shepherd listens: the run is not started yet, or over."""


def send(folder: RunFolder, command: str) -> None:
    """Hand a command to the run's shepherd. It is taken, not yet carried out, when this returns."""
    if command not in COMMANDS:
        raise ControlError(f"control command {command!r} is not one of {', '.join(COMMANDS)}")
    try:
        descriptor = os.open(folder.control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise ShepherdGone(f"run {folder.run_id} has no shepherd that could take {command!r}") from None
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ShepherdGone(f"the shepherd of run {folder.run_id} is gone, {command!r} was not sent") from None
        raise
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise ShepherdGone(f"{folder.control} is not a FIFO, so no shepherd reads it")
        os.write(descriptor, msgspec.json.encode({"type": command}) + b"\n")
    except BlockingIOError:
        raise ControlError(f"the shepherd of run {folder.run_id} does not read its commands") from None
    finally:
        os.close(descriptor)


class _CommandLine(msgspec.Struct):
    type: Command


class Inbox:
    """The shepherd's end of the FIFO."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.control
        self._path.unlink(missing_ok=True)
        os.mkfifo(self._path, 0o600)
        # Opened for both directions, so that it never reaches its end when a sender closes.
        self.descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._decoder = msgspec.json.Decoder(_CommandLine)
        self._partial = b""

    def read(self) -> tuple[list[Command], int]:
        """Commands that arrived, and how many lines were not commands."""
        try:
            data = self._partial + os.read(self.descriptor, _LINE_LIMIT)
        except BlockingIOError:
            return [], 0
        *lines, self._partial = data.split(b"\n")
        commands: list[Command] = []
        bad = 0
        if len(self._partial) > _LINE_LIMIT:
            self._partial = b""
            bad += 1
        for line in lines:
            try:
                commands.append(self._decoder.decode(line).type)
            except (msgspec.DecodeError, UnicodeDecodeError):
                bad += 1
        return commands, bad

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self.descriptor)


class WorkerInput:
    """The shepherd's end of the worker's stdin. What the worker does not read waits here, bounded."""

    def __init__(self, descriptor: int, poll: select.poll) -> None:
        self._descriptor = descriptor
        self._poll = poll
        self._waiting = b""
        self._watched = False
        self._closed = False

    def send(self, kind: str) -> bool:
        """Send or queue a message; False if it had to be dropped."""
        if self._closed or len(self._waiting) > _UNHEARD_LIMIT:
            return False
        self._waiting += msgspec.json.encode({"type": kind}) + b"\n"
        self.flush()
        return not self._closed

    def flush(self) -> None:
        """Write what the pipe takes; the poll loop calls this again when it takes more."""
        if self._closed:
            return  # by another handler, after the poll
        try:
            self._waiting = self._waiting[os.write(self._descriptor, self._waiting) :]
        except BlockingIOError:
            self._watch(True)
        except BrokenPipeError:
            self.close()
        else:
            self._watch(bool(self._waiting))

    def close(self) -> None:
        if not self._closed:
            self._watch(False)
            self._closed = True
            os.close(self._descriptor)

    def _watch(self, wanted: bool) -> None:
        if wanted and not self._watched:
            self._poll.register(self._descriptor, select.POLLOUT)
        elif self._watched and not wanted:
            self._poll.unregister(self._descriptor)
        self._watched = wanted
