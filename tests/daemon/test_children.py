"""Child runs through the API: read like runs, steered through the run that they are part of."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic.client.errors import MosaicError


def test_children_are_seen_like_runs(shared_daemon: Any) -> None:
    run = shared_daemon.client.run(shared_daemon.counter({"children": 2, "total_timesteps": 5}, name="family"))
    run.wait()
    first, second = run.children()
    assert (first.id, first.name, second.state) == (f"{run.id}:child_0", "family:child_0", "SUCCEEDED")
    assert second.config == {"pace": 2}
    assert second.view["parent"] == run.id
    assert second.view["progress"] == 1.0
    assert second.view["detail"] == "with its run: completed"
    found = shared_daemon.client.run("family:child_1")
    assert found.metrics("count").values == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert run.metrics("count").values == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [row["step"] for row in found.follow() if row["type"] == "metric"] == [1, 2, 3, 4, 5]
    lineage = [row for row in run.telemetry() if row["type"] == "child_started"]
    assert [(row["child"], row.get("parent", ""), row["changed"]) for row in lineage] == [
        ("child_0", "", {"pace": [0, 1]}),
        ("child_1", "child_0", {"pace": [1, 2]}),
    ]
    assert run.id in [one.id for one in shared_daemon.client.runs()]
    assert found.id not in [one.id for one in shared_daemon.client.runs()], "they are listed with their run"


def test_what_cannot_be_done_with_a_child_is_said(shared_daemon: Any) -> None:
    run = shared_daemon.client.run(shared_daemon.counter({"children": 1, "total_timesteps": 2000}))
    shared_daemon.wait_state(run.id, "RUNNING")
    row = next(row for row in run.follow() if row["type"] == "child_started")
    child = shared_daemon.client.run(f"{run.id}:{row['child']}")
    assert child.state == "RUNNING", "as its run is"
    with pytest.raises(MosaicError, match="is part of run"):
        child.cancel()
    with pytest.raises(MosaicError, match="has no child 'child_9'; it has: child_0"):
        shared_daemon.client.run(f"{run.id}:child_9")
    run.cancel().wait()
    assert child.refresh().state == "CANCELLED"
    run.remove()
    with pytest.raises(MosaicError, match="no such run"):
        child.refresh()
