"""`mosaic bench NAME`: run one of the benchmarks in `bench/`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from mosaic.cli.test import prepare
from mosaic.paths import CHECKOUT


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(name: str | None, arguments: tuple[str, ...]) -> int:
    """Run the benchmark NAME with ARGUMENTS; without NAME, list them.

    Each prints a table and writes bench/out/NAME.json.
    """
    known = benchmarks()
    if name is None:
        click.echo("\n".join(known) or "there are no benchmarks")
        return 0
    if name not in known:
        raise click.UsageError(f"there is no benchmark {name!r}; there are: {', '.join(known) or 'none'}")
    prepare()
    return subprocess.run([sys.executable, known[name], *arguments]).returncode


def benchmarks() -> dict[str, Path]:
    """The programs in `bench/` by name. Those with an underscore are modules that they share."""
    return {file.stem: file for file in sorted((CHECKOUT / "bench").glob("*.py")) if "_" not in file.stem}
