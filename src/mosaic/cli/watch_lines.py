"""A watched run as lines of text, for logs and pipes: what happens, and how far it is from time to time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from mosaic.cli import format
from mosaic.cli.watch_model import WatchModel

INTERVALS_S = (1.0, 2.0, 5.0, 10.0, 10.0, 20.0, 30.0)  # often at first, then every 30 seconds


class LineWriter:
    def __init__(self, model: WatchModel) -> None:
        self._model = model
        self._state = ""
        self._told = 0
        self._last_progress = ""
        self._next = time.monotonic()

    def start(self) -> None:
        self._tell_state()

    def update(self, events: Sequence[dict[str, Any]]) -> None:
        self._tell_state()
        for row in events:
            self._line(event_text(row), row["time"])
        if time.monotonic() >= self._next and self._model.view["state"] == "RUNNING" and self._model.step is not None:
            self._progress()
            self._next = time.monotonic() + INTERVALS_S[min(self._told, len(INTERVALS_S) - 1)]
            self._told += 1

    def connection(self, *, lost: bool) -> None:
        self._line("the daemon is away; waiting for it (the run goes on)" if lost else "the daemon is back")

    def finish(self) -> None:
        self._tell_state()

    def _tell_state(self) -> None:
        view = self._model.view
        # What a run waits for changes while it waits; once it runs, the details are of no lasting interest.
        told = view["state"] + (view["detail"] if view["state"] == "QUEUED" else "")
        if told != self._state:
            self._state = told
            has_news = self._model.step is not None and progress_text(self._model) != self._last_progress
            if view["ended"] is not None and has_news:
                self._progress()
            self._line(state_text(self._model))

    def _progress(self) -> None:
        self._last_progress = progress_text(self._model)
        self._line(self._last_progress)

    def _line(self, text: str, timestamp: float | None = None) -> None:
        click.echo(f"{format.clock(timestamp or time.time())} {text}")


def state_text(model: WatchModel) -> str:
    view = model.view
    ended = view["exit"] is not None and view["ended"] is not None
    # The detail of a later attempt begins with its number.
    said = not ended and view["detail"].startswith("attempt ")
    attempt = f", attempt {view['attempt']}" if view["attempt"] > 1 and not said else ""
    text = f"{view['name']} {view['state']}{attempt}"
    if ended:
        record = view["exit"]
        text += f" after {format.duration(record['ended'] - record['started'])}"
        if record["message"] and view["state"] != "SUCCEEDED":
            text += f": {record['message']}"
    elif view["detail"]:
        text += f": {view['detail']}"
    return text


def progress_text(model: WatchModel) -> str:
    parts = []
    if model.fraction is not None:
        parts.append(f"{format.percent(model.fraction):>4}")
    parts.append(f"step {format.count(model.step)}" + (f" of {model.total:,}" if model.total else ""))
    if model.rate:
        parts.append(f"{model.rate:,.0f} steps/s")
    if model.recent_return is not None:
        parts.append(f"return {format.number(round(model.recent_return, 4))}")
    parts += [f"{name} {format.number(value)}" for name, value in list(model.metrics.items())[:3]]
    return "  ".join(parts)


def event_text(row: dict[str, Any]) -> str:
    match row["type"]:
        case "checkpoint":
            return f"checkpoint at step {row['step']:,}: {row['path']}"
        case "stage":
            place = f" ({row['index']} of {row['total']})" if row.get("index") and row.get("total") else ""
            return f"stage {row['name']}{place}"
        case "log":
            level = row.get("level", "info")
            return row["message"] if level == "info" else f"{level}: {row['message']}"
        case "run_failed":
            return f"failed: {' '.join(row['error'].split())}"
        case "attempt":
            origin = f" from step {row['resumed_step']:,}" if row.get("resumed_step") is not None else ""
            return f"attempt {row['attempt']} begins{origin}"
        case kind:
            return str(kind)
