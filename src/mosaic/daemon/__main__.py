"""`python -m mosaic.daemon`: the daemon in the foreground. `mosaic up` starts it in the background."""

from __future__ import annotations

import argparse
import os
import sys

from mosaic.paths import Home
from mosaic.system import HAS_RUNS, NEEDS_LINUX


def main() -> int:
    if not HAS_RUNS:
        print(f"mosaic daemon: {NEEDS_LINUX}", file=sys.stderr)
        return 1
    # Not for other systems: file locks are not there.
    from mosaic.daemon.holder import AlreadyRunning, take_lock

    parser = argparse.ArgumentParser(prog="python -m mosaic.daemon", description="The trainer daemon.")
    parser.add_argument("--port", type=int, help="on 127.0.0.1; 0: any that is free (default: 8765 if that is free)")
    parser.add_argument("--takeover", action="store_true", help="have a running daemon hand over first")
    options = parser.parse_args()

    home = Home.from_environment()
    try:
        # Held until the process ends.
        take_lock(home, takeover=options.takeover)
    except (AlreadyRunning, OSError) as error:
        print(f"mosaic daemon: {error}", file=sys.stderr)
        return 1
    return _run(home, options.port)


def _run(home: Home, port: int | None) -> int:
    # A second to import all that serves, which only the holder of the lock needs.
    from mosaic.daemon.resources import BadSetting
    from mosaic.daemon.server import run, set_up_log

    set_up_log()
    try:
        run(home, port)
    except (BadSetting, OSError) as error:
        print(f"mosaic daemon: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without waiting for threads, see `server.run`.
    os._exit(code)
