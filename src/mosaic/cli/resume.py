"""`mosaic resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mosaic.cli.options import for_each_run, json_option, runs_argument

if TYPE_CHECKING:
    from mosaic.client import Run


@click.command("resume")
@runs_argument
@json_option
def command(references: tuple[str, ...], as_json: bool) -> int:
    """Let paused runs go on; start ended ones again from their newest checkpoint.

    An ended run goes on as its next attempt, from the newest checkpoint that is whole; without one it begins anew.
    """
    return for_each_run(references, lambda run: run.resume(), told, as_json, member=can_go_on)


def can_go_on(run: Run) -> bool:
    return run.state == "PAUSED" or (run.ended and run.state != "SUCCEEDED")


def told(run: Run) -> str:
    if run.state in ("PAUSED", "RUNNING"):
        return f"{run.name}: goes on"
    return f"{run.name}: {run.view['detail'] or f'attempt {run.attempt}'}"
