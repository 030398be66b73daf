"""Pictures: normalised, shrunk and tiled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.fastlane import FastLaneError
from mosaic.fastlane.frames import (
    BACKGROUND,
    Shrinker,
    Tiling,
    grid_layout,
    normalise,
    pictures_in,
    shrink_factor,
    shrunk_shape,
)

sides = st.integers(1, 40)


def random_picture(height: int, width: int, channels: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


@settings(deadline=None)
@given(sides, sides, st.sampled_from([1, 3]), st.integers(1, 9))
def test_shrinking_takes_the_rounded_mean_of_each_square(height: int, width: int, channels: int, factor: int) -> None:
    picture = random_picture(height, width, channels)
    out = np.empty(shrunk_shape(picture.shape, factor), np.uint8)
    Shrinker().shrink(picture, factor, out)
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            square = picture[row * factor : (row + 1) * factor, column * factor : (column + 1) * factor]
            mean = square.reshape(-1, channels).mean(axis=0)
            assert (np.abs(out[row, column] - mean) <= 0.51).all()


def test_a_shrinker_keeps_its_buffers_and_follows_other_sizes() -> None:
    shrinker = Shrinker()
    for height, width, factor in ((40, 60, 2), (40, 60, 2), (60, 40, 3), (400, 300, 20)):
        out = np.empty(shrunk_shape((height, width, 3), factor), np.uint8)
        shrinker.shrink(np.full((height, width, 3), 255, np.uint8), factor, out)
        assert (out == 255).all()


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 1500))
def test_the_factor_is_the_smallest_that_fits(height: int, width: int, limit: int) -> None:
    factor = shrink_factor(height, width, limit)
    assert max(height, width) / factor <= limit
    assert factor == 1 or max(height, width) / (factor - 1) > limit
    assert shrink_factor(height, width, 0) == 1


@settings(deadline=None)
@given(st.integers(1, 64), sides, sides)
def test_a_grid_has_room_for_all_and_no_empty_row(count: int, height: int, width: int) -> None:
    rows, columns = grid_layout(count, height, width)
    assert (rows - 1) * columns < count <= rows * columns


def test_grids_of_squares_are_nearly_square() -> None:
    shapes = {count: grid_layout(count, 84, 84) for count in (1, 2, 3, 4, 6, 9, 12, 16)}
    assert {count: max(form) - min(form) for count, form in shapes.items()} == {
        1: 0, 2: 1, 3: 0, 4: 0, 6: 1, 9: 0, 12: 1, 16: 0,
    }  # fmt: skip
    assert grid_layout(4, 400, 100) == (1, 4), "tall cells stand side by side"


@settings(deadline=None)
@given(st.lists(st.tuples(sides, sides, st.sampled_from([1, 3])), min_size=1, max_size=9), st.sampled_from([0, 16, 50]))
def test_tiles_are_whole_in_their_places_and_nothing_else_is_drawn(
    shapes: list[tuple[int, int, int]], limit: int
) -> None:
    tiling = Tiling(shapes, limit)
    out = np.full(tiling.shape, 99, np.uint8)  # an old frame
    tiling.draw([np.full(shape, 200, np.uint8) for shape in shapes], out)
    assert set(np.unique(out)) <= {BACKGROUND, 200}
    cells = [shrunk_shape(shape, tiling.factor) for shape in shapes]
    assert (out[:, :, 0] == 200).sum() == sum(cell[0] * cell[1] for cell in cells)
    assert tiling.factor > 1 or tiling.shape[2] == max(shape[2] for shape in shapes)
    assert not limit or max(tiling.shape[:2]) <= max(limit, 3 * tiling.rows, 3 * tiling.columns)


def test_unlike_frames_keep_their_pixels_side_by_side() -> None:
    left, right = random_picture(10, 20, 3, 1), random_picture(6, 8, 1, 2)
    tiling = Tiling([left.shape, right.shape])
    out = np.empty(tiling.shape, np.uint8)
    tiling.draw([left, right], out)
    assert (tiling.rows, tiling.columns, out.shape) == (2, 1, (22, 20, 3))
    assert np.array_equal(out[:10], left)
    assert np.array_equal(out[14:20, 6:14], right.repeat(3, axis=2))


def test_usual_pictures_are_taken_and_others_refused() -> None:
    assert normalise(np.zeros((4, 5), np.uint8)).shape == (4, 5, 1)
    assert normalise(np.zeros((4, 5, 4), np.uint8)).shape == (4, 5, 3)
    assert normalise(np.ones((4, 5), bool)).max() == 255
    plain = random_picture(4, 5, 3)
    assert normalise(plain) is plain
    for wrong in (
        np.zeros((4, 5, 3)),
        np.zeros((4, 5, 2), np.uint8),
        np.zeros((0, 5, 3), np.uint8),
        "ansi",
        [plain] * 2,
    ):
        with pytest.raises(FastLaneError, match="allowed: uint8"):
            normalise(wrong)


@pytest.mark.parametrize(
    ("shape", "picture"),
    [
        ((8, 84, 84, 3), (84, 84, 3)),
        ((8, 84, 84, 1), (84, 84, 1)),
        ((8, 4, 84, 84), (84, 84, 1)),
        ((8, 3, 64, 64), (64, 64, 3)),
        ((8, 64, 64), (64, 64, 1)),
    ],
)
def test_pictures_are_found_in_batches_of_observations(shape: tuple[int, ...], picture: tuple[int, ...]) -> None:
    batch = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    found = pictures_in({"vector": np.zeros((8, 3)), "rgb": batch})
    assert len(found) == 8 and found[0].shape == picture
    if shape[1] == 4:
        assert np.array_equal(found[2][:, :, 0], batch[2, -1]), "the newest of a stack"
    assert pictures_in(np.zeros((8, 4), np.float32)) == [] and pictures_in(None) == []
