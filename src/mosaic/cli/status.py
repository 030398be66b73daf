"""`mosaic status`."""

from __future__ import annotations

from typing import Any

import click

from mosaic.cli.options import json_option, make_client


@click.command("status")
@json_option
def command(as_json: bool) -> None:
    """Show the daemon, its resources and what runs."""
    from mosaic.cli.output import print_json

    client = make_client()
    status = client.status()
    if as_json:
        print_json(status)
        return
    for line in lines_of(status):
        click.echo(line)


def lines_of(status: dict[str, Any]) -> list[str]:
    from mosaic.cli import format

    capacity, free = status["capacity"], status["free"]
    cpus = f"{capacity['cpus'] - free['cpus']} of {capacity['cpus']} CPUs"
    memory = f"{capacity['memory_mb'] - free['memory_mb']:,} of {capacity['memory_mb']:,} MB reserved"
    gpus = f"{len(capacity['gpus']) - free['gpus']} of {len(capacity['gpus'])} GPUs"
    runs = ", ".join(f"{number:,} {state.lower()}" for state, number in sorted(status["runs"].items()))
    return [
        f"daemon   {status['url']}  pid {status['pid']}, version {status['version']}, "
        f"up for {format.duration(status['uptime_s'])}",
        f"home     {status['home']}",
        f"in use   {cpus}, {memory}, {gpus}",
        f"runs     {runs or 'none yet'}",
    ]
