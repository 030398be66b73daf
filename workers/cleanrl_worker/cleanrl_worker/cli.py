"""`python -m cleanrl_worker.cli`: the command line of the worker contract."""

import os
import sys

from cleanrl_worker import patches
from cleanrl_worker.runtime import CleanRLWorkerRuntime
from mosaic.worker.cli import main

if __name__ == "__main__":
    # Inherited by the script's process: neither has a screen, and nobody needs pygame's greeting in the log.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("MUJOCO_GL", "egl")
    patches.install()
    sys.exit(main(CleanRLWorkerRuntime()))
