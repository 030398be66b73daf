"""Submitting, queueing, cancelling, pausing: with real shepherds."""

from __future__ import annotations

from typing import Any

NAP = "#!/bin/sh\nsleep 0.05\n"
LONG = "#!/bin/sh\nexec sleep 300\n"


def test_twenty_runs_on_two_slots_queue_and_all_end(daemon: Any) -> None:
    daemon.start()
    runs = [daemon.script(NAP, name=f"nap {number}") for number in range(20)]
    counts = daemon.api("GET", "/status")
    assert counts["running"] <= 2
    views = [daemon.wait_ended(run_id) for run_id in runs]
    assert [view["state"] for view in views] == ["SUCCEEDED"] * 20
    # Never more than two at once, in the order in which they came, each once.
    spans = [(view["started"], view["ended"]) for view in views]
    assert all(sum(begin <= start < end for begin, end in spans) <= 2 for start, _ in spans)
    started = [line.split()[4] for line in daemon.log.read_text().splitlines() if line.endswith("attempt 1 started")]
    assert started == runs == sorted(runs)


def test_a_waiting_run_says_what_it_waits_for_and_can_be_cancelled(daemon: Any) -> None:
    daemon.start()
    first = daemon.script(LONG, resources={"cpus": 2})
    daemon.wait_state(first, "RUNNING")
    second = daemon.script(NAP)
    view = daemon.view(second)
    assert (view["state"], view["detail"]) == ("QUEUED", "waiting for 1 CPU slot (free: 0)")
    cancelled = daemon.api("POST", f"/runs/{second}/cancel")
    assert cancelled["state"] == "CANCELLED"
    assert cancelled["exit"]["message"] == "cancelled before it started"
    daemon.api("POST", f"/runs/{first}/cancel")
    assert daemon.wait_ended(first)["state"] == "CANCELLED"


def test_a_run_that_never_fits_is_refused_with_the_reason(shared_daemon: Any) -> None:
    body = {"worker": "counter", "config": {}, "resources": {"cpus": 3, "gpus": 1}}
    status, answer, _ = shared_daemon.request("POST", "/api/v1/runs", body, shared_daemon.bearer)
    assert status == 422
    assert [error["field"] for error in answer["errors"]] == ["resources.cpus", "resources.gpus"]
    assert "at most 2, which is what this machine has" in answer["errors"][0]["message"]


def test_a_bad_config_is_refused_field_by_field_in_the_workers_own_words(shared_daemon: Any) -> None:
    body = {"worker": "counter", "config": {"total_timestep": 5, "pause_s": "fast"}}
    status, answer, _ = shared_daemon.request("POST", "/api/v1/runs", body, shared_daemon.bearer)
    assert status == 422
    errors = {error["field"]: error for error in answer["errors"]}
    assert errors["total_timestep"]["suggestion"] == "total_timesteps"
    assert errors["pause_s"]["given"] == "fast"
    assert "number >= 0" in errors["pause_s"]["allowed"]


def test_an_unknown_worker_is_refused_with_a_suggestion(shared_daemon: Any) -> None:
    status, answer, _ = shared_daemon.request("POST", "/api/v1/runs", {"worker": "conter"}, shared_daemon.bearer)
    assert (status, answer["errors"][0]["suggestion"]) == (422, "counter")


def test_pause_checkpoint_resume_and_the_folder_of_a_finished_run(shared_daemon: Any) -> None:
    run = shared_daemon.counter({"total_timesteps": 400, "pause_s": 0.02}, name="pausing", tags=["a", "b"])
    shared_daemon.wait_state(run, "RUNNING")
    shared_daemon.api("POST", "/runs/pausing/pause")
    shared_daemon.wait_state(run, "PAUSED")
    status, answer, _ = shared_daemon.request("POST", f"/api/v1/runs/{run}/pause", None, shared_daemon.bearer)
    assert (status, answer["error"]) == (409, "run pausing is paused already")
    shared_daemon.api("POST", f"/runs/{run}/resume")
    shared_daemon.wait_state(run, "RUNNING")
    shared_daemon.api("POST", f"/runs/{run}/checkpoint")
    shared_daemon.api("POST", f"/runs/{run}/cancel")
    view = shared_daemon.wait_ended(run)
    assert view["state"] == "CANCELLED"
    assert [listed["run_id"] for listed in shared_daemon.api("GET", "/runs?tag=b&state=CANCELLED")["runs"]] == [run]
    assert shared_daemon.api("GET", "/runs?tag=c")["runs"] == []
    # From the checkpoint to the end, as the same run.
    shared_daemon.api("POST", f"/runs/{run}/resume")
    view = shared_daemon.wait_state(run, "SUCCEEDED")
    assert view["attempt"] == 2
    assert view["step"] == view["total_steps"] == 400
    assert "resumed from the checkpoint at step" in view["detail"]


def test_a_run_that_is_still_starting_is_paused_once_it_listens(shared_daemon: Any) -> None:
    run = shared_daemon.counter({"total_timesteps": 400, "pause_s": 0.02})
    shared_daemon.wait_state(run, "STARTING", "RUNNING")
    shared_daemon.api("POST", f"/runs/{run}/pause")
    shared_daemon.wait_state(run, "PAUSED")
    shared_daemon.api("POST", f"/runs/{run}/cancel")
    assert shared_daemon.wait_ended(run)["state"] == "CANCELLED"


def test_a_run_that_began_anew_is_not_resumed_from_before(shared_daemon: Any) -> None:
    """What the first attempt said is superseded: a curve that went on from its checkpoint would have two beginnings."""
    run = shared_daemon.counter({"total_timesteps": 100_000})
    shared_daemon.wait_state(run, "RUNNING")
    shared_daemon.api("POST", f"/runs/{run}/checkpoint")
    shared_daemon.wait_checkpoint(run)
    shared_daemon.api("POST", f"/runs/{run}/cancel")
    assert shared_daemon.wait_ended(run)["step"] > 0
    view = shared_daemon.api("POST", f"/runs/{run}/retry")
    assert (view["attempt"], view["step"]) == (2, None)
    shared_daemon.wait_state(run, "RUNNING")
    shared_daemon.api("POST", f"/runs/{run}/cancel")
    shared_daemon.wait_ended(run)
    assert "starts anew" in shared_daemon.api("POST", f"/runs/{run}/resume")["detail"]
    shared_daemon.wait_state(run, "RUNNING")
    shared_daemon.api("POST", f"/runs/{run}/cancel")
    shared_daemon.wait_ended(run)
    attempts = shared_daemon.api("GET", f"/runs/{run}/attempts")["attempts"]
    assert [attempt["resumed_step"] for attempt in attempts] == [None, None, None]


def test_ended_runs_are_deleted_and_others_only_by_force(shared_daemon: Any) -> None:
    run = shared_daemon.script(LONG)
    shared_daemon.wait_state(run, "RUNNING")
    status, _, _ = shared_daemon.request("DELETE", f"/api/v1/runs/{run}", None, shared_daemon.bearer)
    assert status == 409
    shared_daemon.api("DELETE", f"/runs/{run}?force=true")
    status, _, _ = shared_daemon.request("GET", f"/api/v1/runs/{run}", None, shared_daemon.bearer)
    assert status == 404
    assert not shared_daemon.home.run(run).path.exists()


def test_gpus_are_handed_out_by_index(daemon: Any) -> None:
    daemon.environment |= {"MOSAIC_GPUS": "3,5", "MOSAIC_CPUS": "4"}
    daemon.start()
    show = '#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES" > "$MOSAIC_RUN_DIR/gpus"\nexec sleep 300\n'
    runs = [daemon.script(show, resources={"gpus": count}) for count in (1, 0, 1, 1)]
    for run in runs[:3]:
        daemon.wait_state(run, "RUNNING")
    assert [daemon.view(run)["gpus"] for run in runs] == [["3"], [], ["5"], []]
    assert daemon.view(runs[3])["detail"] == "waiting for 1 GPU (free: 0)"
    daemon.api("POST", f"/runs/{runs[0]}/cancel")
    daemon.wait_state(runs[3], "RUNNING")
    assert daemon.view(runs[3])["gpus"] == ["3"]
    said = [(daemon.home.run(run).path / "gpus").read_text() for run in runs[:3]]
    assert said == ["3\n", "\n", "5\n"]
