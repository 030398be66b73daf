"""Imports point one way, as docs/architecture.md says."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCE = CHECKOUT / "src" / "mosaic"

# What a part of mosaic may import of mosaic, besides itself.
FOUNDATION = {"paths", "files", "flock", "system", "build"}
LAYERS: dict[str, set[str]] = {
    "paths": set(),
    "files": set(),
    "flock": set(),
    "system": set(),
    "build": set(),
    "worker": FOUNDATION,
    "fastlane": FOUNDATION,
    "envs": FOUNDATION | {"worker", "fastlane"},
    "store": FOUNDATION | {"worker", "fastlane"},
    "shepherd": FOUNDATION | {"worker", "fastlane", "store"},
    "recorder": FOUNDATION | {"worker", "fastlane", "store", "shepherd"},
    "actors": FOUNDATION | {"worker", "fastlane"},
    "web": set(),  # files for the browser, which the daemon serves
    "daemon": FOUNDATION | {"worker", "fastlane", "store", "shepherd", "envs", "actors", "recorder", "web"},
}
TOP = {"client", "cli"}  # may import all of it; nothing below may import them

# What a part may import of other people's packages, besides the standard library. Only the parts that have a promise to
# keep are listed: what workers import, and what must stay small or run on a bare Python.
PACKAGES: dict[str, set[str]] = {
    "paths": set(),
    "files": set(),
    "flock": set(),
    "system": set(),
    "build": set(),
    "envs": set(),
    "worker": {"msgspec", "numpy"},
    "fastlane": {"msgspec", "numpy"},
    "shepherd": {"msgspec"},
}
# Libraries that only workers may import.
LIBRARIES = {"gym", "gymnasium", "pettingzoo", "torch", "jax", "ray", "cleanrl", "xuance", "stable_baselines3"}


def part_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(file: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import that is executed, wherever in the file it stands."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_types_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            if node.module == "mosaic":
                yield from ((node.lineno, f"mosaic.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""


FILES = sorted(file for file in SOURCE.rglob("*.py") if file != SOURCE / "__init__.py")


def test_every_part_has_its_place() -> None:
    parts = {part_of(file) for file in FILES}
    assert parts <= LAYERS.keys() | TOP, "a new part of mosaic: say in this test what it may import"


@pytest.mark.parametrize("part", sorted(LAYERS))
def test_imports_point_one_way(part: str) -> None:
    wrong = [
        f"{file.relative_to(CHECKOUT)}:{line}: {part} imports {module}"
        for file in FILES
        if part_of(file) == part
        for line, module in imports_of(file)
        if module.startswith("mosaic.") and module.split(".")[1] not in LAYERS[part] | {part, "__version__"}
    ]
    assert wrong == []


@pytest.mark.parametrize("part", sorted(PACKAGES))
def test_the_small_parts_stay_small(part: str) -> None:
    allowed = PACKAGES[part] | sys.stdlib_module_names | {"mosaic"}
    wrong = [
        f"{file.relative_to(CHECKOUT)}:{line}: {part} imports {module}"
        for file in FILES
        if part_of(file) == part
        for line, module in imports_of(file)
        if module.partition(".")[0] not in allowed
    ]
    assert wrong == []


def test_the_core_knows_no_worker_and_no_rl_library() -> None:
    workers = {package.parent.name for package in (CHECKOUT / "workers").glob("*/*/__init__.py")}
    wrong = [
        f"{file.relative_to(CHECKOUT)}:{line}: {module}"
        for file in FILES
        for line, module in imports_of(file)
        if module.partition(".")[0] in workers | LIBRARIES
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["mosaic", "mosaic.worker", "mosaic.fastlane"])
def test_what_workers_import_loads_nothing_of_the_platform(module: str) -> None:
    program = f"import {module}, sys; print(*(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    # (msgspec itself takes typing_extensions where it finds it.)
    ours = set(loaded) - sys.stdlib_module_names
    assert {name for name in ours if not name.startswith("_")} <= {"mosaic", "msgspec", "numpy", "typing_extensions"}
