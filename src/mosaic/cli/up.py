"""`mosaic up`: start the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mosaic.cli.options import json_option, make_client

if TYPE_CHECKING:
    from mosaic.client import Client


@click.command("up")
@json_option
def command(as_json: bool) -> None:
    """Start the daemon.

    It runs in the background until `mosaic down`. One that runs already is left alone; one of another version hands
    over. Runs never notice.
    """
    from mosaic.cli.output import print_json
    from mosaic.client.lifecycle import start_daemon

    client = make_client()
    started = start_daemon(client)
    url = client.login_url()
    if as_json:
        print_json({"how": started.how, "pid": started.info.pid, "url": started.info.url, "login_url": url})
        return
    words = {
        "running": "the daemon runs already",
        "started": "the daemon runs",
        "replaced": "the daemon of another version has handed over; the daemon runs",
    }
    click.echo(f"{words[started.how]}: {started.info.url} (pid {started.info.pid})")
    click.echo(f"in a browser, once: {url}")


def ensure_daemon(client: Client) -> None:
    """Start the daemon for a command that cannot do without it, saying so."""
    from mosaic.cli.output import say
    from mosaic.client.lifecycle import start_daemon

    started = start_daemon(client)
    if started.how != "running":
        say(f"started the daemon: {started.info.url} (`mosaic down` stops it)")
