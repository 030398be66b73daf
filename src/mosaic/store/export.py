"""A store as Parquet or CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mosaic.store.reader import RunReader


def write(reader: RunReader, folder: Path, format: Literal["parquet", "csv"]) -> list[Path]:
    """Write metrics, episodes, steps, events and logs into one file each in `folder` (made if need be); say which.

    Every row has attempt, seq and superseded. Memory stays flat; a file has its name only when it is whole.
    """
    raise NotImplementedError
