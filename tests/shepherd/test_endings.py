"""How a run ends is told truthfully."""

from __future__ import annotations

import os
import signal
import sys

import pytest


def test_a_worker_that_completes(shepherd):
    run = shepherd(
        """
        say("run_started", run_id=os.environ["MOSAIC_RUN_ID"], worker="test")
        for step in range(10):
            say("step", step=step, reward=1.0)
        say("run_completed", step=9)
        """
    )
    record = run.wait()
    assert (record.outcome, record.reason, record.exit_code, record.signal) == ("succeeded", "completed", 0, None)
    assert record.last_step == 9
    assert record.counts == {}
    assert [row["step"] for row in run.rows("step")] == list(range(10))
    assert [row["state"] for row in run.rows("state")] == ["RUNNING"]


def test_a_silent_worker_that_exits_with_0_succeeds(shepherd):
    record = shepherd("").wait()
    assert (record.outcome, record.reason, record.last_step) == ("succeeded", "completed", None)


def test_a_worker_that_says_stopped(shepherd):
    record = shepherd("say('run_completed', reason='stopped')").wait()
    assert (record.outcome, record.reason) == ("cancelled", "stopped")


@pytest.mark.parametrize(
    ("script", "outcome", "reason", "exit_code", "said"),
    [
        ("print('first\\nthe reason', file=sys.stderr); sys.exit(3)", "failed", "error", 3, "the reason"),
        ("sys.exit(7)", "failed", "error", 7, "exit code 7 without a word"),
        ("raise ValueError('torn')", "failed", "error", 1, "ValueError: torn"),
        ("sys.exit('config: field x: got 1')", "failed", "error", 1, "field x: got 1"),
        (
            "print('config: field x: got 1\\nconfig: field y: got 2', file=sys.stderr); sys.exit(2)",
            "failed",
            "bad_config",
            2,
            "field x: got 1; field y: got 2",
        ),
        ("say('run_failed', error='diverged'); sys.exit(1)", "failed", "error", 1, "diverged"),
        ("say('run_failed', error='diverged')", "failed", "error", 0, "diverged"),
        ("say('run_completed'); sys.exit(9)", "failed", "error", 9, "reported 'finished' and then ended with exit"),
    ],
)
def test_failures(shepherd, script, outcome, reason, exit_code, said):
    record = shepherd(script).wait()
    assert (record.outcome, record.reason, record.exit_code) == (outcome, reason, exit_code)
    assert said in record.message


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGRTMIN+3"])
def test_a_killed_worker(shepherd, name):
    number = signal.SIGRTMIN + 3 if "+" in name else signal.Signals[name]
    record = shepherd(f"say('step', step=4); os.kill(os.getpid(), {int(number)})").wait()
    assert (record.outcome, record.reason, record.exit_code, record.signal) == ("failed", "killed", None, name)
    assert name in record.message
    assert record.last_step == 4


def test_a_missing_interpreter(new_run):
    record = new_run().start(["/nowhere/python", "-c", ""]).wait()
    assert (record.outcome, record.reason, record.exit_code) == ("failed", "spawn_failed", None)
    assert record.message == "could not start /nowhere/python: No such file or directory"


def test_a_program_that_may_not_be_executed(new_run, tmp_path):
    (tmp_path / "data").write_text("")
    record = new_run().start([str(tmp_path / "data")]).wait()
    assert record.message == f"could not start {tmp_path / 'data'}: Permission denied"


def test_a_missing_working_folder(new_run):
    record = new_run().start([sys.executable, "-c", ""], cwd="/nowhere").wait()
    assert (record.outcome, record.reason) == ("failed", "spawn_failed")
    assert record.message == "could not enter the working folder /nowhere: No such file or directory"


def test_a_nul_byte_in_an_argument(new_run):
    record = new_run().start([sys.executable, "-c", "\0"]).wait()
    assert (record.outcome, record.reason) == ("failed", "spawn_failed")
    assert "null byte" in record.message


def test_the_shepherd_is_told_to_end(shepherd):
    run = shepherd("say('step', step=1)\nfor command in commands():\n    if command == 'stop': sys.exit(0)")
    run.until_row("step")
    os.kill(run.process.pid, signal.SIGTERM)
    record = run.wait()
    assert (record.outcome, record.reason, record.exit_code) == ("lost", "killed", 0)
    assert "the shepherd was told to end" in record.message


def test_what_the_worker_is_given(shepherd):
    run = shepherd(
        """
        import resource
        assert os.getsid(0) == os.getpgid(0) == os.getpid()
        assert sorted(os.listdir("/proc/self/fd"))[:3] == ["0", "1", "2"] and len(os.listdir("/proc/self/fd")) == 4
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
        names = [n for n in os.environ if n.startswith(("MOSAIC_R", "MOSAIC_A", "MOSAIC_F", "OMP", "OWN"))]
        say("log", message=json.dumps({n: os.environ[n] for n in sorted(names)} | {"cwd": os.getcwd()}))
        """,
        env={"OWN": "1", "OMP_NUM_THREADS": "3"},
        resume_from="checkpoints/step_000000000007",
        resume_step=7,
    )
    assert run.wait().outcome == "succeeded"
    folder, run_id = run.folder.path, run.folder.run_id
    import json

    assert json.loads(run.rows("log")[0]["message"]) == {
        "MOSAIC_RUN_ID": run_id,
        "MOSAIC_RUN_DIR": str(folder),
        "MOSAIC_ATTEMPT": "1",
        "MOSAIC_RESUME_FROM": f"{folder}/checkpoints/step_000000000007",
        "MOSAIC_FASTLANE_DIR": f"/dev/shm/mosaic-{run_id}",
        "OMP_NUM_THREADS": "3",
        "OWN": "1",
        "cwd": str(folder),
    }


def test_shared_memory_is_removed(shepherd):
    run = shepherd("d = os.environ['MOSAIC_FASTLANE_DIR']; os.mkdir(d); open(d + '/ring', 'w').write('x' * 99)")
    assert run.wait().outcome == "succeeded"  # wait() sees that it is gone
