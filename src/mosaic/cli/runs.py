"""`mosaic runs`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from mosaic.cli.options import complete_workers, json_option, make_client

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from mosaic.client import Run
    from mosaic.paths import Home

STATES = ("queued", "starting", "running", "paused", "succeeded", "failed", "cancelled", "lost")
BAR_WIDTH = 12


@click.command("runs")
@click.option(
    "--state", "states", multiple=True, type=click.Choice([*STATES, "active", "ended"], case_sensitive=False),
    help="Only runs in this state; may be repeated. active: not ended.", metavar="STATE",
)  # fmt: skip
@click.option("--worker", metavar="NAME", shell_complete=complete_workers, help="Only runs of this worker.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option("--group", metavar="NAME", help="Only the runs of this group.")
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="At most so many."
)
@click.option("--all", "-a", "everything", is_flag=True, help="All of them.")
@json_option
def command(
    states: tuple[str, ...],
    worker: str | None,
    tag: str | None,
    group: str | None,
    limit: int,
    everything: bool,
    as_json: bool,
) -> None:
    """List runs, newest first.

    The runs of a group stand together, where the newest of them is.
    """
    from mosaic.cli.output import print_json

    client = make_client()
    wanted = _states(states)
    found = client.all_runs(state=",".join(wanted) if wanted else None, worker=worker, tag=tag, group=group)
    runs = list(found if everything else islice(found, limit + 1))
    more = not everything and len(runs) > limit
    runs = runs if everything else runs[:limit]
    if as_json:
        print_json([run.view for run in runs])
        return
    if not runs:
        filtered = wanted or worker or tag or group
        click.echo(
            "no such runs" if filtered else "no runs yet: `mosaic quickstart`, or `mosaic train WORKER`", err=True
        )
        return
    _print(_groups_together(runs), client.home)
    if more:
        click.echo(f"the newest {limit}; --all shows all", err=True)


def _states(given: tuple[str, ...]) -> list[str]:
    groups = {"active": STATES[:4], "ended": STATES[4:]}
    return [state.upper() for name in given for state in groups.get(name, (name,))]


def _groups_together(runs: list[Run]) -> list[Run]:
    places = {run.group: place for place, run in reversed(list(enumerate(runs)))}
    return [
        run for _, run in sorted(enumerate(runs), key=lambda item: places[item[1].group] if item[1].group else item[0])
    ]


def _print(runs: list[Run], home: Home) -> None:
    from mosaic.cli import format
    from mosaic.cli.local_runs import short_ids_in
    from mosaic.cli.output import console, print_table, state_text

    screen = console()
    ids = short_ids_in(home, [run.id for run in runs])
    rows = [
        [
            run.name,
            ids[run.id],
            state_text(run.state),
            run.worker,
            _bar(run, screen),
            "-" if run.progress is None else format.percent(run.progress),
            format.count(run.step),
            format.age(run.view["created"]),
            how_it_is(run),
        ]
        for run in runs
    ]
    print_table(
        ("NAME", "ID", "STATE", "WORKER", "PROGRESS", "", "STEP", "AGE", "HOW IT IS"),
        rows,
        right=("", "STEP", "AGE"),
        yields="HOW IT IS",
        drop=("PROGRESS", "WORKER", "ID", "STEP", "AGE"),
        console=screen,
    )


def _bar(run: Run, screen: Console) -> str | Text:
    from rich.text import Text

    from mosaic.cli import format
    from mosaic.cli.output import STATE_STYLES, ascii_only

    if run.progress is None:
        return ""
    bar = format.bar(run.progress, BAR_WIDTH, ascii_only=ascii_only(screen))
    return Text(bar, style=STATE_STYLES[run.state])


def how_it_is(run: Run) -> str:
    """A few words: how an ended run ended, what a living one is waiting for."""
    from mosaic.cli import format

    attempt = f"attempt {run.attempt}" if run.attempt > 1 and "attempt" not in run.view["detail"] else ""
    if run.exit is not None and run.ended:
        lasted = format.duration(run.exit["ended"] - run.exit["started"])
        text = f"in {lasted}" if run.state == "SUCCEEDED" else f"after {lasted}: {run.exit['message']}"
    elif run.view["detail"]:
        text = run.view["detail"]
    elif run.view.get("silent_s") is not None and run.state == "RUNNING" and run.view["silent_s"] > 90:
        text = f"silent for {format.duration(run.view['silent_s'])}"
    else:
        text = ""
    return ", ".join(part for part in (attempt, text) if part)
