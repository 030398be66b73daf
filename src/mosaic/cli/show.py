"""`mosaic show`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mosaic.cli.options import json_option, make_client, runs_argument

if TYPE_CHECKING:
    from mosaic.client import Group, Run

LABEL_WIDTH = 13


@click.command("show")
@runs_argument
@json_option
def command(references: tuple[str, ...], as_json: bool) -> None:
    """Show everything about runs.

    Of a group of runs: its members, and the mean over them of what they measured, with its 95% interval.
    How they are, what they were asked, config, metrics, checkpoints, attempts, what was odd, and where the folder is.
    """
    from mosaic.cli.groups import show_group
    from mosaic.cli.output import print_json
    from mosaic.client import Group

    client = make_client()
    meant = [client.find(reference) for reference in references]
    if as_json:
        print_json([_as_json(found) for found in meant])
        return
    for index, found in enumerate(meant):
        if index:
            click.echo("")
        if isinstance(found, Group):
            show_group(found)
            continue
        for label, value in (*_lines(found, _details(found)), *_children(found)):
            click.echo(f"{label:{LABEL_WIDTH}} {value}".rstrip())


def _as_json(found: Run | Group) -> dict[str, Any]:
    from mosaic.cli.groups import as_json
    from mosaic.client import Run

    if not isinstance(found, Run):
        return as_json(found)
    return {**found.view, **_details(found), "children": [child.view for child in found.children()]}


def _details(run: Run) -> dict[str, Any]:
    """What the run's own store says beyond the view."""
    import msgspec

    from mosaic.store import RunReader, StoreMissing

    try:
        with RunReader(run.folder / "run.sqlite") as reader:
            return {
                "attempts": msgspec.to_builtins(reader.attempts()),
                "checkpoints": reader.checkpoints(),
                "stages": reader.stages(),
                "series": msgspec.to_builtins(reader.series()),
                "counters": reader.counters(),
            }
    except StoreMissing:
        return {"attempts": [], "checkpoints": [], "stages": [], "series": [], "counters": {}}


def _lines(run: Run, details: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from mosaic.cli import format

    view = run.view
    yield "run", f"{run.name}  {run.id}"
    yield "state", run.state + (f"  ({view['detail']})" if view["detail"] else "")
    yield from _end(run)
    step = f"step {format.count(run.step)}" + (f" of {view['total_steps']:,}" if view["total_steps"] else "")
    yield "progress", step + (f", {format.percent(run.progress)}" if run.progress is not None else "")
    if run.group:
        yield "group", run.group
    yield "worker", run.worker
    yield from _times(view)
    yield "asked for", _asked_for(view)
    if run.tags:
        yield "tags", ", ".join(run.tags)
    yield "folder", view["folder"]
    for index, (key, value) in enumerate(run.config.items()):
        yield ("config" if index == 0 else ""), f"{key} = {json.dumps(value)}"
    for index, info in enumerate(details["series"]):
        value = format.number(info["last_value"])
        points = f"{info['points']:,} point{'' if info['points'] == 1 else 's'}, last at step {info['last_step']:,}"
        yield ("metrics" if index == 0 else ""), f"{info['name']} {value}  ({points})"
    for index, row in enumerate(details["checkpoints"]):
        note = "  (superseded)" if row.get("superseded") else ""
        yield ("checkpoints" if index == 0 else ""), f"step {row['step']:,}  {row['path']}{note}"
    for index, row in enumerate(details["stages"]):
        yield ("stages" if index == 0 else ""), f"{row['name']}  {format.clock(row['time'])}"
    if len(details["attempts"]) > 1 or any(attempt["attempt"] > 1 for attempt in details["attempts"]):
        for index, attempt in enumerate(details["attempts"]):
            yield ("attempts" if index == 0 else ""), _attempt(attempt)
    odd = {name: number for name, number in details["counters"].items() if number}
    for index, (name, number) in enumerate(odd.items()):
        yield ("odd" if index == 0 else ""), f"{name.replace('_', ' ')}: {number:,}"


def _children(run: Run) -> Iterator[tuple[str, str]]:
    """Each with what it runs with, and where that came from."""
    from mosaic.cli import format

    for index, child in enumerate(run.children()):
        config = " ".join(f"{name}={json.dumps(value)}" for name, value in child.config.items())
        origin = f"  ({child.view['detail']})" if child.view["detail"] else ""
        text = f"{child.name}  {child.state}  step {format.count(child.step)}  {config}{origin}"
        yield ("children" if index == 0 else ""), text


def _end(run: Run) -> Iterator[tuple[str, str]]:
    record = run.exit
    if record is None:
        return
    text = end_text(record)
    how = []
    # The message may say it; a script's own exit code is told there, not the one of what ran it.
    if record["exit_code"] is not None and "exit code" not in text:
        how.append(f"exit code {record['exit_code']}")
    if record["signal"] and record["signal"] not in text:
        how.append(record["signal"])
    yield "ended", text + (f"  ({', '.join(how)})" if how else "")


def end_text(record: dict[str, Any]) -> str:
    """Reason and message, without saying the same twice."""
    reason, message = record["reason"].replace("_", " "), record["message"]
    return message if message and reason.lower() in message.lower() else f"{reason}: {message}".rstrip(": ")


def _times(view: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from mosaic.cli import format

    yield "submitted", f"{format.moment(view['created'])}  ({format.age(view['created'])} ago)"
    if view["started"]:
        until = view["ended"] or None
        yield "started", format.moment(view["started"])
        if until:
            yield "finished", f"{format.moment(until)}  after {format.duration(until - view['started'])}"
    if view.get("silent_s") is not None and not view["ended"]:
        yield "last heard", f"{format.duration(view['silent_s'])} ago"


def _asked_for(view: dict[str, Any]) -> str:
    resources, retry = view["resources"], view["retry"]
    parts = [f"{resources['cpus']} CPU{'s' if resources['cpus'] > 1 else ''}"]
    if resources["memory_mb"]:
        parts.append(f"{resources['memory_mb']:,} MB")
    if resources["gpus"]:
        parts.append(f"{resources['gpus']} GPUs")
    parts.append(f"priority {view['priority']}")
    if retry["policy"] != "none":
        parts.append(f"retry by {retry['policy']}, at most {retry['limit']} times")
    return ", ".join(parts)


def _attempt(attempt: dict[str, Any]) -> str:
    from mosaic.cli import format

    start = "from the beginning" if attempt["resumed_step"] is None else f"from step {attempt['resumed_step']:,}"
    text = f"{attempt['attempt']}  {format.moment(attempt['started'])}  {start}"
    if attempt["outcome"]:
        outcome, message = attempt["outcome"], attempt["message"]
        text += f", {message}" if message.startswith(outcome) else f", {outcome}: {message}"
    return text
