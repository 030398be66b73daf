"""`mosaic cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mosaic.cli.options import for_each_run, json_option, runs_argument

if TYPE_CHECKING:
    from mosaic.client import Run


@click.command("cancel")
@runs_argument
@click.option("--wait", is_flag=True, help="Wait until they have ended.")
@json_option
def command(references: tuple[str, ...], wait: bool, as_json: bool) -> int:
    """End runs.

    The worker is asked to save a checkpoint and end; if it does not within its grace time, its processes are killed.
    Metrics, logs and checkpoints stay, and `mosaic resume` can start the run again from there.
    """

    def act(run: Run) -> Run:
        run.cancel()
        return run.wait() if wait else run

    return for_each_run(references, act, told, as_json, member=lambda run: not run.ended)


def told(run: Run) -> str:
    return f"{run.name}: {run.state.lower()}" if run.ended else f"{run.name}: ending"
