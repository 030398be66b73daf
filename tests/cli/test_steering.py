"""Steering runs: `pause`, `resume`, `checkpoint`, `cancel`, `retry`, `rm`, several at once."""

from __future__ import annotations

import json
import signal
from typing import Any


def test_a_run_is_paused_goes_on_saves_and_is_cancelled(mosaic: Any, wait_for: Any) -> None:
    mosaic.endless_run("steered")
    run = mosaic.client.run("steered")
    assert mosaic("pause", "steered").stdout == "steered: pausing\n"
    wait_for(lambda: run.refresh().state == "PAUSED")
    paused_at = run.step
    assert "is paused already" in mosaic("pause", "steered", code=5).stderr
    assert mosaic("resume", "steered").stdout == "steered: goes on\n"
    wait_for(lambda: run.refresh().state == "RUNNING" and run.step is not None and run.step > (paused_at or 0))
    assert "has not ended" in mosaic("rm", "steered", "--yes", code=5).stderr
    done = mosaic("cancel", "steered", "--wait")
    assert done.stdout == "steered: cancelled\n"
    (shown,) = mosaic.json("show", "steered")
    assert shown["exit"]["outcome"] == "cancelled"
    assert shown["checkpoints"]


def test_an_ended_run_goes_on_from_its_checkpoint_or_begins_anew(mosaic: Any, wait_for: Any) -> None:
    mosaic.short_run("--checkpoint-every", "1000", name="again")
    resumed = mosaic("resume", "again").stdout
    assert "attempt 2" in resumed
    assert "step 3000" in resumed.replace(",", "")
    run = mosaic.client.run("again").wait()
    assert (run.attempt, run.state) == (2, "SUCCEEDED")
    assert "attempt 3 from the beginning" in mosaic("retry", "again").stdout
    run.wait()
    attempts = mosaic.json("show", "again")[0]["attempts"]
    assert [(attempt["attempt"], attempt["resumed_step"]) for attempt in attempts] == [(1, None), (2, 3000), (3, None)]
    curve = run.metrics("epsilon")
    assert curve.steps == sorted(set(curve.steps))


def test_one_that_refuses_keeps_nobody_else_from_it(mosaic: Any) -> None:
    for name in ("one", "two"):
        mosaic.quick_run(name)
    done = mosaic("rm", "one", "nobody", "two", "--yes", code=4)
    assert done.stdout.splitlines() == ["one: deleted", "two: deleted"]
    assert "nobody" in done.stderr
    assert {run.name for run in mosaic.client.all_runs()}.isdisjoint({"one", "two"})


def test_rm_never_deletes_without_being_sure(mosaic: Any) -> None:
    view = mosaic.quick_run("kept")
    assert "say --yes" in mosaic("rm", "kept", code=2).stderr
    assert mosaic.client.run("kept").id == view["run_id"]


def test_ctrl_c_ends_the_watching_and_not_the_run(mosaic: Any) -> None:
    mosaic.endless_run("watched")
    watching = mosaic.start("watch", "watched", stdout=-1, stderr=-1)
    assert "watched RUNNING" in watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert "watched goes on" in said
    assert mosaic.client.run("watched").state == "RUNNING"
    mosaic("rm", "--force", "--yes", "watched")


def test_logs_are_followed_to_the_end_of_the_run(mosaic: Any) -> None:
    (mosaic.cwd / "talk.sh").write_text("#!/bin/sh\nfor i in 1 2 3; do echo line $i >&2; sleep 0.1; done\n")
    mosaic("script", "--name", "talk", "talk.sh")
    done = mosaic("logs", "-f", "talk")
    assert done.stdout.splitlines()[-3:] == ["line 1", "line 2", "line 3"]
    as_json = mosaic("logs", "-n", "2", "talk", "--json").stdout
    assert [json.loads(line) for line in as_json.splitlines()] == ["line 2", "line 3"]
