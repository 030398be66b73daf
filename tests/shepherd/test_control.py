"""Pause, resume, checkpoint, cancel."""

from __future__ import annotations

import contextlib
import os
import select
import signal

import pytest

from mosaic.paths import RunFolder
from mosaic.shepherd import control

STEPPING = """
step = 0
def work():
    global step
    step += 1
    say("step", step=step)
    time.sleep(0.002)
"""

# Does all that it is told, as a good worker would.
OBEDIENT = (
    STEPPING
    + """
import select
paused = False
while True:
    if select.select([0], [], [], 0)[0] or paused:
        command = json.loads(sys.stdin.readline())["type"]
        if command == "stop":
            say("run_completed", step=step, reason="stopped")
            sys.exit(0)
        if command == "checkpoint":
            say("checkpoint", step=step, path=f"checkpoints/step_{step:012d}")
        if command in ("pause", "resume"):
            paused = command == "pause"
            say("heartbeat", step=step, state="paused" if paused else "running")
    else:
        work()
"""
)


def test_pause_by_the_worker_itself(shepherd):
    run = shepherd(OBEDIENT, worker_pauses=True)
    run.until_row("step", step=5)
    run.send("pause")
    run.until_state("PAUSED")
    assert run.process_states()[run.worker_pid][1] != "T"
    paused_at = run.rows("step")[-1]["step"]
    run.send("resume")
    run.until_state("RUNNING")
    run.until_row("step", step=paused_at + 5)
    run.send("cancel")
    record = run.wait()
    assert (record.outcome, record.exit_code) == ("cancelled", 0)
    assert [row["state"] for row in run.rows("state")][:3] == ["RUNNING", "PAUSED", "RUNNING"]
    assert record.counts == {}


@pytest.mark.parametrize("worker_pauses", [True, False])
def test_pause_before_the_worker_has_said_a_word(shepherd, worker_pauses):
    run = shepherd("time.sleep(0.3)\n" + OBEDIENT, worker_pauses=worker_pauses)
    run.wait_for(lambda: run.folder.control.exists() and run.status().state == "STARTING", "its start")
    run.send("pause")
    run.until_state("PAUSED")
    said = len(run.rows("step"))
    assert said <= 1
    run.send("resume")
    run.until_row("step", step=said + 5)
    assert run.status().state == "RUNNING"
    run.send("cancel")
    assert run.wait().outcome == "cancelled"


def test_pause_stops_the_whole_tree_of_a_worker_that_cannot(shepherd):
    run = shepherd(
        STEPPING
        + """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setpgid(0, 0)
while True:
    work()
"""
    )
    run.until_row("step", step=5)
    run.send("pause")
    run.until_state("PAUSED")

    def tree():
        parents = {}
        for pid, (parent, state) in run.process_states().items():
            parents.setdefault(parent, []).append((pid, state))
        found, level = [], [run.process.pid]
        while level:
            level = [child for parent in level for child in parents.get(parent, [])]
            found += level
            level = [pid for pid, _ in level]
        return found

    assert [state for _, state in tree()] == ["T"] * 3
    before = run.rows("step")[-1]["seq"]
    run.send("resume")
    run.until_state("RUNNING")
    run.wait_for(lambda: run.rows("step")[-1]["seq"] > before, "more steps")
    assert "T" not in [state for _, state in tree()]
    run.send("cancel")
    assert run.wait().outcome == "cancelled"


def test_a_worker_that_promised_to_pause_but_does_not_is_stopped(shepherd):
    run = shepherd(STEPPING + "while True: work()", worker_pauses=True, pause_grace_s=0.2)
    run.until_row("step")
    run.send("pause")
    assert run.until_state("PAUSED").detail == "1 process stopped by SIGSTOP"
    run.send("resume")
    run.until_state("RUNNING")
    run.send("cancel")
    assert run.wait().outcome == "cancelled"


def test_resume_before_the_pause_was_acknowledged(shepherd):
    run = shepherd(STEPPING + "while True: work()", worker_pauses=True, pause_grace_s=0.4)
    run.until_row("step")
    run.send("pause")
    run.send("resume")
    at = run.rows("step")[-1]["step"]
    run.until_row("step", step=at + 300)  # 0.6 s and more
    assert run.status().state == "RUNNING"
    run.send("cancel")
    run.wait()
    assert "PAUSED" not in [row["state"] for row in run.rows("state")]


@pytest.mark.parametrize("worker_pauses", [True, False])
def test_cancel_while_paused(shepherd, worker_pauses):
    run = shepherd(OBEDIENT, worker_pauses=worker_pauses)
    run.until_row("step")
    run.send("pause")
    run.until_state("PAUSED")
    run.send("cancel")
    record = run.wait()
    assert (record.outcome, record.exit_code) == ("cancelled", 0)


def test_checkpoint_is_passed_on(shepherd):
    run = shepherd(OBEDIENT)
    run.until_row("step")
    run.send("checkpoint")
    run.until_row("checkpoint")
    run.send("cancel")
    assert run.wait().outcome == "cancelled"
    assert run.rows("run_completed")[0]["reason"] == "stopped"


def test_cancel_of_a_worker_that_only_knows_sigterm(shepherd):
    run = shepherd(
        """
        signal.signal(signal.SIGTERM, lambda *_: (say("checkpoint", step=1, path="checkpoints/x"), os._exit(0)))
        say("step", step=1)
        time.sleep(600)
        """,
        term_grace_s=2.0,
    )
    run.until_row("step")
    run.send("cancel")
    record = run.wait()
    assert (record.outcome, record.exit_code) == ("cancelled", 0)
    assert len(run.rows("checkpoint")) == 1


def test_cancel_after_the_work_was_done_is_a_success(shepherd):
    run = shepherd("say('run_completed', step=1)\ntime.sleep(600)", term_grace_s=0.5)
    run.until_row("run_completed")
    run.send("cancel")
    record = run.wait()
    assert (record.outcome, record.reason, record.signal) == ("succeeded", "completed", "SIGTERM")


def test_a_worker_that_fails_while_it_is_cancelled_is_cancelled(shepherd):
    run = shepherd("say('step', step=1)\nfor _ in commands(): raise KeyboardInterrupt")
    run.until_row("step")
    run.send("cancel")
    record = run.wait()
    assert (record.outcome, record.reason) == ("cancelled", "cancelled")


def test_junk_on_the_control_channel_is_counted(shepherd):
    run = shepherd(OBEDIENT)
    run.until_row("step")
    descriptor = os.open(run.folder.control, os.O_WRONLY)
    os.write(descriptor, b'\n{"type":"dance"}\n\xff\xfe\n' + b"x" * 10_000 + b"\n" + b'{"type":"cancel"}\n')
    os.close(descriptor)
    record = run.wait()
    assert record.outcome == "cancelled"
    assert record.counts["control_malformed"] >= 4


def test_nobody_to_talk_to(tmp_path, shepherd):
    with pytest.raises(control.ShepherdGone):
        control.send(RunFolder(tmp_path / "none"), "cancel")
    run = shepherd("")
    run.wait()
    with pytest.raises(control.ShepherdGone):
        control.send(run.folder, "cancel")
    with pytest.raises(control.ControlError, match="'dance' is not one of pause, resume, checkpoint, cancel"):
        control.send(run.folder, "dance")


def test_a_killed_shepherds_fifo_refuses(shepherd):
    run = shepherd("say('step', step=1)\ntime.sleep(600)")
    run.until_row("step")
    run.kill_shepherd()
    assert run.folder.control.exists()
    with pytest.raises(control.ShepherdGone):
        control.send(run.folder, "cancel")


def test_control_never_blocks_on_a_shepherd_that_does_not_read(shepherd):
    run = shepherd(OBEDIENT)
    run.until_row("step")
    os.kill(run.process.pid, signal.SIGSTOP)
    with pytest.raises(control.ControlError, match="does not read"):
        for _ in range(10_000):
            control.send(run.folder, "checkpoint")
    os.kill(run.process.pid, signal.SIGCONT)
    run.wait_for(lambda: len(run.rows("checkpoint")) > 100, "checkpoints")
    run.send("cancel")
    assert run.wait().outcome == "cancelled"


def test_a_worker_that_ends_with_commands_unread_is_no_trouble():
    """The poll may tell of its end and of its stdin at once: the second handler finds the pipe closed by the first."""
    read, write = os.pipe2(os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    poll = select.poll()
    stdin = control.WorkerInput(write, poll)
    assert stdin.send("checkpoint")
    os.close(read)
    assert [descriptor for descriptor, _ in poll.poll(0)] == [write]
    stdin.close()
    stdin.flush()
    assert not stdin.send("stop")
