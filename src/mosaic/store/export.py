"""A store as Parquet or CSV files, for people with other tools.

Memory stays flat: rows go from the store to the file a chunk at a time. Where a kind has numbers, NULL is NaN.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mosaic.store.lineage import Lineage, Segment
from mosaic.store.reader import RunReader

CHUNK = 20_000

Format = Literal["parquet", "csv"]
Columns = list[tuple[Any, ...]]
# Takes one chunk after the other, as columns.
Sink = Callable[[Columns], None]


@dataclass(frozen=True)
class _Table:
    """One file. `sql` finds a chunk of `id`'s rows in a range of seqs: seq, superseded, then the columns."""

    name: str
    columns: dict[str, str]  # name -> Arrow type
    sql: str
    ids: str = "SELECT NULL"


_PAGE = "seq > :after AND seq <= :until ORDER BY seq LIMIT :chunk"
_TABLES = (
    _Table(
        "metrics",
        {"time": "float64", "step": "int64", "name": "string", "value": "float64"},
        """SELECT points.seq, points.step > :cutoff, metrics.time, points.step, series.name, points.value
           FROM points JOIN metrics ON metrics.seq = points.seq JOIN series ON series.id = points.series
           WHERE points.series = :id AND points.seq > :after AND points.seq <= :until
           ORDER BY points.seq LIMIT :chunk""",
        ids="SELECT id FROM series ORDER BY id",
    ),
    _Table(
        "episodes",
        {
            "time": "float64",
            "step": "int64",
            "episode": "int64",
            "episode_return": "float64",
            "length": "int64",
            "agent": "string",
            "env": "int64",
            "extra": "string",
        },
        f"""SELECT seq, step > :cutoff, time, step, episode, episode_return, length, agent, env, extra
            FROM episodes WHERE {_PAGE}""",
    ),
    _Table(
        "steps",
        {
            "time": "float64",
            "step": "int64",
            "reward": "float64",
            "episode": "int64",
            "agent": "string",
            "env": "int64",
            "extra": "string",
        },
        f"SELECT seq, step > :cutoff, time, step, reward, episode, agent, env, extra FROM steps WHERE {_PAGE}",
    ),
    _Table(
        "events",
        {"time": "float64", "type": "string", "body": "string"},
        f"""SELECT seq, coalesce(json_extract(body, '$.step') > :cutoff, 0), time, kind, body
            FROM events WHERE {_PAGE}""",
    ),
    _Table(
        "logs",
        {"time": "float64", "level": "string", "message": "string"},
        f"SELECT seq, 0, time, level, message FROM logs WHERE {_PAGE}",
    ),
)


def write(reader: RunReader, folder: Path, format: Format) -> list[Path]:
    """Write metrics, episodes, steps, events and logs into one file each in `folder` (made if need be); say which.

    Every row has attempt, seq and superseded. What is said while this runs is not in the files. Memory stays flat; a
    file has its name only when it is whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lineage, end = reader.ask(_now)
    return [_write_table(reader, table, lineage, end, folder / f"{table.name}.{format}", format) for table in _TABLES]


def _now(database: sqlite3.Connection) -> tuple[Lineage, int]:
    return Lineage(database), database.execute("SELECT coalesce(max(last_seq), 0) FROM attempts").fetchone()[0]


def _write_table(reader: RunReader, table: _Table, lineage: Lineage, end: int, path: Path, format: Format) -> Path:
    temporary = path.with_name(f".{path.name}.tmp")
    write_file = _write_parquet if format == "parquet" else _write_csv
    try:
        write_file(temporary, table, _chunks(reader, table, lineage, end))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def _chunks(reader: RunReader, table: _Table, lineage: Lineage, end: int) -> Iterator[Columns]:
    """Columns attempt, seq, superseded and the table's own."""
    ids = reader.ask(lambda database: database.execute(table.ids).fetchall())
    for (id,) in ids:
        for segment in lineage.segments:
            after, until = segment.first_seq - 1, min(segment.stop_seq - 1, end)
            while rows := _chunk(reader, table, segment, id, after, until):
                seqs, superseded, *columns = zip(*rows, strict=True)
                after = seqs[-1]
                yield [(segment.attempt,) * len(seqs), seqs, tuple(map(bool, superseded)), *columns]


def _chunk(
    reader: RunReader, table: _Table, segment: Segment, id: int | None, after: int, until: int
) -> list[tuple[Any, ...]]:
    given = {"id": id, "after": after, "until": until, "chunk": CHUNK, "cutoff": segment.cutoff}
    return reader.ask(lambda database: database.execute(table.sql, given).fetchall())


def _write_parquet(path: Path, table: _Table, chunks: Iterator[Columns]) -> None:
    import pyarrow.parquet  # type: ignore[import-untyped]  # heavy, and not needed for anything else

    fields = {"attempt": "int64", "seq": "int64", "superseded": "bool", **table.columns}
    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in fields.items()])
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as file:
        for columns in chunks:
            arrays = [
                pyarrow.array(_with_nans(column) if field.type == pyarrow.float64() else column, type=field.type)
                for field, column in zip(schema, columns, strict=True)
            ]
            file.write_batch(pyarrow.RecordBatch.from_arrays(arrays, schema=schema))


def _with_nans(column: tuple[Any, ...]) -> list[float]:
    return [float("nan") if value is None else value for value in column]


def _write_csv(path: Path, table: _Table, chunks: Iterator[Columns]) -> None:
    kinds = ["int64", "int64", "bool", *table.columns.values()]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["attempt", "seq", "superseded", *table.columns])
        for columns in chunks:
            shown = [_shown(column, kind) for column, kind in zip(columns, kinds, strict=True)]
            writer.writerows(zip(*shown, strict=True))


def _shown(column: tuple[Any, ...], kind: str) -> Any:
    if kind == "float64":
        return _with_nans(column)
    if kind == "bool":
        return ["true" if value else "false" for value in column]
    return column
