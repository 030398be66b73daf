"""`mosaic doctor`: finds what is wrong, leaves what is right, mends on request."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from mosaic.daemon.ulid import UlidMaker
from mosaic.shepherd.launch import shared_memory_folder


def findings(daemon: Any, *, mend: bool = False) -> dict[str, dict[str, Any]]:
    answer = daemon.api("POST", "/doctor/mend") if mend else daemon.api("GET", "/doctor")
    return {finding["kind"]: finding for finding in answer["findings"]}


def age(path: Path) -> None:
    os.utime(path, (0, 0))


def test_it_finds_explains_and_mends(daemon: Any) -> None:
    daemon.start()
    kept = daemon.script("#!/bin/sh\nexit 0\n", name="kept")
    gone, orphan = (
        daemon.script("#!/bin/sh\nexit 0\n", name="gone"),
        daemon.script("#!/bin/sh\nexit 0\n", name="orphan"),
    )
    living = daemon.script("#!/bin/sh\nexec sleep 300\n", name="living")
    for run in (kept, gone, orphan):
        daemon.wait_ended(run)
    daemon.wait_state(living, "RUNNING")
    assert findings(daemon) == {}

    home = daemon.home
    shutil.rmtree(home.run(gone).path)
    left = subprocess.Popen(["sleep", "300"], env=os.environ | {"MOSAIC_RUN_ID": orphan})
    frames = shared_memory_folder(orphan)
    frames.mkdir()
    # One of a living run, and one of nobody we know: neither is ours to touch.
    living_frames, foreign_frames = shared_memory_folder(living), shared_memory_folder(UlidMaker()())
    living_frames.mkdir(exist_ok=True)
    foreign_frames.mkdir()
    half = home.run(UlidMaker()()).path
    half.mkdir()
    copy = home.runs / "copy-of-kept"
    shutil.copytree(home.run(kept).path, copy)
    for path in (half, copy):
        age(path)
    (home.envs / "broken" / "venv").mkdir(parents=True)
    (home.envs / ".other.new").mkdir()
    (home.runs / ".trash-X").mkdir()
    lock = os.open(home.run(kept).lock, os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        found = findings(daemon)
        assert set(found) == {
            "row_without_folder",
            "orphaned_processes",
            "stray_shared_memory",
            "half_made_folder",
            "strange_folder",
            "half_made_environment",
            "half_deleted_run",
            "stale_lock",
        }
        assert f"{left.pid} (sleep)" in found["orphaned_processes"]["message"]
        assert str(os.getpid()) in found["stale_lock"]["message"]
        assert found["strange_folder"]["mend"] is None
        assert not any(finding["mended"] for finding in found.values())
        assert all("\n" not in finding["message"] for finding in found.values())
        assert left.poll() is None

        mended = findings(daemon, mend=True)
        assert {kind for kind, finding in mended.items() if not finding["mended"]} == {"strange_folder", "stale_lock"}
    finally:
        os.close(lock)
        shutil.rmtree(foreign_frames)
    assert left.wait(10) == -9
    assert not frames.exists()
    assert living_frames.exists()
    assert set(findings(daemon)) == {"strange_folder"}
    assert {view["name"] for view in daemon.api("GET", "/runs")["runs"]} == {"kept", "orphan", "living"}
    assert daemon.view(living)["state"] == "RUNNING"


def test_a_folder_that_came_while_the_daemon_ran_is_entered(daemon: Any) -> None:
    daemon.start()
    run = daemon.script("#!/bin/sh\necho '@step 3'\n", name="moved")
    daemon.wait_ended(run)
    elsewhere = daemon.home.root / run
    shutil.move(daemon.home.run(run).path, elsewhere)
    assert set(findings(daemon, mend=True)) == {"row_without_folder"}
    assert daemon.api("GET", "/runs")["runs"] == []
    shutil.move(elsewhere, daemon.home.run(run).path)
    age(daemon.home.run(run).path)
    assert set(findings(daemon, mend=True)) == {"folder_without_row"}
    assert daemon.view("moved")["step"] == 3
    assert findings(daemon) == {}
