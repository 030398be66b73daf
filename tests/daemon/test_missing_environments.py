"""Runs whose worker is not installed: installed first, and told so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

CONFIG = {"total_timesteps": 200}


def test_it_is_installed_first_and_other_runs_do_not_wait_for_it(daemon: Any) -> None:
    daemon.environment["MOSAIC_CPUS"] = "1"
    daemon.start()
    run = daemon.api("POST", "/runs", {"worker": "tabular", "config": CONFIG})["run_id"]
    other = daemon.script("#!/bin/sh\nexit 0\n")
    view = daemon.view(run)
    assert (view["state"], view["detail"].split(":")[0]) == ("QUEUED", "installing environment tabular")
    listed = {worker["name"]: worker for worker in daemon.api("GET", "/workers")["workers"]}
    assert listed["script"]["installed"]
    daemon.wait_state(other, "SUCCEEDED")
    view = daemon.wait_state(run, "SUCCEEDED")
    assert view["step"] == 200
    assert daemon.view(other)["ended"] < view["started"]
    described = daemon.api("GET", "/workers/tabular")
    assert described["config_schema"]["properties"]["total_timesteps"]
    # In use no more, it can be removed, and would be installed again.
    assert daemon.api("DELETE", "/workers/tabular") == {"removed": "tabular"}
    assert not (daemon.home.envs / "tabular").exists()


def test_an_install_that_fails_fails_the_run_with_the_reason(daemon: Any, tmp_path: Path) -> None:
    daemon.environment |= {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}
    daemon.start()
    run = daemon.api("POST", "/runs", {"worker": "tabular", "config": CONFIG})["run_id"]
    view = daemon.wait_state(run, "FAILED")
    assert view["exit"]["reason"] == "spawn_failed"
    assert view["exit"]["message"].startswith("installing tabular failed: ")
    assert "\n" not in view["exit"]["message"]
    # On record for every daemon to come.
    daemon.kill()
    daemon.start()
    assert daemon.view(run)["state"] == "FAILED"


def test_a_removed_worker_of_somebody_else_is_not_looked_for_on_the_package_index(daemon: Any) -> None:
    daemon.environment["MOSAIC_CPUS"] = "1"
    daemon.install_counter()
    daemon.start()
    run = daemon.counter({"total_timesteps": 1})
    daemon.wait_state(run, "SUCCEEDED")
    daemon.script("#!/bin/sh\nread nothing\n", priority=1)
    waiting = daemon.counter({"total_timesteps": 1})
    shutil.rmtree(daemon.home.envs / "counter")
    for action in ("retry", "resume"):
        status, answer, _ = daemon.request("POST", f"/api/v1/runs/{run}/{action}", None, daemon.bearer)
        assert status == 409
        assert "needs worker 'counter', which is not installed any more" in answer["error"]
    daemon.kill()
    daemon.environment["MOSAIC_CPUS"] = "2"
    daemon.start()
    view = daemon.wait_state(waiting, "FAILED")
    assert view["exit"]["message"].startswith("there is no worker 'counter'; known: ")
    assert list(daemon.home.envs.glob("*.log")) == []
