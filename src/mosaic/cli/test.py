"""`mosaic test`: everything that CI checks, in one command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from mosaic.envs.core import CoreEnv, say
from mosaic.envs.errors import EnvsError
from mosaic.paths import CHECKOUT

CHECKS = {
    "ruff check": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy"],
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(pytest_arguments: tuple[str, ...]) -> int:
    """Install what the tests need, then run ruff, mypy and all tests.

    PYTEST_ARGUMENTS go to pytest: `mosaic test -x -k launcher tests/setup`.
    """
    prepare()
    # Everything runs, also after a failure: one look shows all that is wrong.
    failed = [name for name, argv in CHECKS.items() if not passes(name, [sys.executable, "-m", *argv])]
    processes = ["-n", "auto", "--maxprocesses", "8", "--dist", "worksteal"]
    if not passes("pytest", [sys.executable, "-m", "pytest", *processes, *pytest_arguments]):
        failed.append("pytest")
    if failed:
        say(f"failed: {', '.join(failed)}")
        return 1
    return 0


def prepare() -> None:
    try:
        CoreEnv(CHECKOUT).prepare_for_tests(say)
    except EnvsError as error:
        raise click.ClickException(f"installing what the tests need failed: {error}") from error


def passes(name: str, argv: list[str]) -> bool:
    say(name)
    started = time.monotonic()
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    code = subprocess.run(argv, cwd=CHECKOUT, env=environment).returncode
    say(f"{name}: {'passed' if code == 0 else f'failed (exit code {code})'} in {time.monotonic() - started:.1f} s")
    return code == 0
