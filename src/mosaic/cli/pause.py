"""`mosaic pause`."""

from __future__ import annotations

import click

from mosaic.cli.options import for_each_run, json_option, runs_argument


@click.command("pause")
@runs_argument
@json_option
def command(references: tuple[str, ...], as_json: bool) -> int:
    """Pause running runs.

    A worker that can pauses itself between two steps; the processes of any other are stopped. `mosaic resume` lets
    them go on.
    """
    return for_each_run(
        references,
        lambda run: run.pause(),
        lambda run: f"{run.name}: pausing",
        as_json,
        member=lambda run: not run.ended,
    )
