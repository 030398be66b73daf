"""In a terminal: a live picture, colours unless NO_COLOR says no, and nothing left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
from typing import Any


def in_terminal(mosaic: Any, *arguments: str, **variables: str) -> tuple[int, str]:
    """Exit code and everything that a terminal was sent."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    environment = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **variables}
    command = type(mosaic)(mosaic.home, mosaic.cwd, environment)
    process = command.start(*arguments, stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT)
    os.close(terminal)
    sent = b""
    with contextlib.suppress(OSError):  # EIO: nobody holds the terminal any more
        while part := os.read(controller, 1 << 16):
            sent += part
    os.close(controller)
    return process.wait(), sent.decode()


def test_watching_draws_a_bar_and_a_curve(mosaic: Any) -> None:
    arguments = ("train", "tabular", "--total-timesteps", "5000", "--report-every", "100", "--name", "drawn", "--watch")
    code, sent = in_terminal(mosaic, *arguments)
    assert code == 0
    assert "━━━━" in sent
    assert "step 5,000 of 5,000" in sent
    assert "return" in sent
    assert "\x1b[32m" in sent
    assert sent.rstrip().endswith("\x1b[?25h")  # the cursor is back
    code, sent = in_terminal(mosaic, "watch", "drawn", NO_COLOR="1")
    assert code == 0
    assert "\x1b[32m" not in sent
