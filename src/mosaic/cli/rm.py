"""`mosaic rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mosaic.cli.options import for_each_run, json_option, make_client, runs_argument
from mosaic.client.errors import NotPossible

if TYPE_CHECKING:
    from mosaic.client import Run


@click.command("rm")
@runs_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Also runs that have not ended: they are cancelled first.")
@json_option
def command(references: tuple[str, ...], yes: bool, force: bool, as_json: bool) -> int:
    """Delete ended runs and their folders.

    Telemetry, logs, checkpoints and videos of the run are gone for good.
    """
    if not yes:
        _ask(references, force=force)

    def act(run: Run) -> Run:
        run.remove(force=force)
        return run

    return for_each_run(references, act, lambda run: f"{run.name}: deleted", as_json)


def _ask(references: tuple[str, ...], *, force: bool) -> None:
    import sys

    from mosaic.client import Group

    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to ask whether to delete: say --yes")
    client = make_client()
    runs: list[Run] = []
    for reference in references:
        found = client.find(reference)
        runs += found.runs if isinstance(found, Group) else [found]
    for run in runs:
        if not run.ended and not force:
            raise NotPossible(f"run {run.name} has not ended ({run.state.lower()}): cancel it first, or say --force")
        step = f", step {run.step:,}" if run.step else ""
        click.echo(f"  {run.name} ({run.worker}) {run.state}{step}", err=True)
    click.confirm(
        f"Delete {'this run' if len(runs) == 1 else f'these {len(runs)} runs'} for good?", abort=True, err=True
    )
