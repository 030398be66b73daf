"""`mosaic worker`: install, list, show, remove and check workers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mosaic.cli.app import context_settings
from mosaic.cli.options import complete_workers, json_option
from mosaic.paths import Home

if TYPE_CHECKING:
    from mosaic.worker.conformance import CheckResult


@click.group("worker", context_settings=context_settings())
def command() -> None:
    """Install, list, show, remove and check workers.

    A worker is a package that wraps one library; each has an environment of its own under var/envs.
    """


@command.command("install")
@click.argument(
    "sources", metavar="NAME|FOLDER|REQUIREMENT...", nargs=-1, required=True, shell_complete=complete_workers
)
@click.option("--extra", "extras", multiple=True, metavar="EXTRA", help="An extra of the worker; may be repeated.")
@json_option
def install(sources: tuple[str, ...], extras: tuple[str, ...], as_json: bool) -> None:
    """Install workers: one of ours by name, a folder, or a requirement.

    \b
    mosaic worker install tabular
    mosaic worker install 'cleanrl[minigrid,atari]'
    mosaic worker install ./my_worker
    mosaic worker install 'some-worker>=1.2'
    """
    from mosaic.cli.output import print_json, say
    from mosaic.cli.workers import envs_errors
    from mosaic.envs import WorkerEnvs

    envs = WorkerEnvs(Home.from_environment())
    made = []
    for source in sources:
        with envs_errors():
            worker = envs.install(source, extras=extras, report=say)
            # An environment whose worker cannot even say what it is would fail the first run that needs it.
            envs.describe(worker.name)
            made.append(worker)
    if as_json:
        print_json([_as_dict(worker) for worker in made])


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the workers: those that come with MOSAIC and those installed."""
    from mosaic.cli.output import console, print_json, print_table
    from mosaic.cli.workers import envs_errors
    from mosaic.envs import WorkerEnvs

    envs = WorkerEnvs(Home.from_environment())
    rows: dict[str, dict[str, Any]] = {}
    with envs_errors():
        for worker in envs.available():
            rows[worker.name] = {
                "name": worker.name,
                "version": worker.version,
                "state": "available",
                "extras": [],
                "about": worker.description,
                "source": str(worker.folder),
            }
        for installed in envs.installed():
            row = rows.setdefault(installed.name, {"name": installed.name, "about": installed.distribution})
            state = "outdated" if envs.is_outdated(installed) else "installed"
            row |= {"version": installed.version, "state": state, "extras": list(installed.extras)}
            row |= {"source": installed.source}
    if as_json:
        print_json(list(rows.values()))
        return
    cells = [
        [name, row["version"], row["state"], ", ".join(row["extras"]) or "-", row["about"]]
        for name, row in sorted(rows.items())
    ]
    print_table(
        ("WORKER", "VERSION", "STATE", "EXTRAS", "ABOUT"), cells, yields="ABOUT", drop=("EXTRAS",), console=console()
    )
    if any(row["state"] == "outdated" for row in rows.values()):
        click.echo("outdated: its pins or its metadata changed; `mosaic worker install NAME` renews it", err=True)


@command.command("show")
@click.argument("name", shell_complete=complete_workers)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show what a worker can do, its algorithms and where it is."""
    from mosaic.cli.output import print_json
    from mosaic.cli.workers import describe, envs_errors
    from mosaic.envs import WorkerEnvs

    home = Home.from_environment()
    with envs_errors():
        worker = WorkerEnvs(home).get(name)
    description = describe(home, name)
    if as_json:
        print_json({**_as_dict(worker), "description": description})
        return
    click.echo(f"{worker.name} {description['version']}: {description['title']}")
    if description["description"]:
        click.echo(description["description"].split("\n")[0])
    click.echo("")
    for title, algorithm in description["algorithms"].items():
        click.echo(f"  {title:20} {algorithm['title']}: {algorithm.get('description', '')}".rstrip(": "))
    click.echo("")
    for key, value in description["capabilities"].items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        shown = {True: "yes", False: "no", "": "-"}.get(shown, shown) if isinstance(shown, (bool, str)) else shown
        click.echo(f"{key.replace('_', ' '):42} {shown}")
    click.echo(f"{'environment':42} {worker.folder}")
    click.echo(f"{'source':42} {worker.source}")
    click.echo(f"\nits flags: mosaic train {name} --help")


@command.command("remove")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_workers)
@json_option
def remove(names: tuple[str, ...], as_json: bool) -> None:
    """Remove workers' environments. Runs that they made stay; while one is running, its worker is not removed."""
    from mosaic.cli.local_runs import newest_first
    from mosaic.cli.output import print_json, say
    from mosaic.cli.workers import envs_errors
    from mosaic.client.errors import NotPossible
    from mosaic.envs import WorkerEnvs
    from mosaic.shepherd.lock import is_locked

    home = Home.from_environment()
    envs = WorkerEnvs(home)
    for name in names:
        running = next((run for run in newest_first(home) if run.worker == name and is_locked(run.folder)), None)
        if running is not None:
            raise NotPossible(f"the environment of {name} is in use by run {running.name}; cancel it first")
        with envs_errors():
            envs.remove(name, say)
        if not as_json:
            click.echo(f"removed {name}")
    if as_json:
        print_json({"removed": list(names)})


@command.command("check")
@click.argument("name", shell_complete=complete_workers)
@json_option
def check(name: str, as_json: bool) -> int:
    """Check that a worker keeps the contract: description, configs, telemetry, stop, checkpoints, exit codes.

    It starts the worker several times with small configs. See docs/workers.md for the contract.
    """
    from mosaic.cli.exit_codes import DONE, FAILED
    from mosaic.cli.output import print_json, say
    from mosaic.cli.workers import installed_or_install
    from mosaic.worker.conformance import run_checks

    worker = installed_or_install(Home.from_environment(), name, say)
    results = run_checks([str(worker.python), "-m", f"{worker.module}.cli"], (lambda _: None) if as_json else _tell)
    failed = sum(result.ok is False for result in results)
    if as_json:
        print_json([{key: getattr(result, key) for key in ("name", "title", "ok", "detail")} for result in results])
    else:
        passed = sum(result.ok is True for result in results)
        skipped = sum(result.ok is None for result in results)
        click.echo(f"{passed} passed, {failed} failed, {skipped} skipped")
    return FAILED if failed else DONE


def _tell(result: CheckResult) -> None:
    mark = {True: "ok", False: "FAILED", None: "skipped"}[result.ok]
    click.echo(f"{mark:8} {result.title}" + (f": {result.detail}" if result.detail else ""))
    sys.stdout.flush()


def _as_dict(worker: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {key: str(value) if key == "folder" else value for key, value in asdict(worker).items()}
