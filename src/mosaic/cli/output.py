"""Writing to the terminal, or to whatever stdout is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STATE_STYLES = {
    "QUEUED": "dim",
    "STARTING": "cyan",
    "RUNNING": "cyan",
    "PAUSED": "yellow",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "LOST": "magenta",
}

# What is piped is not a terminal's width; a program or a log wants each row on its line.
PIPE_WIDTH = 250
LEAST_YIELDING_WIDTH = 16
GAP = 2


def print_json(value: Any) -> None:
    """One JSON value; indented for eyes, on one line for pipes."""
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def say(message: str) -> None:
    """A line for the person, on stderr so that it never mixes with an answer."""
    click.echo(message, err=True)


def console() -> Console:
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(width=width, highlight=False, soft_wrap=False, emoji=False)


def ascii_only(console: Console) -> bool:
    """Whether bars and curves must do without block characters."""
    return not console.encoding.lower().startswith("utf")


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    right: Collection[str] = (),
    yields: str,
    drop: Sequence[str] = (),
    console: Console,
) -> None:
    """A table without lines. In a narrow terminal the columns in `drop` go first, in order, then `yields` is cut."""
    from rich.cells import cell_len
    from rich.table import Table

    def natural(heading: str) -> int:
        column = headings.index(heading)
        return max(cell_len(heading), *(cell_len(str(row[column])) for row in rows), 0)

    widths = {heading: natural(heading) for heading in headings}
    shown = list(headings)

    def left_for_yielding() -> int:
        return console.width - sum(widths[name] + GAP for name in shown if name != yields)

    for heading in drop:
        if left_for_yielding() >= min(widths[yields], LEAST_YIELDING_WIDTH):
            break
        shown.remove(heading)
    widths[yields] = max(1, min(widths[yields], left_for_yielding()))
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for heading in shown:
        made.add_column(
            heading,
            justify="right" if heading in right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=widths[heading],
        )
    for row in rows:
        made.add_row(*(cell for heading, cell in zip(headings, row, strict=True) if heading in shown))
    console.print(made)


def state_text(state: str) -> Text:
    from rich.text import Text

    return Text(state, style=STATE_STYLES.get(state, ""))
