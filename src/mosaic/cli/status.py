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
    return [str(status)]
