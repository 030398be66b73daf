"""Shell scripts as runs: the comment header, phases as stages, telemetry of their children."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.daemon.job import SpecError
from mosaic.daemon.scripts import read_header

SCRIPT = """#!/bin/bash
# A curriculum.
# @description Warm up,
# @description then train
# @phases warm up, train
#@total_timesteps 1_000

echo "in $PWD as $0 with $1 of $MOSAIC_SCRIPT_DIR"
echo "@phase warm up"
echo '{"type":"run_started","run_id":"x","worker":"inner","version":1}'
echo '{"type":"metric","step":400,"values":{"loss":0.5}}'
echo '{"type":"run_completed","reason":"finished"}'
echo "@phase train"
echo "@step 900"
echo '{"type":"metric","step":"x"}'
echo "@phase never announced"
printf 'no newline at the end'
"""


def rows(daemon: Any, run: str, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.api("GET", f"/runs/{run}/telemetry?kinds={kind}")["rows"]
    return found


def test_header_phases_and_telemetry(shared_daemon: Any, tmp_path: Path) -> None:
    file = tmp_path / "curriculum.sh"
    file.write_text(SCRIPT)
    spec = {"worker": "script", "config": {"file": str(file), "args": ["hard"]}}
    view = shared_daemon.api("POST", "/runs", spec)
    run = view["run_id"]
    assert view["config"]["description"] == "Warm up, then train"
    view = shared_daemon.wait_state(run, "SUCCEEDED")
    assert (view["step"], view["total_steps"], view["progress"]) == (900, 1000, 0.9)
    stages = [(row["name"], row["index"], row["total"]) for row in rows(shared_daemon, run, "stage")]
    assert stages == [("warm up", 1, 2), ("train", 2, 2), ("never announced", 0, 2)]
    assert [row["values"] for row in rows(shared_daemon, run, "metric")] == [{"loss": 0.5}]
    assert [row["worker"] for row in rows(shared_daemon, run, "run_started")] == ["script"]
    assert [row["message"] for row in rows(shared_daemon, run, "log")] == [
        "worker inner started",
        "worker completed (finished)",
    ]
    log = shared_daemon.api("GET", f"/runs/{run}/logs")["text"]
    assert f"in {tmp_path} as {file} with hard of {tmp_path}" in log
    assert json.dumps({"type": "metric", "step": "x"}, separators=(",", ":")) in log
    assert log.endswith("no newline at the end\n")


def test_what_was_submitted_runs_even_if_the_file_changes(daemon: Any, tmp_path: Path) -> None:
    daemon.environment["MOSAIC_CPUS"] = "1"
    daemon.start()
    first = daemon.script("#!/bin/sh\nexec sleep 300\n")
    file = tmp_path / "changing.sh"
    file.write_text("#!/bin/sh\necho '@step 1'\n")
    second = daemon.api("POST", "/runs", {"worker": "script", "config": {"file": str(file)}})["run_id"]
    file.write_text("#!/bin/sh\necho '@step 2'\n")
    daemon.api("POST", f"/runs/{first}/cancel")
    assert daemon.wait_state(second, "SUCCEEDED")["step"] == 1
    assert "has changed since it was submitted" in daemon.api("GET", f"/runs/{second}/logs")["text"]


def test_a_failing_script_fails_and_says_how(shared_daemon: Any) -> None:
    run = shared_daemon.script("#!/bin/sh\necho to no avail >&2\nexit 2\n")
    view = shared_daemon.wait_state(run, "FAILED")
    assert view["exit"]["reason"] == "error"
    assert "the script ended with exit code 2" in view["exit"]["message"]
    assert shared_daemon.api("GET", f"/runs/{run}/logs")["text"] == "to no avail\n"


def test_a_cancelled_script_is_told_and_may_clean_up(shared_daemon: Any) -> None:
    run = shared_daemon.script(
        "#!/bin/sh\ntrap 'echo \"@phase cleaning\"; exit 0' TERM\necho @phase x\nsleep 300 & wait\n"
    )
    shared_daemon.wait_state(run, "RUNNING")
    while not rows(shared_daemon, run, "stage"):
        pass
    shared_daemon.api("POST", f"/runs/{run}/cancel")
    assert shared_daemon.wait_ended(run)["state"] == "CANCELLED"
    assert [row["name"] for row in rows(shared_daemon, run, "stage")] == ["x", "cleaning"]


@given(st.binary(max_size=300))
def test_any_file_has_a_header_or_a_clear_refusal(content: bytes) -> None:
    try:
        found = read_header(b"# @total_timesteps " + content)
    except SpecError as error:
        assert error.errors[0].field == "total_timesteps"
    else:
        assert set(found) <= {"description", "phases", "total_timesteps"}


@pytest.mark.parametrize("text", ["0", "-5", "many", "1e6", "٣"])
def test_a_step_count_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="total_timesteps"):
        read_header(f"# @total_timesteps {text}\n".encode())


def test_a_total_that_no_database_holds_keeps_the_run_from_nothing(shared_daemon: Any) -> None:
    run = shared_daemon.script(f"#!/bin/sh\n# @total_timesteps {10**30}\nexit 0\n")
    view = shared_daemon.wait_ended(run)
    assert (view["state"], view["total_steps"]) == ("SUCCEEDED", None)
