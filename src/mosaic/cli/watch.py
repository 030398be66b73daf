"""`mosaic watch`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mosaic.cli.options import json_option, make_client, run_argument

if TYPE_CHECKING:
    from mosaic.cli.watch_model import WatchModel
    from mosaic.client import Run

REDRAWS_PER_SECOND = 8


@click.command("watch")
@run_argument
@json_option
def command(reference: str, as_json: bool) -> int:
    """Watch a run, or a group of runs, live.

    Ends when the run does, with exit code 0 if it ended well and 1 if not. Ctrl-C stops watching and leaves the run
    alone. Survives restarts of the daemon. With --json, telemetry rows and states come as JSON lines.
    """
    from mosaic.client import Group

    found = make_client().find(reference)
    if isinstance(found, Group):
        from mosaic.cli.groups import watch_group

        return watch_group(found, as_json=as_json)
    return watch(found, as_json=as_json)


def watch(run: Run, *, as_json: bool = False) -> int:
    from mosaic.cli.exit_codes import INTERRUPTED
    from mosaic.cli.output import say
    from mosaic.cli.submission import exit_code_of

    try:
        if as_json:
            _watch_json(run)
        elif sys.stdout.isatty():
            _watch_screen(run)
        else:
            _watch_lines(run)
    except KeyboardInterrupt:
        say(f"\nno longer watching; {run.name} goes on (`mosaic watch {run.name}`, `mosaic cancel {run.name}`)")
        return INTERRUPTED
    return exit_code_of(run.refresh())


def _watch_json(run: Run) -> None:
    from mosaic.client.follow import follow

    _emit({"run": run.view})
    for update in follow(run.transport, run.id):
        for row in update.rows:
            _emit(row)
        if update.run:
            _emit({"run": update.run})


def _emit(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _watch_lines(run: Run) -> None:
    from mosaic.cli.watch_lines import LineWriter

    model = _model_of(run)
    writer = LineWriter(model)
    writer.start()
    for events, connection in _changes(run, model):
        if connection is not None:
            writer.connection(lost=connection == "lost")
        writer.update(events)
        sys.stdout.flush()
    writer.finish()


def _watch_screen(run: Run) -> None:
    from rich.live import Live

    from mosaic.cli.output import console
    from mosaic.cli.watch_screen import Screen

    model = _model_of(run)
    screen = Screen(model)
    with Live(
        screen,
        console=console(),
        refresh_per_second=REDRAWS_PER_SECOND,
        vertical_overflow="crop",
        redirect_stdout=False,
    ):
        for _ in _changes(run, model):
            pass
        screen.live = False


def _model_of(run: Run) -> WatchModel:
    """The model with what the run's store holds already, so that watching can begin at its newest row."""
    from mosaic.cli.watch_model import CURVE_POINTS, WatchModel, find_return_metric
    from mosaic.store import RunReader, StoreMissing

    model = WatchModel(run.view, step=run.step)
    try:
        with RunReader(run.folder / "run.sqlite") as reader:
            seq = reader.last_seq()
            past = [*reader.episodes(limit=CURVE_POINTS), *reader.checkpoints()[-1:], *reader.stages()[-1:]]
            past += reader.logs(limit=5)
            series = {info.name: info for info in reader.series()}
            model.return_metric_name = find_return_metric(series)
            if model.return_metric_name is not None:
                for point in reader.plot(model.return_metric_name, max_points=CURVE_POINTS // 2):
                    model.return_metric.add(float("nan") if point.mean is None else float(point.mean))
            model.metrics = {name: info.last_value for name, info in series.items()}
    except StoreMissing:
        return model  # it has not started yet
    model.absorb(sorted((row for row in past if row["seq"] <= seq), key=lambda row: row["seq"]))
    model.last_seq = seq
    return model


def _changes(run: Run, model: WatchModel) -> Iterator[tuple[list[dict[str, Any]], str | None]]:
    """Keep the model up to date; yields the events worth telling, and "lost" or "back" when the daemon is."""
    from mosaic.cli.watch_model import WATCHED_KINDS
    from mosaic.client.follow import follow

    if run.ended:
        return
    updates = follow(run.transport, run.id, since=model.last_seq, kinds=",".join(WATCHED_KINDS), tick=1.0)
    for update in updates:
        if update.run:
            model.set_view(update.run)
        if update.kind in ("lost", "back"):
            model.connected = update.kind == "back"
            yield [], update.kind
        else:
            yield model.absorb(update.rows), None
    model.set_view(run.refresh().view)
