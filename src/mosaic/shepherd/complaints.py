"""What the shepherd has to say about itself, for logs/shepherd.log."""

from __future__ import annotations

import contextlib
import os


def complain(text: str) -> None:
    # The log may be on the very disk that is full: what it cannot take is lost, and the run goes on.
    with contextlib.suppress(OSError):
        os.write(2, f"shepherd: {text}\n".encode(errors="replace"))
