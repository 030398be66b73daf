"""`mosaic wait`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mosaic.cli.cancel import told
from mosaic.cli.options import for_each_run, json_option, runs_argument

if TYPE_CHECKING:
    from mosaic.client import Run


@click.command("wait")
@runs_argument
@json_option
def command(references: tuple[str, ...], as_json: bool) -> int:
    """Wait for runs to end.

    The exit code is 0 if all of them ended well, 1 if one did not.
    """
    ended: list[Run] = []

    def act(run: Run) -> Run:
        ended.append(run.wait())
        return run

    code = for_each_run(references, act, told, as_json)
    return code or int(any(run.state != "SUCCEEDED" for run in ended))
