"""`mosaic worker`: what there is, what it can do, and what is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from mosaic.paths import Home
from mosaic.shepherd.lock import take_lock


def test_workers_are_listed_and_shown(bare_home: Path, mosaic_class: Any, tmp_path: Path) -> None:
    mosaic = mosaic_class(bare_home, tmp_path)
    listed = {worker["name"]: worker for worker in mosaic.json("worker", "list")}
    assert listed["tabular"]["state"] == "installed"
    assert "tabular" in mosaic("worker", "list").stdout
    text = mosaic("worker", "show", "tabular").stdout
    assert "sarsa" in text
    assert "supports pause resume" in text
    assert mosaic.json("worker", "show", "tabular")["description"]["contract"] == 1


def test_what_cannot_be_is_told_in_one_line(no_daemon: Any) -> None:
    for arguments, code, expected in (
        (("show", "nobody"), 4, "there is no worker 'nobody'"),
        (("check", "nobody"), 4, "there is no worker 'nobody'"),
        (("remove", "nobody"), 4, "'nobody' is not installed"),
        (("show", "tabular"), 4, "mosaic worker install tabular"),
        (("install", "./absent"), 1, "no such folder"),
        (("install", "tabulr"), 1, "did you mean 'tabular'?"),
    ):
        done = no_daemon("worker", *arguments, code=code)
        assert expected in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_worker_is_not_removed_under_a_running_run(bare_home: Path, mosaic_class: Any, tmp_path: Path) -> None:
    folder = Home(bare_home).run("01K0000000000000000000000A")
    folder.path.mkdir(parents=True)
    folder.job.write_text('{"name": "busy", "metadata": {"worker": {"name": "tabular"}}}')
    lock = take_lock(folder)
    assert lock is not None
    try:
        done = mosaic_class(bare_home, tmp_path)("worker", "remove", "tabular", code=5)
    finally:
        os.close(lock)
        shutil.rmtree(folder.path)
    assert "in use by run" in done.stderr


def test_help_of_a_worker_that_is_not_installed_says_how_to_get_its_flags(no_daemon: Any) -> None:
    text = no_daemon("train", "tabular", "--help").stdout
    assert "mosaic worker install tabular" in " ".join(text.split())
    assert "--retry" in text
