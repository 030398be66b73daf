"""What passes on the lane ends up in a movie that plays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import av
import msgspec
import numpy as np
import pytest
from PIL import Image

from mosaic.fastlane import FastLaneWriter, Frame, FrameInfo, discover, stream_path
from mosaic.paths import RunFolder
from mosaic.recorder.record import Clips, Take
from mosaic.shepherd.exit_record import ExitFile, ExitRecord
from mosaic.shepherd.launch import Launch

SHAPE = (121, 161, 3)  # odd sides, which video does not like


def picture(level: int, shape: tuple[int, int, int] = SHAPE) -> np.ndarray:
    pixels = np.full(shape, 40, np.uint8)
    pixels[: shape[0] // 2] = (level, 0, 255 - level) if shape[2] == 3 else level
    return pixels


def frame(time_ms: int, level: int = 200, episode: int = 1, shape: tuple[int, int, int] = SHAPE) -> Frame:
    info = FrameInfo(1, time_ms, 0, time_ms * 1_000_000, episode, 0, 0.0, 0.0, 0.0, "", {})
    return Frame(picture(level, shape), info)


def decode(path: Path) -> list[tuple[float, np.ndarray]]:
    with av.open(str(path)) as container:
        return [(float(shown.time or 0), shown.to_ndarray(format="rgb24")) for shown in container.decode(video=0)]


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_a_movie_plays_with_the_colours_and_times_it_was_given(tmp_path: Path, suffix: str) -> None:
    take = Take(tmp_path / f"movie{suffix}")
    times = [0, 40, 80, 500, 510, 2000]
    for index, time_ms in enumerate(times):
        take.add(frame(time_ms + 77_000, level=index * 50))
    assert take.close() == [tmp_path / f"movie{suffix}"]
    shown = decode(tmp_path / f"movie{suffix}")
    assert [round(seconds * 1000) for seconds, _ in shown] == times
    for index, (_, pixels) in enumerate(shown):
        assert pixels.shape == (122, 162, 3)
        assert np.abs(pixels[20, 80].astype(int) - (index * 50, 0, 255 - index * 50)).max() < 25
        assert np.abs(pixels[100, 80].astype(int) - 40).max() < 12
    assert list(tmp_path.iterdir()) == [tmp_path / f"movie{suffix}"]


def test_a_gif_plays(tmp_path: Path) -> None:
    take = Take(tmp_path / "movie.gif", fps=10)
    for index in range(5):
        take.add(frame(index, level=index * 60, shape=(20, 30, 1)))
    take.close()
    with Image.open(tmp_path / "movie.gif") as image:
        assert image.n_frames == 5 and image.info["duration"] == 100  # type: ignore[attr-defined]
        image.seek(3)
        assert abs(image.convert("RGB").getpixel((5, 5))[0] - 180) < 12  # type: ignore[index]


def test_a_gif_has_the_very_colours_of_what_has_few(tmp_path: Path) -> None:
    take = Take(tmp_path / "movie.gif")
    art = np.arange(216, dtype=np.uint8).repeat(9).reshape(18, 36, 3)
    noise = np.random.default_rng(0).integers(0, 256, (18, 36, 3), np.uint8)
    for index, pixels in enumerate((art, noise)):
        take.add(Frame(pixels, frame(40 * index).info))
    take.close()
    with Image.open(tmp_path / "movie.gif") as image:
        assert (np.asarray(image.convert("RGB")) == art).all()
        image.seek(1)
        assert np.abs(np.asarray(image.convert("RGB")).astype(int) - noise).mean() < 40


def test_a_full_gif_ends_the_recording_and_begins_the_next_clip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mosaic.recorder.movie._GIF_MAX_BYTES", 60 * SHAPE[0] * SHAPE[1])
    take = Take(tmp_path / "movie.gif")
    while not take.is_full:
        take.add(frame(40 * take.frames))
    take.close()
    assert take.frames == 60
    clips = Clips(1, tmp_path / "clips", "env-0", ".gif")
    for tick in range(100):
        clips.add(frame(40 * tick))
    clips.close()
    with Image.open(clips.written[0]) as image:
        assert image.n_frames <= 60 and len(clips.written) == 1  # type: ignore[attr-defined]


def test_another_size_goes_on_in_another_file(tmp_path: Path) -> None:
    take = Take(tmp_path / "movie.mp4")
    for index in range(3):
        take.add(frame(index * 40))
    take.add(frame(200, shape=(60, 60, 3)))
    assert [path.name for path in take.close()] == ["movie.mp4", "movie-2.mp4"]
    assert [len(decode(path)) for path in take.files] == [3, 1]
    assert decode(take.files[1])[0][1].shape == (240, 240, 3), "a small picture is blown up"


def test_clips_begin_with_every_nth_episode_and_end_with_it(tmp_path: Path) -> None:
    clips = Clips(10, tmp_path, "env-0")
    for tick in range(400):  # 40 ms and a third of an episode each: episodes of 0.12 s
        clips.add(frame(tick * 40, episode=1 + tick // 3))
    clips.close()
    episodes = [int(path.stem.rsplit("-", 1)[1]) for path in clips.written]
    assert episodes[0] == 1 and len(episodes) >= 5
    for earlier, later in pairwise(episodes):
        assert later % 10 == 0 or later - earlier > 10
    lengths = [decode(path)[-1][0] for path in clips.written[:-1]]
    assert all(1.9 <= seconds <= 2.2 for seconds in lengths), "at least two seconds, then up to the episode's end"


def test_a_long_episode_is_one_clip_and_a_new_attempt_begins_anew(tmp_path: Path) -> None:
    clips = Clips(2, tmp_path, "env-0")
    for tick in range(100):
        clips.add(frame(tick * 50, episode=4))
    assert clips.is_recording() and not clips.written
    clips.add(frame(5050, episode=5))
    assert not clips.is_recording()
    clips.add(frame(5100, episode=1))
    assert clips.is_recording()
    clips.close()
    assert [path.stem[-2:] for path in clips.written] == ["04", "01"]


@contextmanager
def publishing(folder: Path, name: str = "env-0") -> Iterator[FastLaneWriter]:
    """A writer at about 100 frames a second, ten frames an episode, until left."""
    writer = FastLaneWriter(stream_path(folder, name), SHAPE)
    stop = threading.Event()

    def publish() -> None:
        number = 0
        while not stop.wait(0.01):
            writer.publish(picture(number % 256), episode=1 + number // 10, step=number)
            number += 1

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield writer
    finally:
        stop.set()
        thread.join()
        writer.close()


def record(run: Path, lane: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mosaic.recorder", str(run), "--lane", str(lane), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_recording_ends_with_the_run(tmp_path: Path, lane_dir: Path, until) -> None:
    recorder = record(tmp_path, lane_dir)
    with publishing(lane_dir) as writer:
        until(lambda: list(tmp_path.glob("videos/*.part.mp4")))
        assert writer.is_watched(time.monotonic_ns())
        seen = writer.published
        until(lambda: writer.published > seen + 50)
    stream_path(lane_dir, "env-0").unlink()  # as the shepherd does
    out, err = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, err
    (path,) = (tmp_path / "videos").iterdir()
    assert out.strip() == str(path) and path.suffix == ".mp4"
    assert len(decode(path)) > 5


def test_a_recorder_told_to_stop_leaves_a_whole_file_and_a_killed_one_a_playable_one(
    tmp_path: Path, lane_dir: Path, until
) -> None:
    with publishing(lane_dir):
        recorders = [record(tmp_path, lane_dir, "--output", str(tmp_path / f"{number}.mp4")) for number in (0, 1)]
        for number in (0, 1):
            part = tmp_path / f"{number}.part.mp4"
            until(lambda part=part: part.exists() and part.read_bytes().count(b"moof") > 1)
        recorders[0].send_signal(signal.SIGTERM)
        recorders[1].send_signal(signal.SIGKILL)
        for recorder in recorders:
            recorder.communicate(timeout=60)
    assert recorders[0].returncode == 0
    assert len(decode(tmp_path / "0.mp4")) > 5
    assert len(decode(tmp_path / "1.part.mp4")) > 5


def test_clips_are_taken_from_a_running_lane(tmp_path: Path, lane_dir: Path, until) -> None:
    recorder = record(tmp_path, lane_dir, "--every-episodes", "3", "--format", "webm")
    with publishing(lane_dir, "grid"), publishing(lane_dir):
        until(lambda: len(list(tmp_path.glob("videos/grid-episode-????????.webm"))) >= 2)
        recorder.send_signal(signal.SIGINT)
        out, err = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, err
    clips = sorted((tmp_path / "videos").iterdir())
    assert out.split() == [str(path) for path in clips] and len(clips) >= 2
    assert decode(clips[0])[-1][0] > 1.5


def test_clips_are_waited_for_until_the_run_has_ended(tmp_path: Path, lane_dir: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.launch.write_bytes(msgspec.json.encode(Launch(run_id="r", attempt=1, argv=["true"])))
    recorder = record(tmp_path, lane_dir, "--every-episodes", "3")
    end = ExitRecord(
        run_id="r", attempt=1, outcome="failed", reason="error", message="", started=0.0, ended=0.0, last_seq=0
    )
    ExitFile(folder).write(end)
    _, err = recorder.communicate(timeout=60)
    assert recorder.returncode == 1 and "the run shows no frames" in err


def test_a_run_without_frames_is_said_in_one_line(tmp_path: Path, lane_dir: Path) -> None:
    recorder = record(tmp_path, lane_dir, "--wait", "0.1")
    out, err = recorder.communicate(timeout=60)
    assert recorder.returncode == 1 and out == "" and err.count("\n") == 1 and "no stream" in err
    with publishing(lane_dir):
        recorder = record(tmp_path, lane_dir, "--output", "/proc/nowhere.mp4")
        out, err = recorder.communicate(timeout=60)
    assert (recorder.returncode, out) == (1, "") and err.startswith("/proc/nowhere.mp4: cannot be written: No such")
    stream_path(lane_dir, "env-0").unlink()
    recorder = record(tmp_path, lane_dir, "--output", "movie.avi")
    assert recorder.wait(60) == 2
    assert "allowed: a name ending in .mp4, .webm, .gif" in recorder.communicate()[1]
    assert discover(lane_dir) == [] and not os.listdir(tmp_path)  # noqa: PTH208
