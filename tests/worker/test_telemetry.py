"""Stdout carries telemetry and nothing else, whatever a library prints; nothing said is lost."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.worker.messages import AnyMessage, Metric, from_number, to_number


def run_script(body: str, *, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[bytes]:
    script = (
        "import os, sys, time\nfrom mosaic.worker.telemetry import TelemetryEmitter, take_stdout\n"
        + textwrap.dedent(body)
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=timeout, check=False, **options)


def lines(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_others_print_goes_to_stderr() -> None:
    done = run_script("""
        emitter = TelemetryEmitter(take_stdout())
        print("a print")
        os.write(1, b"a write from C\\n")
        os.system("echo a child")
        emitter.metric(1, {"loss": 0.5})
        emitter.close()
    """)
    assert [line["type"] for line in lines(done)] == ["metric"]
    for noise in (b"a print", b"a write from C", b"a child"):
        assert noise in done.stderr


def test_everything_said_arrives_in_order_even_when_the_reader_is_slow() -> None:
    # 300,000 lines are far more than pipe and queue hold: the worker has to wait for its reader.
    done = run_script("""
        emitter = TelemetryEmitter(take_stdout())
        for step in range(300_000):
            emitter.step(step, 1.0)
        emitter.close()
    """)
    assert [line["step"] for line in lines(done)] == list(range(300_000))


def test_several_threads_do_not_cut_each_others_lines() -> None:
    done = run_script("""
        import threading
        emitter = TelemetryEmitter(take_stdout())
        def talk(agent):
            for step in range(5000):
                emitter.step(step, 0.0, agent=agent)
        threads = [threading.Thread(target=talk, args=(str(i),)) for i in range(4)]
        [thread.start() for thread in threads]; [thread.join() for thread in threads]
        emitter.close()
    """)
    told = lines(done)
    for agent in "0123":
        assert [line["step"] for line in told if line["agent"] == agent] == list(range(5000))


def test_parent_and_child_share_one_stream_without_cutting_lines() -> None:
    done = run_script("""
        import subprocess
        emitter = TelemetryEmitter(take_stdout())
        fd, variables = emitter.share()
        child = subprocess.Popen([sys.executable, "-c", '''
        from mosaic.worker.telemetry import TelemetryEmitter, take_stdout
        emitter = TelemetryEmitter(take_stdout())
        print("child noise")
        for step in range(20000): emitter.step(step, 0.0, agent="child")
        emitter.close()
        '''.replace("        ", "")], pass_fds=[fd], env={**os.environ, **variables})
        step = 0
        while child.poll() is None:
            emitter.step(step, 0.0, agent="parent"); step += 1
            if step % 50 == 0: time.sleep(0.001)
        emitter.close()
    """)
    told = lines(done)
    assert [line["step"] for line in told if line["agent"] == "child"] == list(range(20000))
    parent = [line["step"] for line in told if line["agent"] == "parent"]
    assert parent == list(range(len(parent)))
    assert b"child noise" in done.stderr


def test_a_forked_child_says_nothing_twice() -> None:
    done = run_script("""
        emitter = TelemetryEmitter(take_stdout())
        emitter.step(1, 0.0)
        if os.fork() == 0:
            emitter.step(2, 0.0)
            os._exit(0)
        os.wait()
        emitter.close()
    """)
    assert [line["step"] for line in lines(done)] == [1]


def test_heartbeats_come_without_the_training_loop() -> None:
    done = run_script(
        """
        emitter = TelemetryEmitter(take_stdout())
        emitter.metric(7, {"loss": 1.0})
        time.sleep(0.5)
        emitter.close()
    """,
        env={**os.environ, "MOSAIC_HEARTBEAT_S": "0.1"},
    )
    beats = [line for line in lines(done) if line["type"] == "heartbeat"]
    assert len(beats) >= 2
    assert beats[-1]["step"] == 7


def test_a_worker_whose_reader_is_gone_is_told_to_stop(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time
        from mosaic.worker.control import Control
        from mosaic.worker.telemetry import TelemetryEmitter, take_stdout
        control = Control(supervised=False)
        control.listen()
        emitter = TelemetryEmitter(take_stdout(), on_reader_gone=control.request_stop)
        step = 0
        while not control.stop_requested:
            emitter.step(step, 0.0); step += 1
            time.sleep(0.001)
        emitter.close()
        sys.exit(7)
        """)
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 7
    assert process.stderr is not None
    assert b"nobody reads" in process.stderr.read()
    process.stderr.close()


@given(st.floats())
def test_every_float_survives_the_wire(value: float) -> None:
    line = msgspec.json.encode(Metric(step=1, values={"x": to_number(value)}))
    decoded = msgspec.json.decode(line, type=AnyMessage)
    back = from_number(decoded.values["x"])
    assert back == value or (math.isnan(back) and math.isnan(value))


CONTROL_WORKER = """
import sys
from mosaic.worker.control import Command, Control
control = Control(supervised=True)
control.listen()
print("ready", flush=True)
while True:
    command = control.take(lambda state: print(state, flush=True)) if control.pending else None
    if command is not None:
        print(command.value, flush=True)
    if command is Command.STOP:
        break
"""


def control_worker() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROL_WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (["checkpoint", "stop"], ["checkpoint", "stop"]),
        (["pause", "resume", "stop"], ["paused", "running", "stop"]),
        (["pause", "checkpoint", "resume", "stop"], ["paused", "checkpoint", "paused", "running", "stop"]),
        (["pause", "stop"], ["paused", "running", "stop"]),
    ],
)
def test_commands_are_obeyed_in_order(sent: list[str], seen: list[str]) -> None:
    process = control_worker()
    assert process.stdin is not None
    assert process.stdout is not None
    expected = iter(seen)
    for command in sent:
        process.stdin.write(json.dumps({"type": command}) + "\n")
        process.stdin.flush()
        # Wait for the effect before the next command: what overlaps may be taken together.
        assert process.stdout.readline().strip() == next(expected)
        if command == "checkpoint" and "paused" in seen[:-2]:
            assert process.stdout.readline().strip() == next(expected)
    process.stdin.close()
    assert [line.strip() for line in process.stdout] == list(expected)
    assert process.wait(30) == 0


def test_unknown_commands_are_ignored_and_sigterm_stops() -> None:
    process = control_worker()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"type": "dance"}\nnot json\n')
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "stop\n"
    assert process.wait(30) == 0


def test_the_end_of_stdin_means_that_the_shepherd_is_gone() -> None:
    process = control_worker()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.stdout.readline() == "stop\n"
    assert process.wait(30) == 0
