"""Where the store's tests put their files."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def new_store() -> Iterator[Callable[[], Path]]:
    """A fresh path for each example of a property test; in memory where that is possible, as there are hundreds."""
    memory = Path("/dev/shm")
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="mosaic-test-") as folder:

        def make() -> Path:
            return Path(folder) / f"{next(numbers)}.sqlite"

        yield make
