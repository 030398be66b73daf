"""Watching a run's frames: encoded once, never queued, gone with the last viewer."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from mosaic.daemon.frames import LARGEST_WINDOW, Window
from mosaic.fastlane import FastLaneWriter, stream_path
from mosaic.shepherd.launch import shared_memory_folder


class Publisher:
    """A worker's writing end: frame number n is filled with n (mod 256), and says step n."""

    def __init__(self, run_id: str, name: str, shape: tuple[int, int, int]) -> None:
        self.folder = shared_memory_folder(run_id)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.writer = FastLaneWriter(stream_path(self.folder, name), shape)
        self.shape = shape
        self.count = 0
        self._stop = threading.Event()

    def publish(self) -> None:
        self.count += 1
        pixels = np.full(self.shape, self.count % 256, np.uint8)
        self.writer.publish(pixels, episode=1, step=self.count, last_reward=0.5)

    def keep_publishing(self, interval: float = 0.005) -> None:
        def loop() -> None:
            while not self._stop.wait(interval):
                self.publish()

        self._thread = threading.Thread(target=loop, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if hasattr(self, "_thread"):
            self._thread.join()
        self.writer.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def run(shared_daemon: Any) -> Iterator[str]:
    run_id = shared_daemon.script("#!/bin/sh\nexec sleep 300\n", name="shown")
    shared_daemon.wait_state(run_id, "RUNNING")
    yield run_id


@pytest.fixture
def publisher(run: str) -> Iterator[Callable[..., Publisher]]:
    made: list[Publisher] = []

    def make(name: str, shape: tuple[int, int, int]) -> Publisher:
        made.append(Publisher(run, name, shape))
        return made[-1]

    yield make
    for one in made:
        one.close()


def watch(daemon: Any, run_id: str, stream: str, query: str = "") -> ClientConnection:
    url = json.loads(daemon.home.daemon_info.read_bytes())["url"].replace("http", "ws")
    path = f"/api/v1/runs/{run_id}/streams/{stream}/live?{query}"
    return connect(url + path, additional_headers=daemon.bearer, compression=None, proxy=None, max_size=None)


def receive(connection: ClientConnection, *, acknowledge: bool = True) -> tuple[dict[str, Any], bytes]:
    message = connection.recv(timeout=30)
    assert isinstance(message, bytes)
    length = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + length])
    if acknowledge:
        connection.send(json.dumps({"ack": header["id"]}))
    return header, message[4 + length :]


@pytest.mark.parametrize("channels", [1, 3])
def test_frames_come_with_what_was_said_with_them(shared_daemon: Any, run: str, publisher: Any, channels: int) -> None:
    lane = publisher(f"env-{channels}", (240, 320, channels))
    lane.keep_publishing()
    with watch(shared_daemon, run, f"env-{channels}") as connection:
        steps = []
        for _ in range(20):
            header, picture = receive(connection)
            pixels = simplejpeg.decode_jpeg(picture)
            assert (header["format"], pixels.shape) == ("jpeg", (240, 320, 3))
            assert abs(int(pixels[0, 0, 0]) - header["step"] % 256) <= 2
            assert (header["last_reward"], header["rolling_return"]) == (0.5, None)
            steps.append(header["step"])
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("channels", [1, 3])
def test_small_frames_are_lossless_and_raw_ones_are_raw(
    shared_daemon: Any, run: str, publisher: Any, channels: int
) -> None:
    lane = publisher(f"small-{channels}", (84, 90, channels))
    lane.publish()
    # The run stands still: both forms of the one frame there is.
    with watch(shared_daemon, run, f"small-{channels}") as pictures:
        header, picture = receive(pictures)
        assert header["format"] == "png"
        assert np.all(np.asarray(Image.open(io.BytesIO(picture))) == 1)
        with watch(shared_daemon, run, f"small-{channels}", "format=rgb") as raw:
            header, data = receive(raw)
            assert (header["format"], header["width"], header["height"], len(data)) == ("rgb", 90, 84, 84 * 90 * 3)
            assert set(data) == {1}


def test_one_frame_as_png_and_the_list_of_streams(shared_daemon: Any, run: str, publisher: Any) -> None:
    publisher("env-1", (10, 20, 3)).publish()
    publisher("grid", (30, 40, 3)).publish()
    streams = shared_daemon.api("GET", f"/runs/{run}/streams")["streams"]
    assert [(stream["name"], stream["width"], stream["height"]) for stream in streams] == [
        ("grid", 40, 30),
        ("env-1", 20, 10),
    ]
    path = f"/api/v1/runs/{run}/streams/grid/frame.png"
    status, data, headers = shared_daemon.request("GET", path, None, shared_daemon.bearer)
    assert (status, headers["Content-Type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(data)).size == (40, 30)
    for stream in ("nothing", "..grid", "a%2fb"):
        path = f"/api/v1/runs/{run}/streams/{stream}/frame.png"
        assert shared_daemon.request("GET", path, None, shared_daemon.bearer)[0] == 404


def test_who_does_not_acknowledge_gets_two_and_then_the_newest(shared_daemon: Any, run: str, publisher: Any) -> None:
    lane = publisher("env-2", (64, 64, 3))
    lane.keep_publishing()
    with watch(shared_daemon, run, "env-2") as slow, watch(shared_daemon, run, "env-2") as quick:
        receive(slow, acknowledge=False)
        held, _ = receive(slow, acknowledge=False)
        for _ in range(50):
            newest, _ = receive(quick)
        with pytest.raises(TimeoutError):
            slow.recv(timeout=0.3)
        slow.send(json.dumps({"ack": held["id"]}))
        fresh, _ = receive(slow)
        assert fresh["step"] >= newest["step"]


def test_nobody_watches_nothing_is_read(shared_daemon: Any, run: str, publisher: Any) -> None:
    lane = publisher("env-3", (64, 64, 3))
    lane.keep_publishing()
    with watch(shared_daemon, run, "env-3") as connection:
        receive(connection)
        assert lane.writer.is_watched(time.monotonic_ns())
    deadline = time.monotonic() + 30
    while lane.writer.is_watched(time.monotonic_ns()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_viewer_waits_for_a_stream_and_is_let_go_at_the_end_of_the_run(shared_daemon: Any, publisher: Any) -> None:
    run_id = shared_daemon.script("#!/bin/sh\nexec sleep 300\n")
    shared_daemon.wait_state(run_id, "RUNNING")
    with watch(shared_daemon, run_id, "late", "max_fps=50") as connection:
        lane = Publisher(run_id, "late", (32, 32, 3))
        lane.keep_publishing()
        assert receive(connection)[0]["width"] == 32
        lane.close()
        shared_daemon.api("POST", f"/runs/{run_id}/cancel")
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                connection.recv(timeout=30)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000


def test_a_run_that_asks_for_clips_gets_them(shared_daemon: Any) -> None:
    run_id = shared_daemon.script("#!/bin/sh\nexec sleep 300\n", clips={"every_episodes": 1})
    shared_daemon.wait_state(run_id, "RUNNING")
    lane = Publisher(run_id, "env-0", (64, 64, 3))
    lane.keep_publishing()
    videos = shared_daemon.home.run(run_id).videos
    wait_for(lambda: list(videos.glob("*.part.mp4")), "the recorder to begin")
    lane.close()
    shared_daemon.api("POST", f"/runs/{run_id}/cancel")
    wait_for(lambda: [path for path in videos.glob("*.mp4") if ".part." not in path.name], "a whole clip")


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 45
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@given(st.lists(st.tuples(st.sampled_from(["send", "ack", "hold"]), st.floats(0.0001, 2)), max_size=200))
def test_the_window_stays_within_bounds_and_counts_what_is_under_way(deeds: list[tuple[str, float]]) -> None:
    window, now, sent, acknowledged = Window(), 0.0, 0, 0
    for deed, passed in deeds:
        now += passed
        if deed == "send" and window.has_room:
            sent += 1
            window.send(sent, now)
        elif deed == "ack" and acknowledged < sent:
            acknowledged += 1
            window.acknowledge(acknowledged, now)
        elif deed == "hold":
            window.hold_back()
        assert 1 <= window.size <= LARGEST_WINDOW
        assert window.has_room == (sent - acknowledged < window.size)


def test_the_window_grows_on_a_quick_path_and_shrinks_on_one_that_queues() -> None:
    window, now = Window(), 0.0
    for number in range(1, 40):
        window.hold_back()
        window.send(number, now)
        now += 0.01
        window.acknowledge(number, now)
    assert window.size == LARGEST_WINDOW
    for number in range(40, 44):
        window.send(number, now)
        now += 0.5
        window.acknowledge(number, now)
    assert window.size <= 2
