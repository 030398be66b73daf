from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mosaic.fastlane import wrappers


@pytest.fixture(autouse=True)
def fresh_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments of other tests may not have been collected yet."""
    monkeypatch.setattr(wrappers, "_slots", wrappers._Slots())


@pytest.fixture
def lane_dir() -> Iterator[Path]:
    """A folder of streams where the real ones lie."""
    folder = Path(tempfile.mkdtemp(prefix="mosaic-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def on_a_small_disk() -> Callable[[str], str]:
    """Runs Python code in a process whose first argument is a tmpfs of half a megabyte; returns what it prints."""

    def run(code: str) -> str:
        script = 'd=$(mktemp -d) && mount -t tmpfs -o size=512k tmpfs "$d" && "$0" -c "$1" "$d"'
        command = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", script]
        done = subprocess.run([*command, sys.executable, code], capture_output=True, text=True, check=False)
        if "Operation not permitted" in done.stderr or "unshare" in done.stderr:
            pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def until() -> Callable[..., None]:
    def wait(condition: Callable[[], object], seconds: float = 30.0) -> None:
        import time

        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "never came true"
            time.sleep(0.002)

    return wait
