"""Whatever a worker writes: the run ends well, the memory stays flat, everything odd is counted."""

from __future__ import annotations

import fcntl
import os
import sys
import termios
from pathlib import Path

import pytest

MEMORY_MB = 80


def test_a_line_of_50_mb(shepherd):
    run = shepherd(
        """
        say("step", step=1)
        line = b"x" * 1_000_000
        for _ in range(50):
            sys.stdout.buffer.write(line)
        print(flush=True)
        say("step", step=2)
        """
    )
    record = run.wait()
    assert record.outcome == "succeeded"
    assert record.counts == {"oversized": 1}
    assert [row["step"] for row in run.rows("step")] == [1, 2]
    assert run.peak_mb < MEMORY_MB
    assert run.folder.malformed_log.read_bytes() == b"x" * 4096 + b"\n"


def test_a_million_malformed_lines(shepherd):
    run = shepherd(
        """
        out = open(1, "wb", buffering=1 << 16, closefd=False)
        for index in range(1_000_000):
            out.write(b"Epoch %d: loss is nan\\n" % index)
        out.flush()
        say("run_completed")
        """
    )
    record = run.wait()
    assert record.outcome == "succeeded"
    assert record.counts == {"malformed": 1_000_000}
    assert run.peak_mb < MEMORY_MB
    assert sum(f.stat().st_size for f in run.folder.logs.glob("malformed.log*")) <= 2 << 20


def test_bytes_that_are_no_telemetry(shepherd):
    run = shepherd(
        r"""
        say("step", step=1)
        os.write(1, b'{"type":"log","message":"\xff\xfe"}\n')
        os.write(1, b'{"type":"log","message":"a\0b"}\n')
        os.write(1, b'{"type":"dance"}\n')
        os.write(1, b'{"type":"step","step":"two"}\n')
        os.write(1, b'{"type":"step","step":' + b"9" * 40 + b'}\n')
        os.write(1, bytes(range(256)) + b"\n")
        say("step", step=2)
        os.write(1, b'{"type":"step","st')
        """
    )
    record = run.wait()
    assert record.outcome == "succeeded"
    assert sum(record.counts.values()) == 8  # the byte soup has a line end in it
    assert {"invalid_utf8": 1, "unknown_type": 1, "invalid_message": 2, "truncated": 1}.items() <= record.counts.items()
    assert [row["step"] for row in run.rows("step")] == [1, 2]


def test_random_bytes_at_full_speed(shepherd):
    run = shepherd(
        """
        block = os.urandom(1 << 20)
        for _ in range(20):
            sys.stdout.buffer.write(block)
        """
    )
    record = run.wait()
    assert record.outcome == "succeeded"
    assert sum(record.counts.values()) > 1000
    assert run.peak_mb < MEMORY_MB


def test_output_after_the_end_was_told_is_kept_and_counted(shepherd):
    run = shepherd(
        """
        say("run_completed", step=1)
        say("step", step=2)
        time.sleep(0.1)
        say("run_failed", error="no, wait")
        """
    )
    record = run.wait()
    assert (record.outcome, record.counts) == ("succeeded", {"after_close": 2})
    assert [row["step"] for row in run.rows("step")] == [2]


def test_a_worker_that_closes_its_stdout_and_lives_on(shepherd):
    run = shepherd("say('step', step=1); os.close(1); time.sleep(1.3); print('still here', file=sys.stderr)")
    record = run.wait()
    assert record.outcome == "succeeded"
    assert record.counts == {"stdout_closed_early": 1}
    assert run.folder.worker_log.read_text() == "still here\n"


def test_a_worker_that_closes_everything(shepherd):
    run = shepherd("[os.close(fd) for fd in (0, 1, 2)]; time.sleep(0.3); os._exit(5)")
    record = run.wait()
    assert (record.outcome, record.exit_code) == ("failed", 5)


def test_a_flood_on_stderr_neither_fills_the_disk_nor_starves_telemetry(shepherd):
    run = shepherd(
        """
        if os.fork() == 0:
            while os.getppid() != 1:
                os.write(2, b"spam " * 10_000 + b"\\n")
        for step in range(200):
            say("step", step=step)
            time.sleep(0.001)
        for command in commands():
            if command == "stop": os._exit(0)
        """,
        log_max_bytes=1_000_000,
        log_keep=3,
    )
    run.until_row("step", step=199)
    run.wait_for((run.folder.logs / "worker.log.2").exists, "two rotations")
    run.send("cancel")
    assert run.wait().outcome == "cancelled"
    sizes = [f.stat().st_size for f in run.folder.logs.glob("worker.log*")]
    assert len(sizes) == 3
    assert max(sizes) <= 1_000_000
    assert run.peak_mb < MEMORY_MB


def test_a_worker_that_never_reads_what_it_is_told(shepherd):
    run = shepherd("say('step', step=1)\ntime.sleep(600)", term_grace_s=1.0)
    run.until_row("step")
    for _ in range(20):
        for _ in range(300):
            run.send("checkpoint")
        run.wait_for(lambda: unread(run.folder.control) == 0, "the shepherd to read its commands")
    run.send("cancel")
    record = run.wait()
    assert (record.outcome, record.signal) == ("cancelled", "SIGTERM")


def unread(fifo: Path) -> int:
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    waiting = fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0")
    os.close(descriptor)
    return int.from_bytes(waiting, sys.byteorder)


@pytest.mark.parametrize("attempts", [3])
def test_logs_go_on_over_attempts(new_run, attempts):
    run = new_run()
    for attempt in range(1, attempts + 1):
        run.script(f"print('attempt', {attempt}, file=sys.stderr)")
        assert run.wait().attempt == attempt
    assert run.folder.worker_log.read_text() == "attempt 1\nattempt 2\nattempt 3\n"
