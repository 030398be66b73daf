"""Tiny workers, made on the spot, to install."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mosaic.envs import WorkerEnvs
from mosaic.paths import Home

# Answers --describe, and counts how often it was asked.
CLI = """
import json, pathlib, sys
asked = pathlib.Path("asked")  # in the environment's folder
asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
told = {{"contract": 1, "name": {name!r}, "title": "Tiny", "version": "0.1"}}
print(json.dumps(told | {{part: {{}} for part in ("capabilities", "fields", "config_schema", "algorithms")}}))
"""

# A build backend that has built already: nothing has to be downloaded for it.
BACKEND = """
import pathlib, shutil
def build_editable(folder, settings=None, metadata=None):
    (wheel,) = pathlib.Path(__file__).with_name("built").glob("*.whl")
    return pathlib.Path(shutil.copy(wheel, folder)).name
"""

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "{name}-worker"
version = "1.2.3"
dependencies = ["mosaic-rl"]
{project}

[project.entry-points."mosaic.workers"]
{entry_points}

[tool.mosaic]
{settings}
"""

MakeWorker = Callable[..., Path]


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Python is fetched, and no setting of the caller's shell gets in the way."""
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    """Stands for the folder with the workers that come with MOSAIC."""
    folder = tmp_path / "workers"
    folder.mkdir()
    return folder


@pytest.fixture
def envs(tmp_path: Path, catalogue: Path) -> WorkerEnvs:
    return WorkerEnvs(Home(tmp_path / "home"), catalogue)


@pytest.fixture
def make_worker(tmp_path: Path, make_worker_in: MakeWorker) -> MakeWorker:
    """make_worker("tiny"): the source of a worker in a folder of its own."""
    return partial(make_worker_in, tmp_path)


@pytest.fixture(scope="session")
def make_worker_in() -> MakeWorker:
    def make(
        parent: Path,
        name: str,
        *,
        workers: dict[str, str] | None = None,
        settings: str = "",
        project: str = "",
        locks: dict[str, str] | None = None,
    ) -> Path:
        module = f"{name}_worker"
        folder = parent / module
        (folder / module).mkdir(parents=True)
        (folder / module / "__init__.py").write_text("def get_worker_metadata(): ...\n")
        (folder / module / "cli.py").write_text(CLI.format(name=name))
        points = {name: f"{module}:get_worker_metadata"} if workers is None else workers
        table = "".join(f"{point} = {value}\n" for point, value in points.items())
        write_wheel(
            folder / "built",
            f"{name}-worker",
            "1.2.3",
            {f"{name}.pth": f"{folder}\n"},
            metadata="Requires-Dist: mosaic-rl\n",
            entry_points=f"[mosaic.workers]\n{table}",
        )
        (folder / "backend.py").write_text(BACKEND)
        (folder / "pyproject.toml").write_text(
            PYPROJECT.format(
                name=name,
                project=project,
                entry_points="".join(f"'{point}' = '{value}'\n" for point, value in points.items()),
                settings=settings,
            )
        )
        for lock, text in (locks or {}).items():
            (folder / lock).write_text(text)
        return folder

    return make


def write_wheel(
    folder: Path, name: str, version: str, files: dict[str, str], *, metadata: str = "", entry_points: str = ""
) -> Path:
    """A wheel written by hand, so that nothing has to be built."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    wheel = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return wheel


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
    """make_wheel("some-worker", worker="some"): a wheel in the folder `wheels`."""

    def make(name: str, *, metadata: str = "", worker: str = "") -> Path:
        module = name.replace("-", "_")
        files = {f"{module}/__init__.py": "", f"{module}/cli.py": CLI.format(name=worker)}
        entry_points = f"[mosaic.workers]\n{worker} = {module}:get_worker_metadata\n" if worker else ""
        return write_wheel(tmp_path / "wheels", name, "1.0", files, metadata=metadata, entry_points=entry_points)

    return make
