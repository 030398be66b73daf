"""Which machine needs which fence, and that a fence survives what can happen to it."""

from __future__ import annotations

import threading

import pytest

from mosaic.fastlane import FastLaneReader, FastLaneWriter, barriers, stream_path


@pytest.mark.parametrize("machine", ["x86_64", "AMD64"])
def test_strongly_ordered_machines_fence_in_front_of_the_copy_only(machine: str) -> None:
    before, after = barriers.writer_fences(machine)
    assert before is not None and after is None
    assert barriers.reader_fence(machine) is None


@pytest.mark.parametrize("machine", ["aarch64", "arm64", "riscv64", "ppc64le", "something new"])
def test_all_others_fence_everywhere(machine: str) -> None:
    before, after = barriers.writer_fences(machine)
    assert before is not None and after is not None
    assert barriers.reader_fence(machine) is not None


def test_a_fence_survives_an_interrupt_between_its_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    locks = []
    real = threading.Lock

    def remember() -> threading.Lock:
        locks.append(real())
        return locks[-1]  # type: ignore[no-any-return]

    monkeypatch.setattr(barriers.threading, "Lock", remember)
    fence = barriers.make_fence()
    fence()
    locks[0].release()  # where a KeyboardInterrupt would leave it
    fence()
    fence()
    assert locks[0].locked()


def test_the_ring_works_with_the_fences_of_other_machines(lane_dir, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.setattr(barriers.platform, "machine", lambda: "aarch64")
    with FastLaneWriter(stream_path(lane_dir, "env-0"), (8, 8, 3)) as writer, FastLaneReader(writer.path) as reader:
        for number in range(1, 50):
            writer.publish(np.full((8, 8, 3), number, np.uint8))
            with writer.frame_buffer() as pixels:
                pixels[...] = number + 100
            frame = reader.latest()
            assert frame is not None and (frame.pixels == number + 100).all() and frame.info.number == 2 * number
            view = reader.view()
            assert view is not None and view.is_valid()
