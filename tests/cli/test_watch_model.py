"""What a watcher knows of a run, from its rows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mosaic.cli.watch_lines import event_text, state_text
from mosaic.cli.watch_model import CURVE_POINTS, Curve, WatchModel


def view(**changes: Any) -> dict[str, Any]:
    base = {
        "name": "toy", "worker": "toy", "state": "RUNNING", "detail": "", "attempt": 1, "step": None,
        "total_steps": 1000, "progress": None, "exit": None, "ended": None, "config": {},
    }  # fmt: skip
    return {**base, **changes}


def row(seq: int, type_: str, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "attempt": 1, "type": type_, "time": float(seq), "superseded": False, **fields}


def test_progress_rate_and_time_left_come_from_the_steps() -> None:
    model = WatchModel(view())
    model.absorb([row(seq, "heartbeat", step=seq * 10, state="running") for seq in range(1, 51)])
    assert model.step == 500
    assert model.fraction == 0.5
    assert model.rate == 10.0
    assert model.seconds_left == 50.0


def test_going_back_to_a_checkpoint_never_gives_a_negative_rate() -> None:
    model = WatchModel(view())
    model.absorb([row(1, "metric", step=100, values={"loss": 1.0}), row(2, "metric", step=900, values={"loss": 0.5})])
    model.absorb([row(3, "attempt", resumed_step=500), row(4, "metric", step=510, values={"loss": 0.6})])
    assert model.step == 510
    assert model.rate is None or model.rate >= 0
    assert model.metrics == {"loss": 0.6}


def test_superseded_rows_do_not_count() -> None:
    model = WatchModel(view())
    model.absorb([{**row(1, "episode", step=5, episode_return=99.0, length=1), "superseded": True}])
    assert model.episodes == 0
    assert model.last_seq == 1


def test_events_worth_a_line_are_handed_on() -> None:
    model = WatchModel(view())
    rows = [
        row(1, "episode", step=1, episode_return="nan", length=1),
        row(2, "checkpoint", step=1, path="checkpoints/step_1"),
        row(3, "log", message="hello"),
        row(4, "heartbeat", step=2, state="running"),
        row(5, "stage", name="train", index=1, total=2),
    ]
    assert [told["type"] for told in model.absorb(rows)] == ["checkpoint", "log", "stage"]
    assert list(model.logs) == ["hello"]


@given(st.lists(st.floats(-1e6, 1e6), max_size=5000))
def test_a_curve_stays_small_and_within_its_values(values: list[float]) -> None:
    curve = Curve()
    for value in values:
        curve.add(value)
    assert len(curve.values) < CURVE_POINTS
    if curve.values:
        assert min(values) <= min(curve.values) + 1e-6
        assert max(curve.values) <= max(values) + 1e-6
        assert curve.last == values[-1]


def test_the_curve_is_the_workers_own_return_metric_where_there_is_one() -> None:
    model = WatchModel(view())
    model.absorb(
        [row(seq, "episode", step=seq, episode=seq - 1, episode_return=float(seq), length=1) for seq in (1, 2)]
    )
    assert model.curve == [1.0, 2.0]
    values = [{"loss": 9.0, "charts/episodic_return": float(number)} for number in (5, 6)]
    model.absorb([row(3 + at, "metric", step=3 + at, values=found) for at, found in enumerate(values)])
    assert model.curve == [5.0, 6.0]
    assert model.recent_return == 1.5
    assert model.episodes == 2


def test_lines_say_nothing_twice_and_stay_lines() -> None:
    again = "attempt 2: resumed from the checkpoint at step 10"
    assert state_text(WatchModel(view(attempt=2, detail=again))) == f"toy RUNNING: {again}"
    assert state_text(WatchModel(view(attempt=2, detail="paused"))) == "toy RUNNING, attempt 2: paused"
    assert event_text(row(1, "run_failed", error="ValueError: two\n lines")) == "failed: ValueError: two lines"
    assert event_text(row(1, "stage", name="train", index=2, total=3)) == "stage train (2 of 3)"
    assert event_text(row(1, "stage", name="unannounced", index=0, total=3)) == "stage unannounced"
