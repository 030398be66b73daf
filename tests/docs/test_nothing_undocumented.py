"""What a user can type, set or read in a run's stream stands in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from mosaic.cli.app import COMMANDS
from mosaic.daemon.job import JobSpec
from mosaic.worker.messages import AnyMessage

ROOT = Path(__file__).parents[2]
DOCS = {path.name: path.read_text() for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]}
# How our own processes find each other; nobody sets them by hand.
INTERNAL = {"MOSAIC_COMPLETE", "MOSAIC_RESULT_FD", "MOSAIC_TELEMETRY_FD"}


def variables() -> set[str]:
    """All environment variables of ours that the platform's code or its launcher names in a string."""
    files = [ROOT / "mosaic", *(ROOT / "src").rglob("*.py")]
    return {name for path in files for name in re.findall(r"\bMOSAIC_[A-Z_]*[A-Z]\b(?![A-Z_*])", path.read_text())}


def test_every_variable_is_documented() -> None:
    found = variables()
    assert {"MOSAIC_HOME", "MOSAIC_PYTHON", "MOSAIC_HEARTBEAT_S"} <= found
    assert {name for name in found - INTERNAL if not any(name in text for text in DOCS.values())} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"`mosaic [^\n]*\b{command}\b", DOCS["cli.md"])


def test_every_kind_of_telemetry_is_documented() -> None:
    kinds = {kind.__struct_config__.tag for kind in AnyMessage.__args__}
    assert {kind for kind in kinds if f"| `{kind}` |" not in DOCS["workers.md"]} == set()


def test_every_part_of_a_submission_is_documented() -> None:
    fields = {field.name for field in msgspec.structs.fields(JobSpec)}
    assert {name for name in fields if f'"{name}"' not in DOCS["cli.md"]} == set()
