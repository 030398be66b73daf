"""Everything that is appended comes back, in order, at any position, in pages of any size."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.store import KINDS, RunReader, RunWriter
from mosaic.worker import messages
from mosaic.worker.messages import AnyMessage

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
integers = st.one_of(st.integers(0, 1000), st.integers(-(2**63) - 5, 2**63 + 5), st.integers(-(10**30), 10**30))
numbers = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["nan", "inf", "-inf"]))
times = st.one_of(st.just(0.0), st.floats(1.0, 2e9))
extras = st.dictionaries(text, st.one_of(integers, text, st.none(), st.lists(st.booleans(), max_size=2)), max_size=2)
said = st.one_of(
    st.builds(messages.RunStarted, run_id=text, worker=text, config=extras, time=times),
    st.builds(messages.RunCompleted, step=st.none() | integers, summary=extras, time=times),
    st.builds(messages.RunFailed, error=text, traceback=text, time=times),
    st.builds(messages.Heartbeat, step=st.none() | integers, state=st.sampled_from(["running", "paused"]), time=times),
    st.builds(messages.Metric, step=integers, values=st.dictionaries(text, numbers, max_size=4), time=times),
    st.builds(
        messages.Episode,
        step=integers, episode=integers, episode_return=numbers, length=integers, agent=text, extra=extras, time=times,
    ),
    st.builds(messages.Step, step=integers, reward=numbers, episode=integers, agent=text, env=integers, extra=extras),
    st.builds(messages.Checkpoint, step=integers, path=text, time=times),
    st.builds(messages.Stage, name=text, index=integers, step=st.none() | integers, time=times),
    st.builds(messages.Log, message=text, level=st.sampled_from(["debug", "info", "error"]), time=times),
)  # fmt: skip


def as_row(message: AnyMessage, seq: int, attempt: int, received: float) -> dict[str, Any]:
    fields = msgspec.structs.asdict(message)
    time = fields.pop("time") or received
    assert fields.pop("child") == "", "what a run's store is told is the run's own"
    return {"seq": seq, "attempt": attempt, "type": message.__struct_config__.tag, "time": time, **fields}


def pages(reader: RunReader, **arguments: Any) -> Iterator[dict[str, Any]]:
    since, page = 0, reader.read(**arguments)
    while page:
        yield from page
        since = page[-1]["seq"]
        following = reader.read(since, **arguments)
        assert len(page) == arguments["limit"] or not following, "only the last page may be short"
        assert len(page) <= arguments["limit"]
        page = following


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(said, max_size=12), max_size=4),
    st.integers(1, 9),
    st.sets(st.sampled_from(KINDS)),
    st.integers(0, 60),
)
def test_all_that_is_said_is_read(
    new_store: Callable[[], Path], told: list[list[AnyMessage]], limit: int, kinds: set[str], since: int
) -> None:
    path = new_store()
    writer = RunWriter(path)
    expected = []
    for attempt, batch in enumerate(told, start=1):
        # Resumed from the highest of steps: nothing is superseded (an integer that SQLite cannot hold may come after).
        writer.begin_attempt(attempt, started=5.0, resumed_step=2**63 - 1)
        begun = {"resumed_from": None, "resumed_step": 2**63 - 1}
        expected.append({"seq": writer.last_seq, "attempt": attempt, "type": "attempt", "time": 5.0, **begun})
        for message in batch:
            writer.append([message], 7.5)
            expected.append(as_row(message, writer.last_seq, attempt, 7.5))
        assert writer.commit() == writer.last_seq == len(expected)
    writer.close()
    if not told:
        return
    with RunReader(path) as reader:
        assert reader.last_seq() == len(expected)
        found = list(pages(reader, limit=limit))
        for row in found:
            if row.pop("superseded", False):
                assert row["step"] > 2**63 - 1
        assert found == expected
        assert [row["seq"] for row in reader.read(since, limit=limit)] == [
            row["seq"] for row in expected[since : since + limit]
        ]
        chosen = [row["seq"] for row in pages(reader, limit=limit, kinds=kinds)]
        assert chosen == [row["seq"] for row in expected if row["type"] in kinds]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    writer = RunWriter(tmp_path / "run.sqlite")
    writer.begin_attempt(1, started=1.0)
    yield writer
    writer.close()


def test_order_within_a_metric_message_is_kept(writer: RunWriter, tmp_path: Path) -> None:
    writer.append([messages.Metric(step=1, values={"b": 1.0, "a": 2.0}), messages.Metric(step=1, values={})], 1.0)
    writer.commit()
    with RunReader(tmp_path / "run.sqlite") as reader:
        rows = reader.read(kinds=["metric"])
    assert [list(row["values"].items()) for row in rows] == [[("b", 1.0), ("a", 2.0)], []]


def test_floats_that_json_cannot_say_are_spelled(writer: RunWriter, tmp_path: Path) -> None:
    bad = [math.nan, math.inf, -math.inf]
    writer.append([messages.Step(step=1, reward=value) for value in bad], 1.0)
    writer.append([messages.Metric(step=1, values={"loss": value}) for value in bad], 1.0)
    writer.commit()
    with RunReader(tmp_path / "run.sqlite") as reader:
        assert [row["reward"] for row in reader.read(kinds=["step"])] == ["nan", "inf", "-inf"]
        assert [row["values"]["loss"] for row in reader.read(kinds=["metric"])] == ["nan", "inf", "-inf"]
        assert [point.last for point in reader.plot("loss")] == ["nan", "inf", "-inf"]


def test_superseded_rows_say_so(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    writer = RunWriter(path)
    for attempt, resumed_step in ((1, None), (2, 20), (3, 40)):
        writer.begin_attempt(attempt, started=1.0, resumed_step=resumed_step)
        writer.append([messages.Step(step=step) for step in (10, 20, 30, 40, 50)], 1.0)
        writer.append([messages.Checkpoint(step=30, path="x"), messages.Log(message="hello")], 1.0)
        writer.append([messages.Episode(step=s, episode=s, episode_return=0.0, length=1) for s in (20, 50)], 1.0)
        writer.commit()
    with RunReader(path) as reader:
        hidden = [(row["attempt"], row["step"]) for row in reader.read(kinds=["step"]) if row.get("superseded")]
        assert hidden == [(1, 30), (1, 40), (1, 50), (2, 50)]
        assert [row.get("superseded", False) for row in reader.checkpoints()] == [True, False, False]
        assert not any(row.get("superseded") for row in reader.logs())
        episodes = [(row["attempt"], row["step"]) for row in reader.episodes()]
        assert episodes == [(3, 50), (3, 20), (2, 20), (1, 20)]
        older = reader.episodes(limit=2, before=reader.episodes(limit=2)[-1]["seq"])
        assert [(row["attempt"], row["step"]) for row in older] == [(2, 20), (1, 20)]
    writer.begin_attempt(4, started=1.0)
    writer.commit()
    with RunReader(path) as reader:
        assert all(row.get("superseded") for row in reader.read(kinds=["step", "episode", "checkpoint"]))
        assert reader.episodes() == []
    writer.close()


def test_attempts_states_counters_and_progress(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    writer = RunWriter(path)
    writer.begin_attempt(1, started=100.0)
    writer.set_state("RUNNING", 101.0)
    writer.append([messages.RunStarted(run_id="r", worker="w", total_steps=500)], 101.0)
    for second in range(60):
        writer.append([messages.Step(step=second * 10)], 102.0 + second)
    writer.append([messages.Heartbeat(step=590)], 161.0)
    writer.count("malformed", 3)
    writer.count("malformed")
    writer.set_state("PAUSED", 162.0, "by hand")
    writer.commit()
    with RunReader(path) as reader:
        info = reader.last_attempt()
        assert info is not None
        assert (info.state, info.detail, info.state_time, info.outcome) == ("PAUSED", "by hand", 162.0, None)
        progress = reader.progress()
        assert (progress.step, progress.total, progress.last_heard, progress.last_heartbeat) == (590, 500, 161.0, 161.0)
        assert progress.rate == pytest.approx(10.0, rel=0.1)
        assert reader.counters() == {"malformed": 4}
        ended = {"outcome": "failed", "exit_code": None, "signal": "SIGKILL", "reason": "killed", "message": "gone"}
        writer.end_attempt(ended=170.0, **ended)  # type: ignore[arg-type]
        writer.commit()
        writer.begin_attempt(2, started=180.0, resumed_from="checkpoints/step_000000000300", resumed_step=300)
        writer.count("oversized")
        writer.commit()
        first, second_attempt = reader.attempts()
        assert (first.state, first.outcome, first.signal, first.ended) == ("FAILED", "failed", "SIGKILL", 170.0)
        assert (second_attempt.state, second_attempt.last_step, second_attempt.resumed_step) == ("STARTING", 300, 300)
        assert second_attempt.first_seq == first.last_seq + 1
        assert reader.counters() == {"malformed": 4, "oversized": 1}
        assert reader.counters(1) == {"malformed": 4}
        assert reader.progress().step == 300
        states = [row["state"] for row in reader.read(kinds=["state"])]
        assert states == ["RUNNING", "PAUSED"]
        (row,) = reader.read(kinds=["ended"])
        assert {key: row[key] for key in ended} == ended
    writer.close()


def test_logs_newest_first(writer: RunWriter, tmp_path: Path) -> None:
    levels: list[Any] = ["info", "error"]
    writer.append([messages.Log(message=str(i), level=levels[i % 2]) for i in range(10)], 1.0)
    writer.commit()
    with RunReader(tmp_path / "run.sqlite") as reader:
        newest = reader.logs(limit=3)
        assert [row["message"] for row in newest] == ["9", "8", "7"]
        assert [row["message"] for row in reader.logs(limit=2, before=newest[-1]["seq"])] == ["6", "5"]
        assert [row["message"] for row in reader.logs(limit=2, level="error")] == ["9", "7"]


def test_a_flood_of_metric_names_is_kept_but_not_plotted(tmp_path: Path, writer: RunWriter) -> None:
    flood = [messages.Metric(step=i, values={f"m{i}": float(i)}) for i in range(10_050)]
    writer.append([*flood, messages.Metric(step=1, values={"n" * 600: 1.0})], 1.0)
    writer.commit()
    assert writer.counts == {"unplottable_metrics": 51}
    with RunReader(tmp_path / "run.sqlite") as reader:
        rows = reader.read(kinds=["metric"], limit=20_000)
        assert [row["values"] for row in rows[:-1]] == [message.values for message in flood]
        assert rows[-1]["values"] == {"n" * 600: 1.0}


def test_wrong_arguments_are_named(writer: RunWriter, tmp_path: Path) -> None:
    writer.commit()
    with RunReader(tmp_path / "run.sqlite") as reader:
        with pytest.raises(ValueError, match="kinds: got metrik, allowed: run_started"):
            reader.read(kinds=["metrik"])
        with pytest.raises(ValueError, match="limit: got 0, allowed: 1 or more"):
            reader.read(limit=0)
        assert reader.read(kinds=[]) == []
        assert len(reader.read(-5)) == 1
    with pytest.raises(ValueError, match="attempt 1 is in the store already, allowed: above 1"):
        writer.begin_attempt(1, started=1.0)
