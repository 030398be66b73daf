"""No reader ever gets a frame that was not written whole, nor one frame's pixels with another's numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mosaic.fastlane import FastLaneReader, FastLaneWriter, stream_path

WRITER = """
import sys, numpy as np
from pathlib import Path
from mosaic.fastlane import FastLaneWriter
shape = tuple(map(int, sys.argv[2].split("x")))
writer = FastLaneWriter(Path(sys.argv[1]), shape)
print("open", flush=True)
picture = np.empty(shape, np.uint8)
number = 0
while number < int(sys.argv[3]):
    number += 1
    picture.fill(number * 37 % 251)
    writer.publish(picture, writer.generation, number, float(number), -number, number / 2, b"%d" % number)
"""


def start_writer(path: Path, shape: tuple[int, ...], frames: int) -> subprocess.Popen[bytes]:
    arguments = [str(path), "x".join(map(str, shape)), str(frames)]
    process = subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"open\n"
    return process


def check(frame) -> int:
    info = frame.info
    number = info.number
    assert (frame.pixels == number * 37 % 251).all(), f"torn frame {number}"
    told = (info.episode, info.step, info.last_reward, info.rolling_return, info.step_rate_hz, info.agent)
    assert told == (info.generation, number, float(number), -float(number), number / 2, str(number))
    return number


@pytest.mark.parametrize("shape", [(84, 84, 3), (480, 640, 3), (7, 5, 1)])
def test_a_writer_at_full_speed_never_shows_a_torn_frame(lane_dir: Path, shape: tuple[int, ...]) -> None:
    frames = 3_000 if shape[0] > 100 else 100_000
    writer = start_writer(stream_path(lane_dir, "env-0"), shape, frames)
    reader = FastLaneReader(stream_path(lane_dir, "env-0"))
    last = read = 0
    while last < frames:
        frame = reader.latest()
        if frame is not None:
            number = check(frame)
            assert number > last
            last, read = number, read + 1
        view = reader.view()
        if view is not None:
            whole = bool((view.pixels == view.info.number * 37 % 251).all())
            assert whole or not view.is_valid()
            last = max(last, view.info.number) if view.is_valid() else last
    assert writer.wait(30) == 0
    assert read > 10


def test_writers_killed_anywhere_leave_readers_unharmed_and_a_successor_takes_over(lane_dir: Path) -> None:
    path = stream_path(lane_dir, "env-0")
    shape = (240, 320, 3)  # a copy long enough for most kills to fall into one
    reader = FastLaneReader(path)
    for generation in range(1, 9):
        writer = start_writer(path, shape, 10**9)
        deadline = time.monotonic() + 30
        seen = 0
        while seen < 20:
            assert time.monotonic() < deadline
            frame = reader.latest()
            if frame is not None and frame.info.generation == generation:
                seen += 1
                check(frame)
        writer.send_signal(signal.SIGKILL)
        writer.wait(10)
        frame = reader.latest() or reader.latest()
        if frame is not None:
            check(frame)
        late = FastLaneReader(path)
        frame = late.latest()
        assert frame is not None and frame.info.generation == generation
        check(frame)
        assert not late.has_writer()
        late.close()


def test_a_forked_child_does_not_write_into_its_parents_ring(lane_dir: Path, until: Callable[..., None]) -> None:
    code = """
import os, sys, numpy as np
from pathlib import Path
from mosaic.fastlane import Lane, Metrics, Settings, discover
folder = Path(sys.argv[1])
lane = Lane(Settings(folder, mode="grid"), ("env-0", "env-1"))
lane.emit(lambda: np.full((4, 4, 3), 1, np.uint8), Metrics)
child = os.fork()
if child == 0:
    lane.emit(lambda: np.full((4, 4, 3), 2, np.uint8), Metrics)
    lane.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
lane.emit(lambda: np.full((4, 4, 3), 3, np.uint8), Metrics)
print([(stream.name, stream.frames, stream.has_writer) for stream in discover(folder)])
"""
    done = subprocess.run([sys.executable, "-c", code, str(lane_dir)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('env-0', 2, True), ('env-1', 1, False)]"


class RingModel(RuleBasedStateMachine):
    """Any order of publishing, breaking off, dying, reopening and reading, against what must be seen."""

    @initialize(slots=st.integers(2, 5))
    def begin(self, slots: int) -> None:
        self.folder = Path(f"/dev/shm/mosaic-test-model-{os.getpid()}-{id(self)}")
        self.folder.mkdir()
        self.path = stream_path(self.folder, "env-0")
        self.slots = slots
        self.writer = FastLaneWriter(self.path, (3, 4, 3), slots=slots)
        self.reader = FastLaneReader(self.path)
        self.published: list[int] = []  # of the current generation
        self.generation = 1
        self.value = 0
        self.seen = 0
        self.views: list[tuple[int, int, object]] = []

    def next_value(self) -> int:
        self.value += 1
        return self.value % 256

    @rule()
    def publish(self) -> None:
        value = self.next_value()
        self.writer.publish(np.full(self.writer.shape, value, np.uint8), step=value, extra=b'{"v": %d}' % value)
        self.published.append(value)

    @rule()
    def draw(self) -> None:
        value = self.next_value()
        with self.writer.frame_buffer(step=value, extra=b'{"v": %d}' % value) as pixels:
            pixels[...] = value
        self.published.append(value)

    @rule(rows=st.integers(0, 3))
    def break_off(self, rows: int) -> None:
        with pytest.raises(KeyboardInterrupt), self.writer.frame_buffer() as pixels:
            pixels[:rows] = self.next_value()
            raise KeyboardInterrupt

    @rule(rows=st.integers(0, 3), height=st.integers(1, 6))
    def die_in_the_middle(self, rows: int, height: int) -> None:
        self.writer.frame_buffer().__enter__()[:rows] = self.next_value()
        self.writer._words.release()  # nothing more can be written by this one
        self.writer._turns.clear()
        self.writer._memory = None  # type: ignore[assignment]
        os.close(self.writer._descriptor)
        self.writer._descriptor = -1
        self.views.clear()
        self.writer = FastLaneWriter(self.path, (height, 4, 3), slots=self.slots)
        self.new_generation()

    @rule(height=st.integers(1, 6), channels=st.sampled_from([1, 3]))
    def reopen(self, height: int, channels: int) -> None:
        self.writer.reopen((height, 4, channels))
        self.new_generation()

    def new_generation(self) -> None:
        self.generation += 1
        self.published = []
        self.seen = 0

    @rule()
    def read(self) -> None:
        self.reader._looked_ns = 0  # as if a quarter of a second had passed
        frame = self.reader.latest()
        if self.seen == len(self.published):
            assert frame is None
            return
        assert frame is not None
        self.seen = len(self.published)
        value = self.published[-1]
        assert (frame.info.generation, frame.info.number) == (self.generation, len(self.published))
        assert frame.pixels.shape == self.writer.shape and (frame.pixels == value).all()
        assert (frame.info.step, frame.info.extra) == (value, {"v": value})

    @precondition(lambda self: self.published)
    @rule()
    def look(self) -> None:
        self.reader._looked_ns = 0
        view = self.reader.view()
        assert view is not None
        self.seen = len(self.published)
        self.views.append((self.generation, self.published[-1], view))

    @rule()
    def attach_another(self) -> None:
        with FastLaneReader(self.path) as late:
            frame = late.latest()
            assert (frame is None) == (not self.published)
            if frame is not None:
                assert (frame.pixels == self.published[-1]).all()

    @invariant()
    def views_are_right_or_say_so(self) -> None:
        for _, value, view in getattr(self, "views", ()):
            assert not view.is_valid() or (view.pixels == value).all()  # type: ignore[attr-defined]

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.views.clear()
            self.reader.close()
            self.writer.close()
            for path in self.folder.iterdir():
                path.unlink()
            self.folder.rmdir()


TestRingModel = RingModel.TestCase
TestRingModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
