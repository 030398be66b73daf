"""Whoever watches a training sees its environments, and learns how they do."""

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from mosaic.fastlane import FastLaneReader, Frame, discover

DEADLINE_S = 120.0


def first_frame(process: subprocess.Popen[bytes], lane: Path, stream: str) -> Frame:
    """Watch this stream until there is a frame that knows how earlier episodes went and how fast it goes."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        if stream not in names(lane):
            time.sleep(0.05)
            continue
        (path,) = (found.path for found in discover(lane) if found.name == stream)
        with FastLaneReader(path) as reader:
            while time.monotonic() < deadline and process.poll() is None:
                frame = reader.wait(1.0)
                if frame is not None and math.isfinite(frame.info.rolling_return) and frame.info.step_rate_hz > 0:
                    return frame
    raise AssertionError(f"no frame came; the training ended with {process.poll()}; streams: {names(lane)}")


def names(lane: Path) -> list[str]:
    return [stream.name for stream in discover(lane)] if lane.exists() else []


EACH = ["env-0", "env-1", "env-2", "env-3"]


@pytest.mark.parametrize(
    ("mode", "stream", "all_streams"), [("single", "env-2", ["env-2"]), ("grid", "grid", [*EACH, "grid"])]
)
def test_a_training_that_is_watched(mode: str, stream: str, all_streams: list[str], tmp_path: Path) -> None:
    extras = {
        "fastlane_video_mode": mode,
        "fastlane_slot": 2,
        "fastlane_grid_limit": 4,
        "algo_params": {"num_envs": 4, "num_steps": 32},
    }
    path, lane = tmp_path / "config.json", tmp_path / "lane"
    config = {"algo": "ppo_upstream", "env_id": "CartPole-v1", "total_timesteps": 10**7, "extras": extras}
    path.write_bytes(msgspec.json.encode(config))
    mine = {name: value for name, value in os.environ.items() if not name.startswith("MOSAIC_")}
    variables = {"MOSAIC_FASTLANE_DIR": str(lane), "CLEANRL_FASTLANE_MAX_DIM": "120", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "cleanrl_worker.cli", "--config", str(path)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=tmp_path, env=mine | variables, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        frame = first_frame(process, lane, stream)
        assert set(names(lane)) <= set(all_streams)
    finally:
        process.terminate()
        process.wait()
    height, width, depth = frame.pixels.shape
    assert max(height, width) <= 120 * (2 if mode == "grid" else 1) and depth == 3
    assert frame.pixels.std() > 1, "there is nothing on it"
    assert frame.info.last_reward == 1.0 and 1 <= frame.info.rolling_return <= 500
