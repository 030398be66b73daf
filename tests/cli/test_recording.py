"""`mosaic record`: the frames of a living run become a movie."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from mosaic.fastlane import FastLaneWriter, default_directory, stream_path


def test_a_living_run_is_recorded(mosaic: Any, wait_for: Any) -> None:
    script = mosaic.cwd / "wait.sh"
    script.write_text("#!/bin/sh\nsleep 1000\n")
    run = mosaic.client.submit("script", {"file": str(script)}, name="filmed")
    wait_for(lambda: run.refresh().state in ("STARTING", "RUNNING"))
    lane: Path = default_directory(run.id)
    lane.mkdir(mode=0o700, exist_ok=True)
    stop = threading.Event()

    def play() -> None:
        with FastLaneWriter(stream_path(lane, "env-0"), (48, 64, 3)) as writer:
            while not stop.wait(0.01):
                writer.publish(np.full((48, 64, 3), writer.published % 256, dtype=np.uint8))

    player = threading.Thread(target=play)
    player.start()
    try:
        done = mosaic("record", "filmed", "--seconds", "0.5", "--out", "movie.gif")
    finally:
        stop.set()
        player.join()
    assert done.stdout.split() == ["movie.gif"]
    assert (mosaic.cwd / "movie.gif").read_bytes().startswith(b"GIF8")
    assert "allowed: a name ending in .mp4" in mosaic("record", "filmed", "--out", "movie.avi", code=2).stderr
    run.cancel()
    run.wait()
    assert "has ended (CANCELLED); nothing of it was recorded" in mosaic("record", "filmed", code=5).stderr
    assert not lane.exists()
