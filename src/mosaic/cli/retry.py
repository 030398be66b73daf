"""`mosaic retry`."""

from __future__ import annotations

import click

from mosaic.cli.options import for_each_run, json_option, runs_argument


@click.command("retry")
@runs_argument
@json_option
def command(references: tuple[str, ...], as_json: bool) -> int:
    """Start ended runs again from the beginning.

    The new attempt's curves take the place of the old one's; `mosaic resume` goes on from a checkpoint instead.
    """
    return for_each_run(
        references,
        lambda run: run.retry(),
        lambda run: f"{run.name}: attempt {run.attempt} from the beginning",
        as_json,
    )
