"""Killing the daemon (and shepherds) at bad moments: no run is harmed, doubled or forgotten, every end is told."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mosaic.daemon.job import Job, Metadata, WorkerPart
from mosaic.daemon.launching import write_job, write_launch
from mosaic.daemon.programs import Program
from mosaic.daemon.registry import Registry
from mosaic.daemon.ulid import UlidMaker
from mosaic.paths import Home
from mosaic.shepherd.lock import is_locked
from mosaic.shepherd.processes import leftovers
from mosaic.store import RunReader


def wait_for(condition: Callable[[], Any], what: str, timeout: float = 45.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.02)


def starts(daemon: Any, run_id: str) -> list[str]:
    """The attempt of each time that the run's worker was started."""
    file: Path = daemon.home.run(run_id).path / "starts"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def script(*lines: str) -> str:
    return "\n".join(["#!/bin/sh", 'echo "$MOSAIC_ATTEMPT $$" >> "$MOSAIC_RUN_DIR/starts"', *lines, ""])


def test_runs_go_on_without_a_daemon_and_the_next_one_takes_them_over(daemon: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    daemon.start()
    runs = [daemon.script(script(f"while [ ! -e {go}{n} ]; do sleep 0.05; done", "echo '@step 7'")) for n in (1, 2)]
    waiting = [daemon.script(script()) for _ in range(2)]
    for run in runs:
        daemon.wait_state(run, "RUNNING")
    shepherds = [daemon.shepherd_pid(run) for run in runs]
    daemon.kill()
    assert all(is_locked(daemon.home.run(run)) for run in runs)
    daemon.start()
    assert [daemon.view(run)["state"] for run in runs] == ["RUNNING", "RUNNING"]
    assert [daemon.shepherd_pid(run) for run in runs] == shepherds
    assert [daemon.view(run)["state"] for run in waiting] == ["QUEUED", "QUEUED"]
    # One ends before the eyes of a daemon that did not start it, the other one while there is none.
    Path(f"{go}1").touch()
    assert daemon.wait_ended(runs[0])["step"] == 7
    daemon.kill()
    Path(f"{go}2").touch()
    wait_for(lambda: not is_locked(daemon.home.run(runs[1])), "the shepherd to end")
    daemon.start()
    assert daemon.wait_ended(runs[1])["state"] == "SUCCEEDED"
    for run in waiting:
        assert daemon.wait_ended(run)["state"] == "SUCCEEDED"
    assert [starts(daemon, run) for run in [*runs, *waiting]] == [["1"]] * 4


def test_kills_at_random_moments_while_runs_start(daemon: Any) -> None:
    """Whatever the moment: every run that was accepted is run, once, and only once."""
    chance = random.Random(7)
    runs = []
    for _ in range(4):
        daemon.start()
        runs += [daemon.script(script("sleep 0.05")) for _ in range(2)]
        time.sleep(chance.random() * 0.4)
        daemon.kill()
    daemon.start()
    views = [daemon.wait_ended(run) for run in runs]
    assert [view["state"] for view in views] == ["SUCCEEDED"] * 8
    assert [starts(daemon, run) for run in runs] == [["1"]] * 8
    assert [len(_attempts(daemon, run)) for run in runs] == [1] * 8


def test_a_dead_shepherd_is_told_as_lost_and_its_processes_are_ended(daemon: Any) -> None:
    daemon.start()
    run = daemon.script(
        script("trap '' TERM", "setsid sh -c 'trap \"\" TERM; sleep 300' &", "while :; do sleep 1; done")
    )
    daemon.wait_state(run, "RUNNING")
    wait_for(lambda: starts(daemon, run), "the script")
    pid = daemon.shepherd_pid(run)
    daemon.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_locked(daemon.home.run(run)), "the shepherd to end")
    # A daemon that is told to stop meanwhile does not wait for it.
    daemon.environment["MOSAIC_ORPHAN_GRACE_S"] = "300"
    daemon.start()
    daemon.stop()
    daemon.environment["MOSAIC_ORPHAN_GRACE_S"] = "0.2"
    daemon.start()
    view = daemon.wait_ended(run)
    assert view["state"] == "LOST"
    assert view["exit"]["outcome"] == "lost"
    assert leftovers(run) == []
    assert starts(daemon, run) == ["1"]


def test_policy_restart_starts_again_up_to_its_limit_and_says_why(daemon: Any) -> None:
    daemon.start()
    run = daemon.script(script("exit 5"), retry={"policy": "restart", "limit": 2})
    wait_for(lambda: daemon.view(run)["attempt"] == 3, "the last attempt")
    view = daemon.wait_ended(run)
    assert view["state"] == "FAILED"
    assert view["detail"] == "not tried again: 2 of 2 retries are used up"
    assert starts(daemon, run) == ["1", "2", "3"]
    # Asked for by hand it starts again, with all its retries.
    daemon.api("POST", f"/runs/{run}/retry")
    wait_for(lambda: starts(daemon, run) == ["1", "2", "3", "4", "5", "6"], "three more")


def test_policy_resume_goes_on_from_the_newest_checkpoint(daemon: Any) -> None:
    daemon.install_counter()
    daemon.start()
    config = {"total_timesteps": 30, "checkpoint_every": 10, "fail_at": 25}
    run = daemon.counter(config, retry={"policy": "resume", "limit": 1})
    view = daemon.wait_state(run, "SUCCEEDED")
    assert (view["attempt"], view["step"]) == (2, 30)
    assert "retry 1 of 1) from the checkpoint at step 20, because attempt 1 failed" in view["detail"]
    assert "told to fail at step 25" in view["detail"]
    points = daemon.api("GET", f"/runs/{run}/plot?name=count")["points"]
    assert [point["step_min"] for point in points] == list(range(1, 31))


def test_policy_resume_after_the_shepherd_was_killed_under_a_dead_daemon(daemon: Any) -> None:
    daemon.install_counter()
    daemon.start()
    config = {"total_timesteps": 60, "checkpoint_every": 1, "pause_s": 0.05}
    run = daemon.counter(config, retry={"policy": "resume", "limit": 1})
    wait_for(lambda: daemon.api("GET", f"/runs/{run}/checkpoints")["checkpoints"], "a checkpoint")
    pid = daemon.shepherd_pid(run)
    daemon.kill()
    os.kill(pid, signal.SIGKILL)
    daemon.start()
    view = daemon.wait_state(run, "SUCCEEDED")
    assert (view["attempt"], view["step"]) == (2, 60)
    assert "because attempt 1 was lost" in view["detail"]
    assert starts(daemon, run) == ["1", "2"]


def test_a_cancel_is_not_forgotten(daemon: Any) -> None:
    """Asked for, put on record, and then the daemon dies before the shepherd hears of it."""
    daemon.start()
    run = daemon.script(script("exec sleep 300"), retry={"policy": "restart", "limit": 3})
    daemon.wait_state(run, "RUNNING")
    daemon.kill()
    registry = Registry(daemon.home.registry)
    registry.ask_cancel(run)
    registry.close()
    daemon.start()
    assert daemon.wait_ended(run)["state"] == "CANCELLED"
    assert starts(daemon, run) == ["1"]


def make_run(home: Home, number: int, file: Path) -> Job:
    """A run folder as the daemon leaves it at submit."""
    run_id = UlidMaker()()
    config = {"file": str(file), "run_id": run_id}
    worker = WorkerPart(name="script", module="mosaic.daemon.script", config=config)
    job = Job(run_id=run_id, name=f"run {number}", created=time.time(), metadata=Metadata(worker=worker))
    write_job(home.run(run_id), job, {"script.sh": file.read_bytes()})
    return job


def test_deaths_between_the_steps_of_a_start(daemon: Any, tmp_path: Path) -> None:
    """Folder but no row; row marked as started but no launch.json; launch.json but no shepherd: each runs once."""
    file = tmp_path / "script.sh"
    file.write_text(script())
    jobs = [make_run(daemon.home, number, file) for number in range(3)]
    registry = Registry(daemon.home.registry)
    for job in jobs[1:]:
        registry.add(job)
        row = registry.mark_active(job.run_id, [], time.time())
    folder = daemon.home.run(row.run_id)
    write_launch(folder, row, Program(["/bin/sh", "-c", "exit 9"], pauses=False), [])
    registry.close()
    daemon.start()
    for job in jobs:
        assert daemon.wait_ended(job.run_id)["state"] == "SUCCEEDED"
        assert starts(daemon, job.run_id) == ["1"]


def test_the_registry_is_rebuilt_from_the_folders(daemon: Any) -> None:
    daemon.start()
    done = daemon.script(script("echo '@step 5'"), name="done", tags=["kept"], priority=3)
    failed = daemon.script(script("exit 1"), retry={"policy": "restart", "limit": 1})
    cancelled = daemon.script(script("exec sleep 300"))
    daemon.wait_ended(done)
    daemon.wait_state(failed, "FAILED")
    running = daemon.script(script("exec sleep 300"))
    for run in (cancelled, running):
        daemon.wait_state(run, "RUNNING")
    waiting = daemon.script(script())
    daemon.api("POST", f"/runs/{daemon.script(script())}/cancel")
    before = {view["run_id"]: view for view in daemon.api("GET", "/runs")["runs"]}
    daemon.kill()
    # Half of it is rubbish now.
    data = daemon.home.registry.read_bytes()
    daemon.home.registry.write_bytes(os.urandom(len(data) // 2) + data[len(data) // 2 :])
    for suffix in ("-wal", "-shm"):
        daemon.home.registry.with_name(daemon.home.registry.name + suffix).unlink()
    daemon.start()
    after = {view["run_id"]: view for view in daemon.api("GET", "/runs")["runs"]}
    assert list(after) == list(before)
    for run_id, view in after.items():
        for key in ("name", "worker", "tags", "priority", "attempt", "state", "exit", "step", "config", "retry"):
            assert (run_id, key, view[key]) == (run_id, key, before[run_id][key])
    daemon.api("POST", f"/runs/{cancelled}/cancel")
    assert daemon.wait_ended(waiting)["state"] == "SUCCEEDED"
    assert daemon.view(running)["state"] == "RUNNING"
    assert len(list(daemon.home.trainer.glob("registry.sqlite.broken-*"))) == 1


def test_a_registry_of_a_copied_home_knows_the_copies(daemon: Any) -> None:
    """The run folder is the run: moved to another home, it is there."""
    daemon.start()
    run = daemon.script(script("echo '@step 5'"), name="moved")
    daemon.wait_ended(run)
    daemon.stop()
    other = type(daemon)(Home(daemon.home.root.parent / "other"))
    shutil.copytree(daemon.home.run(run).path, other.home.run(run).path)
    other.start()
    view = other.view("moved")
    assert (view["state"], view["step"]) == ("SUCCEEDED", 5)
    other.stop()


def test_ids_ascend_even_when_the_clock_is_set_back() -> None:
    times = iter([1000.0, 1000.0, 999.0, 5.0, 1000.001])
    make = UlidMaker(clock=lambda: next(times))
    made = [make() for _ in range(5)]
    assert made == sorted(set(made))
    later = UlidMaker(after=made[-1], clock=lambda: 0.0)
    assert later() > made[-1]


def _attempts(daemon: Any, run_id: str) -> list[Any]:
    with RunReader(daemon.home.run(run_id).store) as reader:
        return reader.attempts()
