"""The store of a run: `run.sqlite`, everything that the run ever said, under one sequence of numbers.

One `RunWriter` (the shepherd) appends; any number of `RunReader`s (daemon, GUI, CLI, a notebook) read at any time and
disturb nobody. `mosaic.store.export.write` turns a store into Parquet or CSV files.

    with RunReader(folder.store) as reader:
        rows = reader.read(since=seq)          # follow: every row after `seq`, in order
        curve = reader.plot("loss")            # at most 2000 points, whatever the length of the run
"""

from mosaic.store.errors import StoreError, StoreForeign, StoreMissing, StoreTooNew
from mosaic.store.reader import RunReader
from mosaic.store.rows import KINDS, AttemptInfo, PlotPoint, Progress, SeriesInfo
from mosaic.store.writer import RunWriter

__all__ = [
    "KINDS",
    "AttemptInfo",
    "PlotPoint",
    "Progress",
    "RunReader",
    "RunWriter",
    "SeriesInfo",
    "StoreError",
    "StoreForeign",
    "StoreMissing",
    "StoreTooNew",
]
