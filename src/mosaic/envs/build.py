"""Fill one virtual environment with a worker, its pins and mosaic itself."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from mosaic.envs.errors import InstallFailed
from mosaic.envs.locks import Report
from mosaic.envs.sources import Source
from mosaic.envs.tools import Tools
from mosaic.paths import CHECKOUT

_TORCH = re.compile(r"^torch\s*(==|$|;)", re.MULTILINE)


def build(venv: Path, source: Source, extras: Sequence[str], tools: Tools, report: Report) -> None:
    project = source.project
    _make_venv(venv, project.python if project else "", tools, report)
    install: list[str | Path] = ["pip", "install", "--python", venv / "bin" / "python"]
    # Named in a file, not as an argument: so uv takes the build of mosaic that it has, until pyproject.toml changes.
    mosaic = venv.parent / "mosaic.txt"
    mosaic.write_text(f"-e {CHECKOUT.as_uri()}\n")
    locks = project.locks(extras) if project else []
    if locks:
        backend = torch_backend(locks, tools)
        tools.uv([*install, *backend, *(word for lock in locks for word in ("-r", lock))], report)
        tools.uv([*install, "--no-deps", "-r", mosaic, *source.requirement(())], report)
    else:
        tools.uv([*install, "-r", mosaic, *source.requirement(extras)], report)
    if project and project.no_deps:
        # uv has no way round a requires-python that is stricter than need be; pip has.
        target: list[str | Path] = ["--python", venv / "bin" / "python"]
        quiet = ["-qq", "--disable-pip-version-check", "--no-compile"]
        report(f"Installing {', '.join(project.no_deps)} without dependencies")
        tools.pip([*target, "install", "--no-deps", "--ignore-requires-python", *quiet, *project.no_deps], report)


def _make_venv(venv: Path, python: str, tools: Tools, report: Report) -> None:
    wanted = python or ">=3.11,<3.14"
    try:
        tools.uv(["venv", "--quiet", "--no-project", "--relocatable", "--python", wanted, venv], report)
    except InstallFailed as failure:
        raise InstallFailed(
            f"it wants Python {wanted}; none that works is on this machine, and uv could not fetch it: {failure}"
        ) from failure


def torch_backend(locks: Sequence[Path], tools: Tools) -> list[str]:
    """Let uv choose between the CPU and CUDA builds by what the machine has, unless somebody has chosen already."""
    needs_torch = any(_TORCH.search(lock.read_text(encoding="utf-8")) for lock in locks)
    if not needs_torch or "UV_TORCH_BACKEND" in os.environ or tools.torch_is_at_hand():
        return []
    return ["--torch-backend=auto"]
