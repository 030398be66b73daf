"""Exit codes, the same for every command (docs/cli.md lists them)."""

from __future__ import annotations

from mosaic.client.errors import BadConfig, MosaicError, NoDaemon, NoSuchRun, NoSuchWorker, NotPossible

DONE = 0
FAILED = 1
USAGE = 2
NO_DAEMON = 3
NOT_FOUND = 4
NOT_POSSIBLE = 5
INTERRUPTED = 130

_CODES: tuple[tuple[type[MosaicError], int], ...] = (
    (BadConfig, USAGE),
    (NoDaemon, NO_DAEMON),
    (NoSuchRun, NOT_FOUND),
    (NoSuchWorker, NOT_FOUND),
    (NotPossible, NOT_POSSIBLE),
)


def code_of(error: MosaicError) -> int:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return FAILED
