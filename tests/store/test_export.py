"""What an export writes is what the store holds."""

import csv
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from mosaic.store import RunReader, RunWriter, export
from mosaic.worker.messages import Checkpoint, Episode, Log, Metric, Step, from_number


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(export, "CHUNK", 7)
    path = tmp_path / "run.sqlite"
    writer = RunWriter(path)
    for attempt, resumed_step in ((1, None), (2, 30)):
        writer.begin_attempt(attempt, started=1.0, resumed_step=resumed_step)
        for step in range(0, 60, 2):
            writer.append([Step(step=step, reward=step / 7, agent="a", extra={"x": [step]})], 1.0)
            writer.append([Metric(step=step, values={"loss": [1.5, "nan", "inf"][step % 3], "b": 1.0})], 2.0)
            if step % 10 == 0:
                writer.append([Episode(step=step, episode=step, episode_return=-1.0, length=3)], 3.0)
                writer.append([Checkpoint(step=step, path="c"), Log(message="with, a comma\nand a line")], 4.0)
        writer.commit()
    writer.append([Step(step=2**70)], 5.0)
    writer.commit()
    writer.close()
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_export(store: Path, tmp_path: Path, format: export.Format) -> None:
    folder = tmp_path / "deep" / "out"
    with RunReader(store) as reader:
        written = export.write(reader, folder, format)
        journal = reader.read(limit=10_000)
    names = ["metrics", "episodes", "steps", "events", "logs"]
    assert written == [folder / f"{name}.{format}" for name in names]
    assert sorted(folder.iterdir()) == sorted(written)
    files = {path.stem: rows_of(path) for path in written}

    def told(row: dict[str, Any]) -> tuple[int, int, bool]:
        return int(row["attempt"]), int(row["seq"]), str(row["superseded"]).lower() == "true"

    def expected(*kinds: str) -> list[tuple[int, int, bool]]:
        return [(row["attempt"], row["seq"], row.get("superseded", False)) for row in journal if row["type"] in kinds]

    giant = journal[-1]["seq"]
    assert [told(row) for row in files["steps"]] == [place for place in expected("step") if place[1] != giant]
    assert [told(row) for row in files["episodes"]] == expected("episode")
    assert [told(row) for row in files["logs"]] == expected("log")
    assert [told(row) for row in files["events"]] == [*expected("attempt", "checkpoint"), expected("step")[-1]]
    assert files["logs"][0]["message"] == "with, a comma\nand a line"
    assert [float(row["reward"]) for row in files["steps"]] == [
        row["reward"] for row in journal if row["type"] == "step"
    ][:-1]
    for name in ("loss", "b"):
        column = [row for row in files["metrics"] if row["name"] == name]
        assert [told(row) for row in column] == expected("metric")
        values = [from_number(row["values"][name]) for row in journal if row["type"] == "metric"]
        assert [str(float(row["value"])) for row in column] == [str(value) for value in values]
    assert any(math.isinf(float(row["value"])) for row in files["metrics"])


def test_an_export_that_fails_leaves_no_files(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (folder / "metrics.csv").mkdir(parents=True)
    with RunReader(store) as reader, pytest.raises(OSError):
        export.write(reader, folder, "csv")
    assert [path.name for path in folder.iterdir()] == ["metrics.csv"]
