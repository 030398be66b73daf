"""`mosaic doctor`."""

from __future__ import annotations

from typing import Any

import click

from mosaic.cli.options import json_option, make_client


@click.command("doctor")
@click.option("--mend", is_flag=True, help="Put right what can be put right safely.")
@json_option
def command(mend: bool, as_json: bool) -> int:
    """Find what is wrong in the home folder, explain it, mend it on request.

    Stale locks, processes and shared memory that nobody owns, run folders that the registry does not know and the
    reverse. Exit code 0: nothing is wrong (any more), 1: something is.
    """
    from mosaic.cli.exit_codes import DONE, FAILED
    from mosaic.cli.output import print_json
    from mosaic.cli.up import ensure_daemon

    client = make_client()
    ensure_daemon(client)
    answer = client.doctor(mend=mend)
    findings: list[dict[str, Any]] = answer["findings"]
    left = [finding for finding in findings if not finding["mended"]]
    if as_json:
        print_json(answer)
        return FAILED if left else DONE
    for finding in findings:
        click.echo(f"{finding['subject']}: {finding['message']}")
        click.echo(f"    {_advice(finding)}")
    if not findings:
        click.echo(f"nothing is wrong in {client.home.root}")
    elif not mend and any(finding["mend"] for finding in left):
        click.echo("`mosaic doctor --mend` does this")
    return FAILED if left else DONE


def _advice(finding: dict[str, Any]) -> str:
    if finding["mended"]:
        return f"mended: {finding['mend']}"
    return f"mending would {finding['mend']}" if finding["mend"] else "has to be decided by a person"
