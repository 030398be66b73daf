"""The command line: one file per command, loaded only when it is the one that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        from mosaic import __version__

        print(f"mosaic {__version__}")
        return
    from mosaic.cli.app import run

    sys.exit(run(given))
