from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def lane_dir() -> Iterator[Path]:
    """A folder of streams where the real ones lie."""
    folder = Path(tempfile.mkdtemp(prefix="mosaic-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def until() -> Callable[..., None]:
    def wait(condition: Callable[[], object], seconds: float = 30.0) -> None:
        import time

        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "never came true"
            time.sleep(0.002)

    return wait
