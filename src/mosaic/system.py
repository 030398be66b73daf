"""What of MOSAIC needs a Linux kernel, said in one way."""

from __future__ import annotations

import sys

HAS_RUNS = sys.platform == "linux"
NEEDS_LINUX = (
    f"runs need a Linux kernel, this is {sys.platform}; what works without: mosaic worker install and check, "
    "mosaic export and logs, reading copied run folders"
)
