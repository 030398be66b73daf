"""Nothing that a worker started outlives its run."""

from __future__ import annotations

import os
import signal
import subprocess

import msgspec

from mosaic.shepherd.lock import read_shepherd, write_shepherd
from mosaic.shepherd.processes import read_process
from mosaic.shepherd.recovery import bury

DAEMON = """
def daemon(*, quiet):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.setpgid(0, 0)
            if quiet:
                [os.close(fd) for fd in (0, 1, 2)]
            while True:
                time.sleep(1)
        os._exit(0)
    os.wait()
"""


def test_a_daemon_that_holds_stdout_does_not_hold_the_run(shepherd):
    run = shepherd(DAEMON + "daemon(quiet=False); say('step', step=1)", term_grace_s=0.5)
    record = run.wait()
    assert record.outcome == "succeeded"
    assert record.counts == {"leftover_processes": 1}
    assert record.last_step == 1


def test_a_quiet_daemon_is_found_too(shepherd):
    record = shepherd(DAEMON + "daemon(quiet=True)", term_grace_s=0.5).wait()
    assert (record.outcome, record.counts) == ("succeeded", {"leftover_processes": 1})


def test_helpers_that_end_by_themselves_are_left_to_it(shepherd):
    run = shepherd(
        """
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.3)
            say("step", step=2)
            os._exit(0)
        say("step", step=1)
        """
    )
    record = run.wait()
    assert (record.outcome, record.counts) == ("succeeded", {})
    assert [row["step"] for row in run.rows("step")] == [1, 2]


def test_cancel_ends_those_who_ignore_it(shepherd):
    run = shepherd(
        DAEMON + "daemon(quiet=False)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay('step', step=1)\n"
        "while True: time.sleep(1)",
        term_grace_s=0.5,
    )
    run.until_row("step")
    run.send("cancel")
    record = run.wait()
    assert (record.outcome, record.signal) == ("cancelled", "SIGKILL")


def test_a_fork_storm_is_ended(shepherd):
    run = shepherd(
        """
        say("step", step=1)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end = time.time() + 60
        for _ in range(3):
            os.fork()
        while time.time() < end:  # each generation forks the next and goes
            if os.fork():
                os._exit(0) if os.getpid() != os.getsid(0) else os.wait()
            time.sleep(0.005)
        """,
        term_grace_s=0.3,
    )
    run.until_row("step")
    run.send("cancel")
    assert run.wait().outcome == "cancelled"


def test_the_worker_of_a_killed_shepherd_is_told_to_end(shepherd):
    run = shepherd("say('step', step=1)\ntime.sleep(600)")
    run.until_row("step")
    pid = run.worker_pid
    run.kill_shepherd()
    run.wait_for(lambda: run.process_states().get(pid, (0, "Z"))[1] == "Z", "the worker's end")
    assert run.status().state == "LOST"


def test_orphans_are_reaped_while_the_run_goes_on(shepherd):
    run = shepherd(
        """
        for _ in range(20):
            if os.fork() == 0:
                if os.fork() == 0:
                    time.sleep(0.05)
                os._exit(0)
            os.wait()
        time.sleep(0.3)
        say("step", step=1)
        time.sleep(600)
        """,
        term_grace_s=0.5,
    )
    run.until_row("step")
    zombies = [pid for pid, place in run.process_states().items() if place == (run.process.pid, "Z")]
    assert zombies == []
    os.kill(run.worker_pid, signal.SIGKILL)
    assert run.wait().signal == "SIGKILL"


def test_strangers_are_never_taken_for_leftovers(shepherd):
    """The worker's session number may belong to somebody else by the time that a lost run is buried."""
    run = shepherd("say('step', step=1)\ntime.sleep(600)")
    run.until_row("step")
    run.kill_shepherd()
    info = read_shepherd(run.folder)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        for changes in ({"worker_start_ticks": 1}, {"boot_id": "another"}):
            write_shepherd(run.folder, msgspec.structs.replace(info, session=stranger.pid, **changes))
            run.folder.exit.unlink(missing_ok=True)
            assert bury(run.folder) is not None
            assert stranger.poll() is None
        stranger.kill()
    run.assert_clean()


def test_leftovers_that_hide_their_environment_are_found_by_session(shepherd):
    """Ray, for one, overwrites the environment of its processes with a title."""
    run = shepherd(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.environ.clear()
            os.execve("/bin/sleep", ["sleep", "600"], {})
        say("step", step=1)
        time.sleep(600)
        """
    )
    run.until_row("step")
    worker = run.worker_pid
    run.kill_shepherd()
    os.kill(worker, signal.SIGKILL)
    run.wait_for(lambda: not in_session(worker, worker), "the worker's end")
    children = [pid for pid in run.process_states() if in_session(pid, worker)]
    assert len(children) == 1
    assert bury(run.folder, grace_s=0.1) is not None
    assert not in_session(children[0], worker)


def in_session(pid: int, session: int) -> bool:
    process = read_process(pid)
    return process is not None and process.state != "Z" and process.session == session
