"""One ring, one writer, its readers: what goes in comes out, and nothing else ever does."""

from __future__ import annotations

import math
import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest

from mosaic.fastlane import (
    FastLaneError,
    FastLaneReader,
    FastLaneWriter,
    StreamTaken,
    agent_stream,
    discover,
    layout,
    stream_path,
)

SHAPE = (12, 10, 3)


def picture(value: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.full(shape, value, np.uint8)


def layouts() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    plain = rng.integers(0, 256, SHAPE, np.uint8)
    wide = rng.integers(0, 256, (24, 30, 4), np.uint8)
    return {
        "contiguous": plain,
        "fortran": np.asfortranarray(plain),
        "strided": wide[::2, ::3, :3],
        "flipped": plain[::-1, ::-1],
        "transposed": rng.integers(0, 256, (10, 12, 3), np.uint8).transpose(1, 0, 2),
        "read-only": np.frombuffer(plain.tobytes(), np.uint8).reshape(SHAPE),
        "from another process": pickle.loads(pickle.dumps(plain)),  # its dtype is equal to np.uint8's, not the same
    }


@pytest.mark.parametrize("name", layouts())
def test_frames_of_any_memory_layout_come_out_as_they_went_in(lane_dir: Path, name: str) -> None:
    frame = layouts()[name]
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer:
        writer.publish(frame)
        with FastLaneReader(writer.path) as reader:
            got = reader.latest()
    assert got is not None
    assert np.array_equal(got.pixels, frame)
    assert got.pixels.flags.c_contiguous


def test_every_slot_carries_its_own_metadata(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer, FastLaneReader(writer.path) as reader:
        for number in range(1, 20):
            extra = b'{"lives": %d}' % number if number % 2 else b""
            writer.publish(picture(number), number * 2, -number, 0.5, float(number), 7.5, "zoë".encode(), extra)
            frame = reader.latest()
            assert frame is not None
            info = frame.info
            assert (info.number, info.episode, info.step, info.last_reward) == (number, number * 2, -number, 0.5)
            assert (info.rolling_return, info.step_rate_hz, info.agent) == (float(number), 7.5, "zoë")
            assert info.extra == ({"lives": number} if number % 2 else {})
            assert frame.pixels[0, 0, 0] == number
        assert reader.latest() is None, "nothing new"


def test_both_times_are_those_of_publishing_whenever_it_is_read(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer, FastLaneReader(writer.path) as reader:
        before = time.time_ns(), time.monotonic_ns()
        writer.publish(picture(1))
        after = time.time_ns(), time.monotonic_ns()
        frame, view = reader.latest(), reader.view()
    assert frame is not None and view is not None
    assert before[0] <= frame.info.wall_ns == view.info.wall_ns <= after[0]
    assert before[1] <= frame.info.monotonic_ns == view.info.monotonic_ns <= after[1]


def test_numbers_nobody_measured_are_nan(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer, FastLaneReader(writer.path) as reader:
        writer.publish(picture(1))
        frame = reader.latest()
    assert frame is not None and math.isnan(frame.info.rolling_return)


def test_a_reader_takes_the_latest_and_misses_the_rest(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer, FastLaneReader(writer.path) as reader:
        for number in range(1, 100):
            writer.publish(picture(number))
        frame = reader.latest()
    assert frame is not None and frame.info.number == 99 and frame.pixels[3, 3, 1] == 99


def test_one_grey_channel_can_be_had_as_rgb(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), (4, 5, 1)) as writer, FastLaneReader(writer.path) as reader:
        writer.publish(picture(9, (4, 5, 1)))
        frame = reader.latest()
    assert frame is not None
    assert frame.rgb().shape == (4, 5, 3) and frame.rgb().flags.c_contiguous and (frame.rgb() == 9).all()


def test_drawing_straight_into_the_slot(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer, FastLaneReader(writer.path) as reader:
        with writer.frame_buffer(step=5, agent=b"a") as pixels:
            pixels[...] = 77
            assert reader.latest() is None, "not before it is whole"
        frame = reader.latest()
        assert frame is not None and (frame.pixels == 77).all() and frame.info.step == 5
        with pytest.raises(ZeroDivisionError), writer.frame_buffer() as pixels:
            pixels[0] = 1
            raise ZeroDivisionError
        assert reader.latest() is None
        writer.publish(picture(78))
        frame = reader.latest()
        assert frame is not None and frame.info.number == 2 and (frame.pixels == 78).all()


def test_a_view_knows_when_the_writer_has_been_over_it(lane_dir: Path) -> None:
    with (
        FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE, slots=3) as writer,
        FastLaneReader(writer.path) as reader,
    ):
        assert reader.view() is None
        writer.publish(picture(1))
        view = reader.view()
        assert view is not None and view.pixels[0, 0, 0] == 1 and view.is_valid()
        with pytest.raises(ValueError, match="read-only"):
            view.pixels[0, 0, 0] = 2
        writer.publish(picture(2))
        writer.publish(picture(3))
        assert view.is_valid() and view.pixels[0, 0, 0] == 1
        writer.publish(picture(4))
        assert not view.is_valid()


def test_a_new_resolution_is_a_new_generation_and_readers_follow(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer, FastLaneReader(writer.path) as reader:
        writer.publish(picture(1))
        first = reader.latest()
        writer.reopen((30, 40, 1))
        writer.publish(picture(2, (30, 40, 1)))
        second = reader.latest()
    assert first is not None and second is not None
    assert (first.info.generation, second.info.generation) == (1, 2)
    assert second.pixels.shape == (30, 40, 1) and (second.pixels == 2).all()


def test_a_frame_that_does_not_fit_is_refused_in_one_line(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer:
        for wrong in (picture(1, (12, 10, 1)), picture(1).astype(np.float32), picture(1, (12, 10))):
            with pytest.raises(FastLaneError, match=r"allowed: uint8 \(12, 10, 3\)"):
                writer.publish(wrong)
        with pytest.raises(FastLaneError, match="at most 896"):
            writer.publish(picture(1), extra=b"x" * 897)
        assert writer.published == 0
    for shape in ((0, 4, 3), (4, 4, 2), (20_000, 20_000, 3)):
        with pytest.raises(FastLaneError, match="allowed"):
            FastLaneWriter(stream_path(lane_dir, "other"), shape)
    assert [stream.name for stream in discover(lane_dir)] == ["env-0"]


def test_a_stream_belongs_to_one_living_writer(lane_dir: Path) -> None:
    path = stream_path(lane_dir, "env-0")
    first = FastLaneWriter(path, SHAPE)
    with pytest.raises(StreamTaken, match="another living process"):
        FastLaneWriter(path, SHAPE)
    first.publish(picture(1))
    reader = FastLaneReader(path)
    assert reader.has_writer()
    first.close()
    assert not reader.has_writer()
    kept = reader.latest()
    assert kept is not None and kept.pixels[0, 0, 0] == 1, "the last frame outlives its writer"
    with FastLaneWriter(path, SHAPE) as second:
        assert second.generation == 2


def test_a_reader_attaches_before_there_is_a_stream_and_survives_its_removal(lane_dir: Path, until) -> None:
    path = stream_path(lane_dir, "env-0")
    reader = FastLaneReader(path)
    assert reader.latest() is None and reader.header is None and reader.is_gone()
    with FastLaneWriter(path, SHAPE) as writer:
        writer.publish(picture(5))
        frame = reader.wait(10)
        assert frame is not None and frame.pixels[0, 0, 0] == 5 and not reader.is_gone()
    path.unlink()
    assert reader.is_gone() and reader.latest() is None
    view = reader.view()
    assert view is not None and view.pixels[0, 0, 0] == 5
    with FastLaneWriter(path, SHAPE) as writer:
        writer.publish(picture(6))
        frame = reader.wait(10)
        assert frame is not None and frame.pixels[0, 0, 0] == 6


def test_reading_makes_the_writer_see_that_it_is_watched(lane_dir: Path) -> None:
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer:
        assert writer.heartbeat_ns == 0
        FastLaneReader(writer.path, watch=False).latest()
        assert not writer.is_watched(time.monotonic_ns())
        FastLaneReader(writer.path).latest()
        now = time.monotonic_ns()
        assert writer.is_watched(now)
        assert not writer.is_watched(now + layout.WATCHED_NS)


@pytest.mark.parametrize(
    "damage",
    [b"", b"short", b"\0" * 8192, b"MOSAICFL" + b"\xff" * 8192, b"MOSAICFL" + b"\x01\0\0\0\0\x10\0\0" + b"\xff" * 8192],
)
def test_what_is_no_ring_is_never_mapped(lane_dir: Path, damage: bytes) -> None:
    path = stream_path(lane_dir, "env-0")
    path.write_bytes(damage)
    assert FastLaneReader(path).latest() is None
    assert discover(lane_dir) == []
    with FastLaneWriter(path, SHAPE) as writer:  # and is replaced by one
        writer.publish(picture(3))
        assert FastLaneReader(path).latest() is not None


def test_a_cut_ring_is_refused_instead_of_faulting(lane_dir: Path) -> None:
    path = stream_path(lane_dir, "env-0")
    with FastLaneWriter(path, SHAPE) as writer:
        writer.publish(picture(1))
    os.truncate(path, layout.HEADER_BYTES + 10)
    assert FastLaneReader(path).latest() is None
    assert discover(lane_dir) == []


def test_streams_are_listed_with_grid_first_and_numbers_in_order(lane_dir: Path) -> None:
    names = ["env-10", "env-2", "grid", agent_stream("player/1 é")]
    writers = [FastLaneWriter(stream_path(lane_dir, name), SHAPE) for name in names]
    writers[0].publish(picture(1))
    (lane_dir / "notes.txt").write_text("not a stream")
    found = discover(lane_dir)
    assert [stream.name for stream in found] == ["grid", "agent-player_1__", "env-2", "env-10"]
    assert [stream.frames for stream in found] == [0, 0, 0, 1]
    assert all(stream.has_writer and (stream.height, stream.width, stream.channels) == SHAPE for stream in found)
    assert discover(lane_dir / "nowhere") == []
    for name in ("", "../x", "a/b", ".hidden", "x" * 65):
        with pytest.raises(FastLaneError, match="stream name"):
            stream_path(lane_dir, name)


def test_what_a_writer_left_that_was_killed_while_opening_is_cleared_by_the_next(lane_dir: Path) -> None:
    (lane_dir / ".env-0.ring.tmp").write_bytes(b"half made")
    with FastLaneWriter(stream_path(lane_dir, "env-0"), SHAPE) as writer:
        writer.publish(picture(1))
        assert [path.name for path in lane_dir.iterdir()] == ["env-0.ring"]


def test_a_full_memory_disk_is_an_error_at_opening_and_not_a_fault_in_the_copy(on_a_small_disk) -> None:
    code = """
import sys, errno, numpy as np
from pathlib import Path
from mosaic.fastlane import FastLaneWriter, stream_path
folder = Path(sys.argv[1])
small = FastLaneWriter(stream_path(folder, "small"), (10, 10, 3))
try:
    FastLaneWriter(stream_path(folder, "large"), (480, 640, 3))
except OSError as error:
    assert error.errno == errno.ENOSPC, error
else:
    raise SystemExit("there was room")
small.publish(np.zeros((10, 10, 3), np.uint8))
assert sorted(path.name for path in folder.iterdir()) == ["small.ring"], "leaves nothing half-made behind"
print("held")
"""
    assert on_a_small_disk(code) == "held\n"


def test_a_memory_disk_that_is_full_in_the_middle_of_a_run_ends_the_lane_with_one_line(on_a_small_disk) -> None:
    code = """
import logging, sys, numpy as np
from pathlib import Path
from mosaic.fastlane import FastLaneReader, Lane, Metrics, Settings, discover, stream_path
logging.basicConfig(stream=sys.stdout, format="%(message)s")
folder = Path(sys.argv[1])
lane = Lane(Settings(folder), ("env-0",))
for side in (10, 20, 500, 10, 20):
    lane.emit(lambda: np.full((side, side, 3), side % 100, np.uint8), Metrics)
print(lane.off, [(stream.height, stream.has_writer) for stream in discover(folder)])
print(FastLaneReader(stream_path(folder, "env-0")).latest().pixels.max())
"""
    assert on_a_small_disk(code).splitlines() == [
        "fastlane env-0 off: OSError: [Errno 28] No space left on device",
        "True [(20, False)]",
        "20",
    ]
