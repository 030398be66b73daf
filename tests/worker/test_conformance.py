"""The conformance kit's own behaviour."""

from __future__ import annotations

import sys

from mosaic.worker.conformance import run_checks
from mosaic.worker.conformance.checks import ENDLESS, example
from mosaic.worker.conformance.subject import Subject


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
