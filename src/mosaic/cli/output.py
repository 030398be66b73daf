"""Writing to the terminal, or to whatever stdout is."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
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


def ascii_only() -> bool:
    return not (sys.stdout.encoding or "ascii").lower().startswith("utf")


def table(*headings: str, right: tuple[str, ...] = (), give_way: tuple[str, ...] = ()) -> Table:
    """A table without lines; columns named in `give_way` are cut first where the terminal is narrow."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        yielding = heading in give_way
        made.add_column(
            heading,
            justify="right" if heading in right else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=6 if yielding else None,
            ratio=None,
        )
    return made


def state_text(state: str) -> Text:
    from rich.text import Text

    return Text(state, style=STATE_STYLES.get(state, ""))
