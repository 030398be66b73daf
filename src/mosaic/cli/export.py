"""`mosaic export`: a run's telemetry as files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from mosaic.cli.options import json_option, runs_argument
from mosaic.client.errors import MosaicError
from mosaic.paths import Home


@click.command("export")
@runs_argument
@click.option("--format", "form", type=click.Choice(["parquet", "csv"]), default="parquet", show_default=True)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Where to.  [default: ./NAME-export]"
)
@json_option
def command(references: tuple[str, ...], form: Literal["parquet", "csv"], out: Path | None, as_json: bool) -> None:
    """Write a run's telemetry to Parquet or CSV.

    One file each for metrics, episodes, steps, events and logs. Reads the run folder itself: no daemon is needed, and
    a run that is under way can be exported as far as it is. With several runs, each gets a folder of its own in DIR.
    """
    from mosaic.cli import format
    from mosaic.cli.local_runs import find_run
    from mosaic.cli.output import print_json
    from mosaic.store import RunReader, StoreError
    from mosaic.store.export import write

    home = Home.from_environment()
    runs = [find_run(home, reference) for reference in references]
    written: dict[str, list[str]] = {}
    for run in runs:
        folder = _folder(out, run.name, alone=len(runs) == 1)
        try:
            with RunReader(run.folder.store) as reader:
                files = write(reader, folder, form)
        except (StoreError, OSError) as error:
            raise MosaicError(f"run {run.name}: {error}") from None
        written[run.run_id] = [str(file) for file in files]
        if not as_json:
            for file in files:
                click.echo(f"{file}  {format.size(file.stat().st_size)}")
    if as_json:
        print_json(written)


def _folder(out: Path | None, name: str, *, alone: bool) -> Path:
    if out is None:
        return Path(f"{name}-export")
    return out if alone else out / name
