"""`mosaic open`."""

from __future__ import annotations

import os

import click

from mosaic.cli.options import json_option, make_client


@click.command("open")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@json_option
def command(no_browser: bool, as_json: bool) -> None:
    """Open the GUI in a browser, logged in.

    Prints a one-time login address; where there is a display, a browser opens it too.
    """
    from mosaic.cli.output import print_json
    from mosaic.cli.up import ensure_daemon

    client = make_client()
    ensure_daemon(client)
    url = client.login_url()
    if as_json:
        print_json({"login_url": url})
        return
    click.echo(url)
    if not no_browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        import webbrowser

        webbrowser.open(url)
