"""`mosaic script FILE.sh`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mosaic.cli.options import make_client
from mosaic.cli.submission import SubmitOptions, submit, with_submit_options

# The daemon's name for runs that are a plain command.
SCRIPT_WORKER = "script"


@click.command("script", context_settings={"allow_interspersed_args": False})
@click.option(
    "--cwd", type=click.Path(exists=True, file_okay=False), help="Where it runs.  [default: beside the script]"
)
@with_submit_options
@click.argument("file", metavar="FILE.sh", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
def command(file: str, arguments: tuple[str, ...], cwd: str | None, **values: Any) -> int:
    """Run a shell script as a run.

    Its comment header may say what it is, and lines that it prints say how far it is:

    \b
    # @description Warm up, train, evaluate
    # @phases warmup, train, evaluate
    # @total_timesteps 300000
    echo "@phase train"        shows as a stage
    echo "@step 120000"        moves the progress bar

    Everything else that it prints goes to the run's log. Options go before FILE.sh; what follows it goes to the script.
    """
    config: dict[str, Any] = {"file": str(Path(file).resolve())}
    if arguments:
        config["args"] = list(arguments)
    if cwd is not None:
        config["cwd"] = str(Path(cwd).resolve())
    return submit(make_client(), {"worker": SCRIPT_WORKER, "config": config}, SubmitOptions.take(values))
