"""`mosaic logs`."""

from __future__ import annotations

import json
import sys
import time

import click

from mosaic.cli.options import json_option, run_argument
from mosaic.paths import Home

FOLLOW_INTERVAL_S = 0.2


@click.command("logs")
@run_argument
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until the run ends.")
@click.option("-n", "--lines", type=click.IntRange(0), metavar="N", help="Only the last N lines (with -f: 20).")
@click.option(
    "--file",
    type=click.Choice(["worker", "malformed", "shepherd"]),
    default="worker",
    show_default=True,
    help="worker: what it wrote to stderr; malformed: what was not telemetry; shepherd: the watcher's own.",
)
@json_option
def command(reference: str, follow: bool, lines: int | None, file: str, as_json: bool) -> int:
    """Print or follow a run's log.

    Reads the run folder itself: no daemon is needed. With --json, each line is a JSON string.
    """
    from mosaic.cli import log_files
    from mosaic.cli.exit_codes import DONE, INTERRUPTED
    from mosaic.cli.local_runs import find_run
    from mosaic.shepherd.status import read_status

    folder = find_run(Home.from_environment(), reference).folder
    log = {"worker": folder.worker_log, "malformed": folder.malformed_log, "shepherd": folder.shepherd_log}[file]
    write = _JsonLines() if as_json else _Plain()
    count = 20 if follow and lines is None else lines
    for part in [log_files.last_lines(log, count)] if count is not None else log_files.everything(log):
        write(part)
    if follow:
        ended = {"SUCCEEDED", "FAILED", "CANCELLED", "LOST"}
        try:
            for part in log_files.follow(
                log, lambda: read_status(folder).state in ended, lambda: time.sleep(FOLLOW_INTERVAL_S)
            ):
                write(part)
        except KeyboardInterrupt:
            return INTERRUPTED
    write.close()
    return DONE


class _Plain:
    """Bytes as they are: a log may hold anything."""

    def __call__(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def close(self) -> None:
        pass


class _JsonLines:
    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._write(line)

    def close(self) -> None:
        if self._rest:
            self._write(self._rest)

    def _write(self, line: bytes) -> None:
        sys.stdout.write(json.dumps(line.decode(errors="replace")) + "\n")
        sys.stdout.flush()
