"""A worker whose upstream runs in a child process: one stream, one control, honest ends."""

import json
import os
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from mosaic.worker.child import ChildFailed, run_child
from mosaic.worker.control import Control
from mosaic.worker.run import Run, RunPlace
from mosaic.worker.telemetry import Stream, TelemetryEmitter

PRELUDE = "import os, sys, time\nfrom mosaic.worker import Command\nfrom mosaic.worker.child import joined_run\n"


class Parent:
    """The worker's side, its stdout a pipe that a thread reads."""

    def __init__(self, folder: Path) -> None:
        reading, writing = os.pipe()
        self.control = Control(supervised=True)
        self.telemetry = TelemetryEmitter(Stream(writing))
        place = RunPlace("run-1", folder, 1, None, True)
        self.run = Run(place, worker="test", telemetry=self.telemetry, control=self.control)
        self.lines: list[dict[str, Any]] = []
        self.heard = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor) as stream:
            for line in stream:
                with self.heard:
                    self.lines.append(json.loads(line))
                    self.heard.notify_all()

    def wait_for(self, kind: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((line for line in self.lines if line["type"] == kind), None)

        with self.heard:
            assert self.heard.wait_for(found, timeout=30), f"no {kind} in {self.lines}"
            line = found()
        assert line is not None
        return line

    def start(self, code: str) -> dict[str, Any]:
        return run_child(self.run, [sys.executable, "-c", PRELUDE + textwrap.dedent(code)])

    def close(self) -> None:
        self.telemetry.close()
        self._reader.join(10)


@pytest.fixture
def parent(tmp_path: Path) -> Any:
    parent = Parent(tmp_path)
    yield parent
    parent.close()


def test_the_child_speaks_on_the_workers_stream(parent: Parent) -> None:
    summary = parent.start(
        """
        with joined_run("test") as child:
            print("noise on stdout")
            child.run.telemetry.metric(7, {"loss": 0.5})
            child.run.save_checkpoint(7, lambda f: (f / "w").write_text("x"), algorithm="a", environment="e")
            child.summary["answer"] = 42
        """
    )
    assert summary == {"answer": 42}
    assert parent.wait_for("metric")["values"] == {"loss": 0.5}
    assert parent.wait_for("checkpoint")["step"] == 7
    assert parent.telemetry.last_step == 7
    parent.run.manifest.finish(summary)
    listed = json.loads((parent.run.folder / "analytics.json").read_bytes())
    assert [item["kind"] for item in listed["artifacts"]] == ["checkpoint"]


def test_commands_reach_the_child(parent: Parent) -> None:
    ends: list[dict[str, Any]] = []
    code = """
        with joined_run("test") as child:
            child.run.telemetry.metric(1, {"up": 1})
            heard = []
            while Command.STOP not in heard:
                command = child.run.poll()
                heard += [command] if command else []
                time.sleep(0.001)
            child.summary["heard"] = [command.value for command in heard]
        """
    worker = threading.Thread(target=lambda: ends.append(parent.start(code)))
    worker.start()
    parent.wait_for("metric")
    parent.control._obey("pause")
    assert parent.wait_for("heartbeat")["state"] == "paused"
    parent.control._obey("checkpoint")
    parent.control._obey("resume")
    parent.control.request_stop()
    worker.join(30)
    assert ends == [{"heard": ["checkpoint", "stop"]}]


def test_what_was_asked_before_the_child_started_is_passed_on(parent: Parent) -> None:
    parent.control.request_stop()
    summary = parent.start(
        """
        with joined_run("test") as child:
            while child.run.poll() is not Command.STOP:
                time.sleep(0.001)
            child.summary["stopped"] = True
        """
    )
    assert summary == {"stopped": True}


def test_the_childs_exception_is_told_with_its_traceback(parent: Parent) -> None:
    with pytest.raises(ChildFailed, match="ValueError: out of cheese") as caught:
        parent.start("with joined_run('test'):\n    raise ValueError('out of cheese')")
    assert "raise ValueError('out of cheese')" in "".join(caught.value.__notes__) or "joined_run" in "".join(
        caught.value.__notes__
    )


def test_a_signal_that_comes_when_the_work_is_done_undoes_nothing(parent: Parent) -> None:
    summary = parent.start("""
        import signal
        with joined_run("test") as child:
            child.summary["steps"] = 3
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as Python does at its end
        os.kill(os.getpid(), signal.SIGTERM)
    """)
    assert summary == {"steps": 3}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("sys.exit(3)", "exit code 3"),
        ("pass", "exit code 0 without a result"),
    ],
)
def test_a_child_that_just_ends_is_no_success(parent: Parent, code: str, words: str) -> None:
    with pytest.raises(ChildFailed, match=words):
        parent.start(code)
