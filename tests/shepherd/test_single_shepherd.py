"""One shepherd a run, one start an attempt, and a truth that can be read from the folder alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import msgspec
import pytest

from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import read_exit
from mosaic.shepherd.launch import LaunchError, read_launch, shepherd_command
from mosaic.shepherd.lock import is_locked, read_shepherd, take_lock
from mosaic.shepherd.recovery import bury
from mosaic.shepherd.status import read_status

WAITING = "say('step', step=1)\nfor command in commands():\n    if command == 'stop': sys.exit(0)"


def files(folder: RunFolder) -> dict[str, bytes]:
    return {str(p.relative_to(folder.path)): p.read_bytes() for p in folder.path.rglob("*") if p.is_file()}


def second_shepherd(folder: RunFolder) -> subprocess.CompletedProcess[str]:
    return subprocess.run(shepherd_command(folder), capture_output=True, text=True, check=False, timeout=30)


def test_a_second_shepherd_is_refused(shepherd):
    run = shepherd(WAITING)
    run.until_row("step")
    info = read_shepherd(run.folder)
    second = second_shepherd(run.folder)
    assert (second.returncode, second.stdout) == (3, "")
    assert "already has a shepherd" in second.stderr
    assert read_shepherd(run.folder) == info
    run.send("cancel")
    assert run.wait().outcome == "cancelled"


def test_no_attempt_is_started_twice(shepherd):
    run = shepherd("")
    run.wait()
    before = files(run.folder)
    second = second_shepherd(run.folder)
    assert second.returncode == 3
    assert "attempt 1 is not after 1, nothing started" in second.stderr
    assert files(run.folder) == before


def test_an_attempt_that_was_lost_is_not_started_again(shepherd):
    run = shepherd(WAITING)
    run.until_row("step")
    run.kill_shepherd()
    assert second_shepherd(run.folder).returncode == 3


def test_six_shepherds_at_once_start_one_worker(new_run):
    run = new_run().script(WAITING)
    others = [subprocess.Popen(shepherd_command(run.folder), stderr=subprocess.DEVNULL) for _ in range(5)]
    everyone = [run.process, *others]
    run.until_row("step")
    run.wait_for(lambda: sum(s.poll() is not None for s in everyone) == 5, "five refusals")
    assert [s.returncode for s in everyone if s.returncode is not None] == [3] * 5
    run.send("cancel")
    assert sorted(s.wait(30) for s in everyone) == [0, *[3] * 5]
    assert len(run.rows("attempt")) == 1
    assert [row["step"] for row in run.rows("step")] == [1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file"),
        (b"{", "truncated"),
        (b'{"run_id":"R","attempt":1,"argv":["x"],"typo":1}', "typo"),
        (b'{"run_id":"../R","attempt":1,"argv":["x"]}', "run_id '../R' may hold only letters"),
        (b'{"run_id":"R","attempt":0,"argv":["x"]}', "attempt must be 1 or more"),
        (b'{"run_id":"R","attempt":1,"argv":[]}', "argv not empty"),
    ],
)
def test_an_unusable_launch_file(tmp_path, text, said):
    folder = RunFolder(tmp_path)
    if text is not None:
        folder.launch.write_bytes(text)
    with pytest.raises(LaunchError, match=said):
        read_launch(folder)
    second = second_shepherd(folder)
    assert second.returncode == 2
    assert second.stderr.startswith("shepherd: ")
    assert second.stderr.count("\n") == 1
    assert set(files(folder)) <= {"launch.json"}


def test_states_from_queued_to_the_end(new_run):
    run = new_run()
    run.folder.path.mkdir()
    assert (run.status().state, run.status().attempt) == ("QUEUED", 0)
    run.script(WAITING)
    status = run.until_state("RUNNING")
    assert (status.alive, status.attempt, status.exit) == (True, 1, None)
    assert status.shepherd is not None
    assert status.shepherd.worker_pid == run.worker_pid
    run.send("cancel")
    run.wait()
    status = run.status()
    assert (status.state, status.alive) == ("CANCELLED", False)
    assert status.exit == read_exit(run.folder)


def test_a_new_attempt_waits_in_the_queue_until_its_shepherd_starts(shepherd):
    run = shepherd("sys.exit(1)")
    run.wait()
    launch = msgspec.structs.replace(read_launch(run.folder), attempt=2)
    run.folder.launch.write_bytes(msgspec.json.encode(launch))
    assert (run.status().state, run.status().attempt, run.status().exit) == ("QUEUED", 2, None)


def test_a_silent_worker_is_starting_until_its_first_word(shepherd):
    run = shepherd("for command in commands():\n    print(command, file=sys.stderr)\n    if command == 'stop': break")
    assert run.worker_pid
    assert run.until_state("STARTING").alive
    run.send("checkpoint")
    run.until_state("RUNNING")
    run.send("cancel")
    assert run.wait().outcome == "cancelled"


def test_a_copied_folder_tells_the_same(shepherd, tmp_path):
    run = shepherd("say('step', step=1)")
    run.wait()
    shutil.copytree(run.folder.path, tmp_path / "copy" / run.folder.run_id)
    copy = read_status(RunFolder(tmp_path / "copy" / run.folder.run_id))
    assert (copy.state, copy.alive, copy.exit) == ("SUCCEEDED", False, read_exit(run.folder))


def test_bury_a_lost_run(shepherd):
    run = shepherd(
        """
        os.mkdir(os.environ["MOSAIC_FASTLANE_DIR"])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
        say("step", step=7)
        time.sleep(600)
        """
    )
    run.wait_for(lambda: len(run.rows("step")) == 2, "both processes")
    assert bury(run.folder) is None  # somebody is alive
    run.kill_shepherd()
    record = bury(run.folder, grace_s=0.1)
    assert record is not None
    assert (record.outcome, record.reason, record.attempt) == ("lost", "unknown", 1)
    assert record.last_step == 7
    assert record.last_seq == run.rows()[-1]["seq"]
    run.assert_clean()
    assert run.status().state == "LOST"
    assert run.status().exit == record
    assert bury(run.folder) == record  # once is enough
    run.script("say('step', step=8)")
    assert run.wait().attempt == 2


def test_bury_a_run_whose_store_is_not_readable_any_more(shepherd):
    run = shepherd("say('step', step=7)\ntime.sleep(600)")
    run.until_row("step")
    run.kill_shepherd()
    for path in run.folder.path.glob("run.sqlite*"):
        path.write_bytes(b"scribbled over " * 1000)
    record = bury(run.folder, grace_s=0.1)
    assert record is not None
    assert (record.outcome, record.last_seq, record.last_step) == ("lost", 0, None)
    assert run.status().state == "LOST"


def test_bury_wakes_a_paused_tree(shepherd):
    run = shepherd("say('step', step=7)\ntime.sleep(600)")
    run.until_row("step")
    run.send("pause")
    run.until_state("PAUSED")
    run.kill_shepherd()
    record = bury(run.folder, grace_s=20)
    assert record is not None
    run.assert_clean()


def test_bury_leaves_an_end_on_record_alone(shepherd, new_run):
    run = shepherd("sys.exit(4)")
    record = run.wait()
    assert bury(run.folder) == record
    never = new_run()
    never.folder.path.mkdir()
    assert bury(never.folder) is None


def test_the_next_attempt_ends_what_a_killed_shepherd_left(new_run):
    run = new_run().script(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay('step', step=1)\ntime.sleep(600)", term_grace_s=0.2
    )
    run.until_row("step")
    first = run.worker_pid
    run.kill_shepherd()
    assert run.process_states()[first][1] != "Z"
    run.script("say('step', step=2)", term_grace_s=0.2)
    assert run.wait().outcome == "succeeded"
    assert [(row["attempt"], row["step"]) for row in run.rows("step")] == [(1, 1), (2, 2)]


def test_asking_who_holds_the_lock_refuses_nobody(tmp_path):
    """A shepherd that starts in the instant of such a question must not give up."""
    folder = RunFolder(tmp_path)
    assert not is_locked(folder)
    asker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from mosaic.shepherd.lock import is_locked; from mosaic.paths import RunFolder\n"
            "print(flush=True)\nwhile True: is_locked(RunFolder(pathlib.Path(sys.argv[1])))",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert asker.stdout is not None
        asker.stdout.readline()
        for _ in range(50):
            lock = take_lock(folder, wait_s=5)
            assert lock is not None
            assert is_locked(folder)
            os.close(lock)
    finally:
        asker.kill()
        asker.wait()
        asker.stdout.close()
