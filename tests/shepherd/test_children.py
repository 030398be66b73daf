"""What child runs say goes into stores of their own, which follow the run through its attempts."""

from __future__ import annotations

from mosaic.shepherd.children import Children
from mosaic.store import RunReader
from mosaic.worker.messages import Log, RunCompleted


def reader_of(run, name):
    return RunReader(run.folder.child(name).store)


def test_children_have_stores_of_their_own(shepherd):
    run = shepherd(
        """
        say("metric", step=1, values={"x": 1})
        say("child_started", child="a", config={"lr": 0.1})
        say("child_started", child="b", config={"lr": 0.2})
        for step in range(1, 6):
            say("metric", child="a", step=step, values={"x": 10 * step})
            say("metric", child="b", step=step, values={"x": 20 * step})
        say("child_started", child="a", parent="b", from_step=3, config={"lr": 0.3}, changed={"lr": [0.2, 0.3]})
        say("metric", child="a", step=4, values={"x": 100})
        say("run_completed", child="b", step=5)
        say("heartbeat", child="a", state="paused")
        say("run_failed", child="c", error="never said to begin")
        say("metric", child="../up", step=1, values={"x": 1})
        say("run_completed", step=1)
        """
    )
    record = run.wait()
    assert (record.outcome, record.last_step) == ("succeeded", 1), "what children say is not the run's"
    assert record.counts == {"invalid_message": 1}
    assert [row["values"] for row in run.rows("metric")] == [{"x": 1.0}]
    lineage = run.rows("child_started")
    assert [(row["child"], row["parent"], row["from_step"]) for row in lineage] == [
        ("a", "", None),
        ("b", "", None),
        ("a", "b", 3),
    ]
    with reader_of(run, "a") as reader:
        assert [point.last for point in reader.plot("x")] == [10.0, 20.0, 30.0, 100.0], "what was given up is gone"
        first, second = reader.attempts()
        assert (first.outcome, first.reason) == ("cancelled", "replaced")
        assert first.message == "goes on from b at step 3"
        assert (second.resumed_from, second.resumed_step) == ("b", 3)
        assert (second.outcome, second.message) == ("succeeded", "with its run: completed")
    with reader_of(run, "b") as reader:
        assert [attempt.outcome for attempt in reader.attempts()] == ["succeeded"]
    with reader_of(run, "c") as reader:
        assert [attempt.message for attempt in reader.attempts()] == ["never said to begin"]


def test_a_resumed_run_goes_on_with_its_children(shepherd):
    said = """
        say("child_started", child="a", config={"lr": 0.1})
        for step in range(1, 4):
            say("metric", child="a", step=step, values={"x": step})
        os.kill(os.getpid(), signal.SIGKILL)
        """
    run = shepherd(said)
    assert run.wait().outcome == "failed"
    run.script(
        """
        say("child_started", child="a", from_step=2, config={"lr": 0.1})
        say("metric", child="a", step=3, values={"x": 30})
        say("run_completed", step=0)
        """,
        resume_step=0,
    )
    assert run.wait().outcome == "succeeded"
    with reader_of(run, "a") as reader:
        assert [attempt.outcome for attempt in reader.attempts()] == ["failed", "succeeded"]
        assert [point.last for point in reader.plot("x")] == [1.0, 2.0, 30.0]


def test_too_many_names_are_counted_and_harm_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("mosaic.shepherd.children.MAX_CHILDREN", 10)
    children = Children(tmp_path)
    for index in range(13):
        name = f"c{index}"
        assert children.take([Log(child=name, message="hello"), RunCompleted(child=name)]) == []
        if index == 5:
            children.commit()  # those that have a store count like those that wait for one
    children.commit()
    assert children.refused == {"children_refused": 2 * 3}
    assert {path.name for path in (tmp_path / "children").iterdir()} == {f"c{index}" for index in range(10)}


def test_a_shepherd_needs_few_files_for_many_children(shepherd):
    """Most systems allow a process 1024; each store takes three, but only while its child goes on."""
    run = shepherd(
        """
        for index in range(400):
            say("child_started", child=f"done{index}")
            say("run_completed", child=f"done{index}")
        for index in range(210):
            say("child_started", child=f"going{index}")
        say("run_completed")
        """,
        max_files=1024,
    )
    record = run.wait(timeout=110)
    assert record.outcome == "succeeded"
    assert record.counts == {"children_refused": 10}
    with reader_of(run, "done399") as reader:
        assert [attempt.outcome for attempt in reader.attempts()] == ["succeeded"]
