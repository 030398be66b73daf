"""The list of commands in `mosaic --help` is the truth about the commands' files."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import mosaic.cli
from mosaic.cli.app import COMMANDS
from mosaic.cli.bench import benchmarks

FOLDER = Path(mosaic.cli.__file__).parent


@pytest.mark.parametrize("name", COMMANDS)
def test_help_in_the_table_is_what_the_command_says(name: str) -> None:
    command = importlib.import_module(f"mosaic.cli.{name}").command
    assert (command.help or "").split("\n")[0] == COMMANDS[name]


def test_every_file_with_a_command_is_in_the_table() -> None:
    having = {path.stem for path in FOLDER.glob("*.py") if "\n@click.command" in path.read_text()}
    having |= {path.stem for path in FOLDER.glob("*.py") if "\n@click.group" in path.read_text()} - {"app"}
    assert having == set(COMMANDS)


def test_bench_lists_what_can_be_run() -> None:
    listed = benchmarks()
    assert {"fastlane", "telemetry"} <= set(listed)
    programs = {path.stem for path in listed["fastlane"].parent.glob("*.py") if "__main__" in path.read_text()}
    assert set(listed) == programs
