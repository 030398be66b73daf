"""The launcher `./mosaic`: sets itself up on first use, from anywhere, and repairs what is broken."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

# In place of the real command line: says which Python runs it, from where, with what.
CLI = """
import json, os, sys
print(json.dumps({"prefix": sys.prefix, "cwd": os.getcwd(), "arguments": sys.argv[1:]}))
"""


def copy_of_checkout(place: Path) -> Path:
    """What the launcher needs, with a short requirements.lock so that setting up is quick."""
    (place / "src/mosaic/cli").mkdir(parents=True)
    for name in ("mosaic", "pyproject.toml", "README.md"):
        shutil.copy2(CHECKOUT / name, place / name)
    for name in ("__init__.py", "paths.py", "files.py"):
        shutil.copy2(CHECKOUT / "src/mosaic" / name, place / "src/mosaic" / name)
    shutil.copytree(CHECKOUT / "src/mosaic/envs", place / "src/mosaic/envs", ignore=shutil.ignore_patterns("*.pyc"))
    (place / "src/mosaic/cli/__init__.py").touch()
    (place / "src/mosaic/cli/__main__.py").write_text(CLI)
    pins = (CHECKOUT / "requirements.lock").read_text().splitlines(keepends=True)
    (place / "requirements.lock").write_text("".join(pin for pin in pins if pin.startswith(("uv==", "idna=="))))
    return place


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MOSAIC_", "PYTHON"))}
    return kept | {"MOSAIC_PYTHON": sys.executable} | changes


def launch(launcher: Path, *arguments: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [launcher, *arguments], cwd=cwd, env=environment(**changes), capture_output=True, text=True, timeout=120
    )


def kill_half_way(place: Path) -> None:
    first = subprocess.Popen([place / "mosaic"], env=environment(), stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(place.glob(".venv/lib/python3*/site-packages/pip")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert list(place.glob(".venv/lib/python3*/site-packages/pip")), "it never came so far"
    assert not (place / ".venv/mosaic.stamp").exists()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in a path with spaces: its first start is killed, its second (from another folder) sets it up."""
    place = copy_of_checkout(tmp_path_factory.mktemp("a place") / "my checkout")
    kill_half_way(place)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    first = launch(place / "mosaic", "one", "two words", cwd=elsewhere)
    assert first.returncode == 0, first.stderr
    assert "setting up .venv" in first.stderr
    assert f'"prefix": "{place}/.venv"' in first.stdout
    assert f'"cwd": "{elsewhere}"' in first.stdout
    assert '"arguments": ["one", "two words"]' in first.stdout
    return place


@pytest.fixture
def ready(checkout: Path) -> Iterator[Path]:
    """The copy, with its stamp as the set-up left it."""
    stamp = (checkout / ".venv/mosaic.stamp").read_bytes()
    yield checkout
    (checkout / ".venv/mosaic.stamp").write_bytes(stamp)


def test_second_start_is_silent_and_starts_nothing_but_the_command(ready: Path, tmp_path: Path) -> None:
    # MOSAIC_PYTHON would be started by a set-up; it does not exist, so there was none.
    again = launch(ready / "mosaic", cwd=tmp_path, MOSAIC_PYTHON="/does/not/exist")
    assert (again.returncode, again.stderr) == (0, "")


@pytest.mark.parametrize("relative", [False, True])
def test_through_symbolic_links(ready: Path, tmp_path: Path, relative: bool) -> None:
    inner = tmp_path / "inner link"
    inner.symlink_to(os.path.relpath(ready / "mosaic", tmp_path) if relative else ready / "mosaic")
    outer = tmp_path / "bin" / "mosaic"
    outer.parent.mkdir()
    outer.symlink_to("../inner link" if relative else inner)
    linked = launch(outer, cwd=tmp_path, MOSAIC_PYTHON="/does/not/exist")
    assert f'"prefix": "{ready}/.venv"' in linked.stdout, linked.stderr


def test_found_on_the_path(ready: Path, tmp_path: Path) -> None:
    path = f"{ready}{os.pathsep}{os.environ['PATH']}"
    found = subprocess.run(["sh", "-c", "mosaic x"], cwd=tmp_path, env=environment(PATH=path), capture_output=True)
    assert b'"arguments": ["x"]' in found.stdout, found.stderr


def test_the_current_folder_shadows_no_module(ready: Path, tmp_path: Path) -> None:
    (tmp_path / "mosaic.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    assert launch(ready / "mosaic", cwd=tmp_path).returncode == 0


def test_new_pins_are_installed_into_the_venv_that_is_there(ready: Path, tmp_path: Path) -> None:
    witness = ready / ".venv/witness"
    witness.touch()
    lock = ready / "requirements.lock"
    before = lock.read_text()
    pins = (CHECKOUT / "requirements.lock").read_text().splitlines(keepends=True)
    lock.write_text(before + next(pin for pin in pins if pin.startswith("mdurl==")))
    updated = launch(ready / "mosaic", cwd=tmp_path)
    assert "bringing .venv up to date" in updated.stderr
    assert list(ready.glob(".venv/lib/python3*/site-packages/mdurl"))
    assert witness.exists()
    lock.write_text(before)


def test_a_moved_venv_is_remade_once_when_two_start_at_once(ready: Path, tmp_path: Path) -> None:
    place = shutil.copytree(ready, tmp_path / "moved", symlinks=True)
    both = [
        subprocess.Popen(
            [place / "mosaic"], env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    told = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert all(f'"prefix": "{place}/.venv"' in answer for answer, _ in told)
    assert sum("setting up .venv with" in errors for _, errors in told) == 1, told
    assert not list(place.glob(".venv.old*"))


def test_a_venv_whose_python_is_gone_is_not_taken_for_whole(ready: Path, tmp_path: Path) -> None:
    python = ready / ".venv/bin/python"
    target = python.readlink()
    python.unlink()
    python.symlink_to("/does/not/exist/python3")
    try:
        failed = launch(ready / "mosaic", cwd=tmp_path, MOSAIC_PYTHON="/does/not/exist")
        assert failed.returncode == 1
        assert "needs Python 3.11, 3.12 or 3.13" in failed.stderr
    finally:
        python.unlink()
        python.symlink_to(target)


@pytest.mark.parametrize(
    "part",
    ["pyvenv.cfg", "lib/python3*/site-packages", "lib/python3*/site-packages/idna", "lib/python3*/*/*mosaic*.pth"],
)
def test_a_venv_that_lacks_a_part_is_not_taken_for_whole(ready: Path, tmp_path: Path, part: str) -> None:
    (found,) = ready.glob(f".venv/{part}")
    found.rename(aside := tmp_path / "aside")
    failed = launch(ready / "mosaic", cwd=tmp_path, MOSAIC_PYTHON="/does/not/exist")
    aside.rename(found)
    assert failed.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13" in failed.stderr


def test_a_venv_that_lacks_a_package_is_remade(ready: Path, tmp_path: Path) -> None:
    (package,) = ready.glob(".venv/lib/python3*/site-packages/idna")
    package.rename(tmp_path / "aside")
    again = launch(ready / "mosaic", cwd=tmp_path)
    assert (again.returncode, package.is_dir()) == (0, True), again.stderr


@pytest.fixture
def other_machine(tmp_path: Path) -> Path:
    """A folder for PATH that holds what the launcher needs, and no Python yet."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "cksum", "readlink"):
        found = shutil.which(tool)
        assert found
        (folder / tool).symlink_to(found)
    return folder


def add_python(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("pythons", "told"),
    [
        ({}, "found none;"),
        ({"python3": "echo 3.9"}, "/bin/python3 (3.9);"),
        ({"python3": "echo 3.14", "python3.12": "exit 127"}, "/bin/python3 (3.14);"),
        ({"python3.11": "echo 3.11; exit 1"}, "/bin/python3.11 (3.11 without its venv module);"),
    ],
)
def test_without_a_fitting_python_the_error_is_one_clear_line(
    other_machine: Path, tmp_path: Path, pythons: dict[str, str], told: str
) -> None:
    for name, script in pythons.items():
        add_python(other_machine, name, script)
    place = copy_of_checkout(tmp_path / "checkout")
    failed = launch(place / "mosaic", cwd=tmp_path, PATH=str(other_machine), MOSAIC_PYTHON="")
    assert failed.returncode == 1
    assert failed.stderr.startswith("mosaic: needs Python 3.11, 3.12 or 3.13")
    assert told in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert not (place / ".venv").exists()


def test_a_broken_or_old_python_is_passed_over(other_machine: Path, tmp_path: Path) -> None:
    add_python(other_machine, "python3", "exit 127")
    add_python(other_machine, "python3.13", "echo 3.6")
    add_python(
        other_machine, "python3.11", f'case $1 in -c) echo 3.11 ;; *) echo "$*" >{tmp_path}/called; exit 3 ;; esac'
    )
    place = copy_of_checkout(tmp_path / "checkout")
    assert launch(place / "mosaic", cwd=tmp_path, PATH=str(other_machine), MOSAIC_PYTHON="").returncode == 1
    assert (tmp_path / "called").read_text() == "-P -m mosaic.envs.core\n"


def test_set_up_needs_nothing_but_the_standard_library() -> None:
    program = f"import sys; sys.path.insert(0, {str(CHECKOUT / 'src')!r}); import mosaic.envs.core"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
