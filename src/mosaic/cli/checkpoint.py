"""`mosaic checkpoint`."""

from __future__ import annotations

import click

from mosaic.cli.options import for_each_run, json_option, runs_argument


@click.command("checkpoint")
@runs_argument
@json_option
def command(references: tuple[str, ...], as_json: bool) -> int:
    """Ask running runs to write a checkpoint now."""
    return for_each_run(
        references,
        lambda run: run.checkpoint(),
        lambda run: f"{run.name}: asked for one",
        as_json,
        member=lambda run: not run.ended,
    )
