"""`mosaic quickstart`: from nothing to a trained policy, explained on the way."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from mosaic.cli.options import json_option, make_client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mosaic.client import Client, Run

WORKER = "tabular"
CONFIG: dict[str, Any] = {
    "algorithm": "q_learning",
    "env_id": "Taxi-v4",
    "total_timesteps": 100_000,
    "checkpoint_every": 25_000,
    "hyperparameters": {"learning_rate": 0.5, "exploration_fraction": 0.3},
}
ABOUT = "Q-learning on Gymnasium's Taxi-v4: fetch a passenger, bring them where they want to go"

# "Before" and "after" are means over so many episodes at either end.
COMPARED_EPISODES = 100


@click.command("quickstart")
@json_option
def command(as_json: bool) -> int:
    """Set everything up and watch a first training run.

    Installs the worker that it needs, starts the daemon, trains for some seconds, and says what came of it.
    """
    from mosaic.cli.submission import exit_code_of
    from mosaic.cli.watch import watch
    from mosaic.cli.workers import installed_or_install
    from mosaic.client.lifecycle import start_daemon

    client = make_client()
    tell = _Teller(quiet=as_json)
    tell.step(1, f"The worker {WORKER!r}, in an environment of its own")
    worker = installed_or_install(client.home, WORKER, tell.detail)
    tell.detail(f"{worker.distribution} {worker.version} in {worker.folder}")
    tell.step(2, "The daemon, which queues and starts runs")
    started = start_daemon(client)
    tell.detail({"running": "runs already"}.get(started.how, "started") + f": {started.info.url}")
    tell.step(3, ABOUT)
    run = client.submit(WORKER, CONFIG, tags=["quickstart"])
    tell.detail(f"run {run.name}")
    tell.blank()
    code = _wait(run) if as_json else watch(run)
    if not run.ended:
        return code
    result = _result(client, run)
    if as_json:
        from mosaic.cli.output import print_json

        print_json(result)
    else:
        _tell_result(run, result)
    return exit_code_of(run)


class _Teller:
    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def step(self, number: int, text: str) -> None:
        self._line(f"[{number}/3] {text}")

    def detail(self, text: str) -> None:
        self._line(f"      {text}")

    def blank(self) -> None:
        self._line("")

    def _line(self, text: str) -> None:
        if not self._quiet:
            click.echo(text)
            sys.stdout.flush()


def _wait(run: Run) -> int:
    from mosaic.cli.submission import exit_code_of

    return exit_code_of(run.wait())


def _result(client: Client, run: Run) -> dict[str, Any]:
    from mosaic.store import RunReader

    with RunReader(run.folder / "run.sqlite") as reader:
        newest = [float(row["episode_return"]) for row in reader.episodes(limit=COMPARED_EPISODES)]
        checkpoints = [row["path"] for row in reader.checkpoints() if not row.get("superseded")]
    oldest = (float(row["episode_return"]) for row in run.telemetry(kinds=["episode"]))
    return {
        "run": run.view,
        "return_before": _mean(islice(oldest, COMPARED_EPISODES)),
        "return_after": _mean(newest),
        "folder": str(run.folder),
        "checkpoints": checkpoints,
        "login_url": client.login_url(),
    }


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def _tell_result(run: Run, result: dict[str, Any]) -> None:
    from mosaic.cli import format

    click.echo("")
    if result["return_after"] is not None:
        before, after = (format.number(round(result[key], 2)) for key in ("return_before", "return_after"))
        click.echo(
            f"Return of an episode: {before} at first, {after} at the end (means of {COMPARED_EPISODES} episodes)"
        )
    click.echo(f"Run folder:           {result['folder']}")
    if result["checkpoints"]:
        click.echo(f"Its last checkpoint:  {result['checkpoints'][-1]}")
    click.echo(f"In a browser, once:   {result['login_url']}")
    click.echo("")
    following = (
        (f"mosaic show {run.name}", "everything about this run"),
        (f"mosaic train {WORKER} --help", "train something of your own; its hyperparameters are flags"),
        ("mosaic down", "stop the daemon"),
    )
    for index, (typed, about) in enumerate(following):
        click.echo(f"{'Next:' if index == 0 else '':6}{typed:28} {about}")
