"""The conformance kit's own behaviour: whoever keeps the contract passes, and each way to break it is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mosaic.worker.conformance import CHECKS, CheckFailed, run_checks
from mosaic.worker.conformance.checks import ENDLESS, example
from mosaic.worker.conformance.subject import Subject

PLAIN = Path(__file__).with_name("plain_worker.py")

# How the worker breaks the contract, the check that finds it, and a part of what it says.
FLAWS = (
    ("prints before its description", "describes_itself", "--describe does not print one JSON object on stdout"),
    ("another contract", "describes_itself", "contract is 2, allowed: 1"),
    ("example that does not fit", "describes_itself", "example_config does not fit config_schema: field 'steps'"),
    ("no job descriptors", "accepts_good_configs", "nested config: exit code 2: config: field 'metadata': unknown"),
    ("prints in a dry run", "accepts_good_configs", "a dry run prints b'fine"),
    ("takes any field", "refuses_bad_configs", "unknown field: exit code 0, allowed: 2"),
    ("wrong exit code for a bad config", "refuses_bad_configs", "exit code 1, allowed: 2"),
    ("names another field", "refuses_bad_configs", "steps = 'many': stderr does not name 'steps'"),
    ("traceback for a bad config", "refuses_bad_configs", "exit code 1, allowed: 2"),
    ("no run_started", "tells_what_it_does", "the first line is not run_started"),
    ("another run_id", "tells_what_it_does", "run_started says run 'other' instead of 'check-run'"),
    ("prints into its telemetry", "tells_what_it_does", "not telemetry: b'Epoch 1 of 10"),
    ("steps run backwards", "tells_what_it_does", "steps run backwards: -1, then -2"),
    ("says nothing of its work", "tells_what_it_does", "not one metric, episode or step was told"),
    ("no run_completed", "tells_what_it_does", "the last line is Checkpoint, not RunCompleted"),
    ("no analytics.json", "tells_what_it_does", "no analytics.json in the run folder"),
    ("heartbeats at its own pace", "sends_heartbeats", "no second heartbeat within 5 s"),
    ("ignores pause", "pauses_and_resumes", "no heartbeat with state paused within 5 s"),
    ("works while paused", "pauses_and_resumes", "the worker went on working while it was paused"),
    ("ignores checkpoint", "saves_on_request", "no checkpoint within 5 s"),
    ("no card", "saves_on_request", "not a complete checkpoint"),
    ("card of another step", "saves_on_request", "the card says step"),
    ("file changed after its card", "saves_on_request", "state.json is not what was saved"),
    ("ignores stop", "stops_when_told", "still running 2 s after stop"),
    ("fails when stopped", "stops_when_told", "exit code 3 after stop"),
    ("says finished when stopped", "stops_when_told", "run_completed says 'finished' instead of 'stopped'"),
    ("ignores SIGTERM", "stops_on_sigterm", "still running 2 s after SIGTERM"),
    ("no checkpoint at the end", "stops_on_sigterm", "no checkpoint was saved on SIGTERM"),
    ("outlives its shepherd", "stops_when_orphaned", "still running 2 s after the end of its stdin"),
    ("begins anew", "resumes_from_checkpoint", "but the next step told is 1"),
    ("path from the root", "saves_on_request", "is not relative to the run folder"),
)


def test_a_worker_that_keeps_the_contract_passes_whatever_it_is_made_of() -> None:
    results = run_checks((sys.executable, str(PLAIN), "none"), lambda result: None)
    assert [(result.name, result.detail) for result in results if result.ok is not True] == []


@pytest.mark.parametrize(("flaw", "name", "told"), FLAWS, ids=[flaw for flaw, _, _ in FLAWS])
def test_each_way_to_break_the_contract_is_told_in_one_line(flaw: str, name: str, told: str, tmp_path: Path) -> None:
    patience = 5 if "within 5 s" in told else 120  # no longer than need be for what never comes
    subject = Subject((sys.executable, str(PLAIN), flaw), patience_s=patience, grace_s=2)
    (check,) = [check for check in CHECKS if check.__name__ == name]
    with pytest.raises(CheckFailed) as failure:
        check(subject, tmp_path)
    assert told in str(failure.value)
    assert "\n" not in str(failure.value)


def test_what_one_check_sets_in_a_nested_field_does_not_reach_the_next() -> None:
    subject = Subject(("unused",))
    subject._description = {
        "example_config": {"training": {"steps": 10}},
        "fields": {"total_steps": "training.steps"},
    }
    assert example(subject, "a", endless=True)["training"]["steps"] == ENDLESS
    assert example(subject, "b") == {"training": {"steps": 10}, "run_id": "b"}


def test_a_worker_that_cannot_describe_itself_is_told_so_once() -> None:
    program = "import sys; sys.exit('no module named torch' if '--describe' in sys.argv else 2)"
    first, *others = run_checks((sys.executable, "-c", program), lambda result: None)
    assert first.ok is False
    assert first.detail == "--describe exits with 1: no module named torch"
    assert {result.detail for result in others} == {"needs a --describe that works"}
    assert all(result.ok is None for result in others)
