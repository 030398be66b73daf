"""`mosaic test`: everything that CI checks, in one command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from mosaic.envs import EnvsError, WorkerEnvs
from mosaic.envs.core import CoreEnv, say
from mosaic.paths import CHECKOUT, Home

TEST_EXTRA = "test"

CHECKS = {
    "ruff check": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy"],
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(pytest_arguments: tuple[str, ...]) -> int:
    """Install what the tests need, then run ruff, mypy and all tests.

    PYTEST_ARGUMENTS go to pytest: `mosaic test -x -k launcher tests/setup`. Without any, the tests of the workers that
    have an environment of their own run too, each in there.
    """
    prepare()
    # Everything runs, also after a failure: one look shows all that is wrong.
    failed = [name for name, argv in CHECKS.items() if not passes(name, [sys.executable, "-m", *argv])]
    processes = ["-n", "auto", "--maxprocesses", "8", "--dist", "worksteal"]
    if not passes("pytest", [sys.executable, "-m", "pytest", *processes, *pytest_arguments]):
        failed.append("pytest")
    if not pytest_arguments:
        failed += [name for name in workers_with_tests() if not worker_passes(name)]
    if failed:
        say(f"failed: {', '.join(failed)}")
        return 1
    return 0


def prepare() -> None:
    try:
        CoreEnv(CHECKOUT).prepare_for_tests(say)
    except EnvsError as error:
        raise click.ClickException(f"installing what the tests need failed: {error}") from error


def workers_with_tests() -> list[str]:
    """The workers that bring their own test tools: those with an extra `test`."""
    return [worker.name for worker in _envs().available() if TEST_EXTRA in worker.extras]


def worker_passes(name: str) -> bool:
    """Run a worker's quick tests with its own Python."""
    try:
        worker = _envs().install(name, extras=[TEST_EXTRA], report=say)
    except EnvsError as error:
        say(str(error))
        return False
    argv = [str(worker.python), "-m", "pytest", "-m", "not slow"]
    return passes(f"tests of worker {name}", argv, cwd=Path(worker.source))


def _envs() -> WorkerEnvs:
    return WorkerEnvs(Home.from_environment())


def passes(name: str, argv: list[str], *, cwd: Path = CHECKOUT) -> bool:
    say(name)
    started = time.monotonic()
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    code = subprocess.run(argv, cwd=cwd, env=environment).returncode
    say(f"{name}: {'passed' if code == 0 else f'failed (exit code {code})'} in {time.monotonic() - started:.1f} s")
    return code == 0
