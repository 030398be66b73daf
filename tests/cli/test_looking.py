"""Looking at runs: `runs`, `show`, `watch`, `logs`, `export`, `status`."""

from __future__ import annotations

import csv
import json
from typing import Any

import pyarrow.parquet as parquet
import pytest


@pytest.fixture(scope="module")
def seen(daemon_home: Any, tmp_path_factory: pytest.TempPathFactory, mosaic_class: Any) -> dict[str, Any]:
    """A run that everybody here looks at."""
    mosaic = mosaic_class(daemon_home, tmp_path_factory.mktemp("seen"))
    view: dict[str, Any] = mosaic.short_run("--checkpoint-every", "1000", "--tag", "seen", name="seen")
    return view


def test_runs_lists_the_newest_first_and_filters(mosaic: Any, seen: dict[str, Any]) -> None:
    newer = mosaic.quick_run("newer")
    listed = mosaic.json("runs", "--all")
    assert listed[0]["run_id"] == newer["run_id"]
    assert [run["run_id"] for run in mosaic.json("runs", "--tag", "seen")] == [seen["run_id"]]
    assert mosaic.json("runs", "--state", "lost") == []
    assert seen["run_id"] in {
        run["run_id"] for run in mosaic.json("runs", "--state", "ended", "--worker", "tabular", "-a")
    }
    table = mosaic("runs", "--tag", "seen").stdout.splitlines()
    assert table[0].split()[:3] == ["NAME", "ID", "STATE"]
    assert table[1].split()[0] == "seen"
    assert "100%" in table[1]
    assert "\x1b" not in "".join(table)


def test_a_narrow_terminal_gets_fewer_columns_and_whole_cells(mosaic: Any, seen: dict[str, Any]) -> None:
    narrow = type(mosaic)(mosaic.home, mosaic.cwd, {"COLUMNS": "50"})
    lines = narrow("runs", "--tag", "seen").stdout.splitlines()
    assert all(len(line) <= 50 for line in lines)
    assert "SUCCEEDED" in lines[1]
    assert lines[1].startswith("seen ")


def test_show_tells_everything(mosaic: Any, seen: dict[str, Any]) -> None:
    text = mosaic("show", "seen").stdout
    for expected in (
        seen["run_id"],
        "SUCCEEDED",
        "step 3,000 of 3,000, 100%",
        seen["folder"],
        "recent_return",
        "epsilon",
    ):
        assert expected in text
    assert "checkpoints/step_" in text
    (shown,) = mosaic.json("show", "seen")
    assert [row["step"] for row in shown["checkpoints"]] == [1000, 2000, 3000]
    assert {series["name"] for series in shown["series"]} >= {"epsilon", "recent_return"}


def test_runs_go_by_name_id_beginning_of_it_or_latest(mosaic: Any, seen: dict[str, Any]) -> None:
    run_id = seen["run_id"]
    short = next(line.split()[1] for line in mosaic("runs", "--all").stdout.splitlines() if line.split()[0] == "seen")
    shown = mosaic.json("show", "seen", run_id, run_id.lower(), short, "latest")
    assert [run["run_id"] for run in shown[:4]] == [run_id] * 4
    assert shown[4]["run_id"] == mosaic.client.runs(limit=1)[0].id


@pytest.mark.parametrize("command", ["show", "pause", "export"])
def test_a_run_that_nobody_knows_is_exit_code_4(mosaic: Any, command: str) -> None:
    done = mosaic(command, "nobody", code=4)
    assert "nobody" in done.stderr
    assert done.stderr.count("\n") == 1


def test_watch_tells_what_happened_in_lines(mosaic: Any) -> None:
    done = mosaic("train", "tabular", "--total-timesteps", "3000", "--checkpoint-every", "1000", "--watch")
    assert "checkpoint at step 3,000" in done.stdout
    assert "100%  step 3,000 of 3,000" in done.stdout  # how far it was while it ran depends on the machine
    assert "SUCCEEDED" in done.stdout.splitlines()[-1]
    assert "\x1b" not in done.stdout


def test_watch_as_json_lines_gives_every_row_once_in_order(mosaic: Any, seen: dict[str, Any]) -> None:
    lines = [json.loads(line) for line in mosaic("watch", "seen", "--json").stdout.splitlines()]
    seqs = [line["seq"] for line in lines if "seq" in line]
    assert seqs == list(range(1, len(seqs) + 1))
    assert lines[-1]["run"]["state"] == "SUCCEEDED"


def test_export_writes_files_that_other_tools_read(mosaic: Any, seen: dict[str, Any]) -> None:
    mosaic("export", "seen", "--out", "files")
    metrics = parquet.read_table(mosaic.cwd / "files" / "metrics.parquet").to_pylist()
    assert {row["name"] for row in metrics} >= {"epsilon", "recent_return"}
    mosaic("export", "seen", "--format", "csv")
    with (mosaic.cwd / "seen-export" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(metrics)


def test_status_and_doctor_answer(mosaic: Any, seen: dict[str, Any]) -> None:
    status = mosaic.json("status")
    assert status["home"] == str(mosaic.home)
    assert status["url"] in mosaic("status").stdout
