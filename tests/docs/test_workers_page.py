"""The worker on docs/workers.md is not an illustration: taken from the page as it stands, it keeps the contract."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from mosaic.worker.conformance import run_checks

PAGE = Path(__file__).parents[2] / "docs" / "workers.md"


def write_worker(folder: Path) -> None:
    """The code blocks of the page that name a file, and its pyproject.toml."""
    text = PAGE.read_text()
    package = folder / "my_worker"
    package.mkdir(parents=True)
    for name, body in re.findall(r"```python\n# my_worker/(\S+)\n(.*?)```", text, re.DOTALL):
        (package / name).write_text(body)
    project = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert project is not None
    (folder / "pyproject.toml").write_text(project.group(1))


def test_the_worker_on_the_page_passes_the_conformance_kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_worker(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    results = run_checks([sys.executable, "-m", "my_worker.cli"], lambda result: None)
    assert [f"{result.title}: {result.detail}" for result in results if result.ok is False] == []
    skipped = [result.name for result in results if result.ok is None]
    assert skipped == ["names_its_algorithms"]
