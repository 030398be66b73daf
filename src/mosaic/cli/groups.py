"""Groups of runs on the command line: submitting one, watching it, and what came of it over its seeds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mosaic.client.errors import NoDaemon
from mosaic.client.groups import LAST_EPISODES, MOST_SEEDS, RETURN, results_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from mosaic.cli.submission import SubmitOptions
    from mosaic.client import Client, Group, Run
    from mosaic.worker.estimates import Estimate

LOOK_EVERY_S = 1.0
# In a log: how often to say how far the runs are.
TELL_EVERY_S = 20.0
BAR_WIDTH = 24


def parse_seeds(text: str) -> int | list[int]:
    """`5` is how many, `1,2,3` is which."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        allowed = f"how many (1 to {MOST_SEEDS}), or which, such as 1,2,3"
        raise click.BadParameter(f"got {text!r}, allowed: {allowed}", param_hint="'--seeds'")
    return numbers if "," in text else numbers[0]


def submit_group(client: Client, spec: dict[str, Any], seeds: int | list[int], options: SubmitOptions) -> int:
    """Submit one run for each seed, tell, and do what was asked for next. Returns the exit code."""
    from mosaic.cli.exit_codes import INTERRUPTED
    from mosaic.cli.output import print_json, say
    from mosaic.cli.up import ensure_daemon

    ensure_daemon(client)
    group = client.submit_seeds(options.apply(spec), seeds)
    if options.then == "watch":
        return watch_group(group, as_json=options.as_json)
    if options.then == "wait":
        if not options.as_json:
            say(f"submitted group {group.name} ({len(group.runs)} runs), waiting for their end")
        try:
            group.wait()
        except KeyboardInterrupt:
            say(f"\nno longer waiting; the runs go on (`mosaic watch {group.name}`, `mosaic cancel {group.name}`)")
            return INTERRUPTED
    if options.as_json:
        print_json(as_json(group))
    elif options.then == "wait":
        show_group(group)
    else:
        click.echo(f"submitted group {group.name}: {', '.join(run.name for run in group.runs)}")
    return 0 if options.then != "wait" or group.succeeded else 1


def as_json(group: Group) -> dict[str, Any]:
    import dataclasses

    results = {name: dataclasses.asdict(estimate) for name, estimate in group.results().items()}
    # What is not known, such as the interval of a single value, is null in JSON.
    plain = {
        name: {key: value if value == value else None for key, value in entry.items()}
        for name, entry in results.items()
    }
    return {"group": group.name, "runs": [run.view for run in group.runs], "results": plain}


def show_group(group: Group) -> None:
    """The members, and the mean over them of what they measured."""
    from mosaic.cli import format
    from mosaic.cli.output import console, print_table, state_text
    from mosaic.cli.runs import how_it_is

    states = [run.state for run in group.runs]
    told = ", ".join(f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(states))
    click.echo(f"group {group.name}: {len(states)} run{'s' if len(states) > 1 else ''}, {told}")
    screen = console()
    rows: list[list[str | Text]] = [
        [
            run.name,
            state_text(run.state),
            format.count(run.step),
            format.number(results_of(run).get(RETURN)),
            how_it_is(run),
        ]
        for run in group.runs
    ]
    click.echo("")
    headings = ("NAME", "STATE", "STEP", "RETURN", "HOW IT IS")
    print_table(headings, rows, right=("STEP", "RETURN"), yields="HOW IT IS", console=screen)
    results = group.results()
    if not results:
        return
    click.echo("")
    cells: list[list[str | Text]] = [
        [name, format.number(found.value), interval(found), str(found.count)] for name, found in results.items()
    ]
    print_table(
        ("OVER THE RUNS", "MEAN", "95% INTERVAL", "N"),
        cells,
        right=("MEAN", "N"),
        yields="OVER THE RUNS",
        console=screen,
    )
    if RETURN in results:
        click.echo(f"{RETURN}: of each run the mean of its last {LAST_EPISODES} episodes; the others: the last value")


def interval(estimate: Estimate) -> str:
    from mosaic.cli import format

    if estimate.low != estimate.low:
        return "-"
    return f"{format.number(estimate.low)} to {format.number(estimate.high)}"


def watch_group(group: Group, *, as_json: bool = False) -> int:
    """Tell how the runs are until all have ended: a picture in a terminal, lines in a log."""
    from mosaic.cli.exit_codes import INTERRUPTED
    from mosaic.cli.output import say

    try:
        if as_json:
            _watch_json(group)
        elif sys.stdout.isatty():
            _watch_screen(group)
        else:
            _watch_lines(group)
    except KeyboardInterrupt:
        say(f"\nno longer watching; the runs go on (`mosaic watch {group.name}`, `mosaic cancel {group.name}`)")
        return INTERRUPTED
    if not as_json:
        click.echo("")
        show_group(group)
    return 0 if group.succeeded else 1


def _looks(group: Group) -> Iterator[None]:
    """Look again and again, until the last run has ended; a daemon that is away is waited for."""
    while True:
        yield
        if group.ended:
            return
        time.sleep(LOOK_EVERY_S)
        try:
            group.refresh()
        except NoDaemon:
            continue


def _watch_json(group: Group) -> None:
    import json

    told: dict[str, dict[str, Any]] = {}
    for _ in _looks(group):
        for run in group.runs:
            view = {**run.view, "silent_s": None}  # time that passes is no news
            if told.get(run.id) != view:
                told[run.id] = view
                sys.stdout.write(json.dumps({"run": run.view}) + "\n")
        sys.stdout.flush()


def _watch_lines(group: Group) -> None:
    from mosaic.cli import format
    from mosaic.cli.runs import how_it_is

    states: dict[str, str] = {}
    next_progress = time.monotonic() + TELL_EVERY_S
    for _ in _looks(group):
        now = format.clock(time.time())
        for run in group.runs:
            if states.get(run.id) != run.state:
                states[run.id] = run.state
                click.echo(f"{now} {run.name} {run.state} {how_it_is(run)}".rstrip())
        if time.monotonic() >= next_progress:
            next_progress = time.monotonic() + TELL_EVERY_S
            click.echo(f"{now} " + "  ".join(f"{run.name} {_share(run)}" for run in group.runs if not run.ended))
        sys.stdout.flush()


def _watch_screen(group: Group) -> None:
    from rich.live import Live

    from mosaic.cli.output import ascii_only, console

    screen = console()
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        for _ in _looks(group):
            live.update(_picture(group, ascii_only(screen)), refresh=True)


def _picture(group: Group, plain: bool) -> RenderableType:
    from rich.table import Table

    from mosaic.cli import format
    from mosaic.cli.output import state_text

    table = Table.grid(padding=(0, 2))
    for run in group.runs:
        bar = "" if run.progress is None else format.bar(run.progress, BAR_WIDTH, ascii_only=plain)
        found = format.number(results_of(run).get(RETURN))
        table.add_row(run.name, state_text(run.state), bar, _share(run), f"return {found}")
    table.add_row("Ctrl-C stops watching; the runs go on", style="dim")
    return table


def _share(run: Run) -> str:
    from mosaic.cli import format

    return format.count(run.step) if run.progress is None else format.percent(run.progress)
