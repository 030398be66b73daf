"""The conformance kit's own behaviour."""

from __future__ import annotations

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
