"""Memory and disk: limits hold, and an end by them is told as such."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import read_exit
from mosaic.shepherd.limits import MemoryCgroup, cgroup_name, remove_left_cgroup
from mosaic.shepherd.rotating import RotatingLog

COUNTING = """
step = 0
while True:
    step += 1
    say("step", step=step, extra={"ballast": "x" * 500})
    time.sleep(0.001)
"""


def test_a_tree_over_its_memory_limit_is_ended(shepherd):
    run = shepherd(
        """
        say("step", step=1)
        if os.fork() == 0:
            os.setsid()
            hoard = bytearray(200 << 20)
            hoard[::4096] = b"x" * len(hoard[::4096])
        time.sleep(600)
        """,
        memory_mb=100,
    )
    record = run.wait()
    assert (record.outcome, record.reason, record.signal) == ("failed", "out_of_memory", "SIGKILL")
    assert "the run's limit is 100 MiB" in record.message


def test_shared_pages_count_once(shepherd):
    """Eight processes share 40 MiB: 320 MiB resident in sum, but not in truth."""
    run = shepherd(
        """
        hoard = bytearray(40 << 20)
        hoard[::4096] = b"x" * len(hoard[::4096])
        for _ in range(7):
            if os.fork() == 0:
                time.sleep(600)
        time.sleep(1.2)
        """,
        memory_mb=200,
        term_grace_s=0.5,
    )
    record = run.wait()
    assert (record.outcome, record.reason) == ("succeeded", "completed")


@pytest.fixture
def cgroup_tree(tmp_path: Path) -> Path:
    """What /proc/self and /sys/fs/cgroup look like in a delegated session, as plain files."""
    own = tmp_path / "cgroup" / "app.slice" / "own.scope"
    own.mkdir(parents=True)
    (own.parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "mounts").write_text(f"proc /proc proc rw 0 0\ncgroup2 {tmp_path / 'cgroup'} cgroup2 rw 0 0\n")
    (tmp_path / "cgroup.txt").write_text("")
    proc = tmp_path / "proc"
    proc.mkdir()
    (tmp_path / "mounts").rename(proc / "mounts")
    (proc / "cgroup").write_text("0::/app.slice/own.scope\n")
    return tmp_path


def test_a_delegated_cgroup_is_used(cgroup_tree):
    group = MemoryCgroup.create("R1", 5 << 20, proc_self=cgroup_tree / "proc")
    assert group is not None
    folder = cgroup_tree / "cgroup" / "app.slice" / "mosaic-R1"
    assert (folder / "memory.max").read_text() == str(5 << 20)
    assert (folder / "memory.oom.group").read_text() == "1"
    assert group.add(4711)
    assert (folder / "cgroup.procs").read_text() == "4711"
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n")
    assert group.killed_by_kernel == 3


def test_a_cgroup_that_a_killed_shepherd_left_is_removed(cgroup_tree):
    left = cgroup_tree / "cgroup" / "app.slice" / "mosaic-R1.2"
    left.mkdir()
    remove_left_cgroup(cgroup_name("R1", 2), proc_self=cgroup_tree / "proc")
    assert not left.exists()
    remove_left_cgroup(cgroup_name("R1", 3), proc_self=cgroup_tree / "proc")  # there is none


def test_without_a_memory_controller_there_is_no_cgroup(cgroup_tree):
    (cgroup_tree / "cgroup" / "app.slice" / "cgroup.subtree_control").write_text("cpu pids\n")
    assert MemoryCgroup.create("R1", 5 << 20, proc_self=cgroup_tree / "proc") is None
    (cgroup_tree / "proc" / "cgroup").write_text("4:memory:/x\n0::/\n")
    assert MemoryCgroup.create("R1", 5 << 20, proc_self=cgroup_tree / "proc") is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "mosaic-test", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("may not mount a small disk here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _same_twice(measure: Callable[[], int]) -> int | None:
    before = measure()
    time.sleep(0.3)
    return before if measure() == before else None


def test_a_run_does_not_go_on_in_the_swap(tmp_path):
    (tmp_path / "memory.swap.max").write_text("max")
    MemoryCgroup(tmp_path, 5 << 20)
    assert (tmp_path / "memory.swap.max").read_text() == "0"


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def test_a_full_disk_that_gets_room_again_costs_nothing(new_run, small_disk):
    run = new_run()
    run.folder = RunFolder(small_disk / run.folder.run_id)
    run.script(COUNTING.replace("while True", "while step < 3000"))
    run.until_row("step", step=20)
    ballast = fill(small_disk)
    frozen_at = run.wait_for(lambda: _same_twice(lambda: run.rows("step")[-1]["step"]), "the store to stand still")
    ballast.unlink()
    record = run.wait()
    assert record.outcome == "succeeded"
    assert frozen_at < 3000
    assert [row["step"] for row in run.rows("step")] == list(range(1, 3001))


def test_a_disk_that_stays_full_ends_the_run(new_run, small_disk):
    run = new_run()
    run.folder = RunFolder(small_disk / run.folder.run_id)
    run.script(COUNTING, disk_full_grace_s=0.5, term_grace_s=1.0)
    run.until_row("step", step=20)
    fill(small_disk)
    record = run.wait(end_in_store=False)
    assert (record.outcome, record.reason) == ("failed", "disk_full")
    assert "messages are lost" in record.message
    steps = [row["step"] for row in run.rows("step")]
    assert steps == list(range(1, len(steps) + 1))
    assert record.last_seq == run.rows()[-1]["seq"]


def test_a_disk_without_room_for_the_end_starts_nothing(new_run, small_disk):
    run = new_run()
    run.folder = RunFolder(small_disk / run.folder.run_id)
    ballast = fill(small_disk)
    os.truncate(ballast, ballast.stat().st_size - 8192)  # launch.json fits, exit.json's space does not
    run.script("")
    assert run.process.wait(30) == 4
    assert run.status().state == "QUEUED"


def test_a_disk_without_room_for_the_store_says_so(new_run, small_disk):
    run = new_run()
    run.folder = RunFolder(small_disk / run.folder.run_id)
    ballast = fill(small_disk)
    os.truncate(ballast, ballast.stat().st_size - (24 << 10))
    run.script("time.sleep(600)")
    assert run.process.wait(30) == 0
    record = read_exit(run.folder)
    assert (record.outcome, record.reason) == ("failed", "disk_full")
    run.assert_clean()


def test_rotation_keeps_the_newest_within_the_bound(tmp_path):
    log = RotatingLog(tmp_path / "log", max_bytes=10, keep=3)
    written = b"".join(b"%04d" % number for number in range(100))
    for start in range(0, len(written), 7):
        assert log.write(written[start : start + 7]) == 0
    log.close()
    parts = [(tmp_path / name).read_bytes() for name in ("log.2", "log.1", "log")]
    assert all(len(part) <= 10 for part in parts)
    assert written.endswith(b"".join(parts))
    assert len(list(tmp_path.iterdir())) == 3


def test_one_file_is_enough(tmp_path):
    log = RotatingLog(tmp_path / "log", max_bytes=10, keep=1)
    log.write(b"0123456789abcdefghij+")
    assert (tmp_path / "log").read_bytes() == b"+"


def test_a_log_that_cannot_be_written_says_how_much_was_lost(tmp_path):
    assert RotatingLog(tmp_path / "no" / "log", max_bytes=10, keep=1).write(b"12345") == 5
