"""`mosaic down`: stop the daemon."""

from __future__ import annotations

import click

from mosaic.cli.options import json_option, make_client


@click.command("down")
@click.option("--cancel-runs", is_flag=True, help="Cancel every run that has not ended, first.")
@json_option
def command(cancel_runs: bool, as_json: bool) -> None:
    """Stop the daemon; runs go on.

    Runs that are under way go on without a daemon, and the next one finds them again. Queued runs wait for it.
    """
    from mosaic.cli.output import print_json, say
    from mosaic.client import ENDED, NotPossible

    client = make_client()
    living = [run for run in client.all_runs() if run.state not in ENDED]
    cancelled = 0
    if cancel_runs:
        for run in living:
            try:
                run.cancel()
            except NotPossible:
                continue  # it has ended in the meantime
            cancelled += 1
        for run in living:
            if not as_json:
                say(f"waiting for the end of {run.name}")
            run.wait()
        living = []
    queued = sum(run.state == "QUEUED" for run in living)
    going_on = len(living) - queued
    client.stop_daemon()
    if as_json:
        print_json({"stopped": True, "cancelled": cancelled, "going_on": going_on, "queued": queued})
        return
    click.echo("the daemon has stopped")
    if cancelled:
        click.echo(f"{_runs(cancelled)} cancelled")
    if going_on:
        click.echo(f"{_runs(going_on)} still under way: `mosaic up` finds {'it' if going_on == 1 else 'them'} again")
    if queued:
        click.echo(f"{_runs(queued)} queued until then")


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
