"""Logs that rotate while they are read: nothing is missing, nothing comes twice."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.cli import log_files
from mosaic.shepherd.rotating import RotatingLog


def test_last_lines_reach_back_into_older_files(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    writer = RotatingLog(log, max_bytes=30, keep=4)
    for number in range(12):
        writer.write(f"line {number}\n".encode())
    assert log_files.last_lines(log, 3) == b"line 9\nline 10\nline 11\n"
    assert b"".join(log_files.everything(log)).endswith(b"line 10\nline 11\n")
    assert log_files.last_lines(log, 0) == b""
    assert log_files.last_lines(tmp_path / "absent.log", 5) == b""


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=40), st.randoms(use_true_random=False))
def test_a_follower_sees_every_byte_over_one_rotation_at_a_time(tmp_path_factory, pieces, random) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path_factory.mktemp("logs") / "worker.log"
    writer = RotatingLog(log, max_bytes=64, keep=4)
    follower = log_files.LogFollower(log)
    seen = b""
    for piece in pieces:
        writer.write(piece)
        if random.random() < 0.9:
            seen += follower.read()
        else:
            seen += follower.read()
    seen += follower.read()
    follower.close()
    assert seen == b"".join(pieces)
