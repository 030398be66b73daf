"""Codecs: every observation becomes what the network's space says, whatever it looks like."""

from __future__ import annotations

import gymnasium.spaces as spaces
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_worker.observations import codec_for, shrink


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 80))
def test_vectors_are_flat_and_padded_with_zeros(shape: list[int], padded: int) -> None:
    space = spaces.Box(-2, 2, tuple(shape), np.float64)
    codec = codec_for(space, padded_size=padded)
    seen = space.sample()
    encoded = codec.encode(seen)
    assert encoded.shape == codec.encoded_shape == (max(padded, seen.size),)
    assert np.array_equal(encoded[: seen.size], seen.reshape(-1).astype(np.float32))
    assert not encoded[seen.size :].any()


@settings(max_examples=30, deadline=None)
@given(st.integers(40, 130), st.integers(40, 130), st.integers(16, 96), st.sampled_from([1, 3]))
def test_images_become_small_gray_and_keep_their_brightness(height: int, width: int, side: int, channels: int) -> None:
    space = spaces.Box(0, 255, (height, width, channels), np.uint8)
    codec = codec_for(space, image_size=side)
    assert codec.kind == "image"
    even = np.full(space.shape, 51, np.uint8)
    assert codec.encode(even) == pytest.approx(np.full((side, side, 1), 0.2, np.float32), abs=1e-3)
    assert codec.encoded_space.contains(codec.encode(space.sample()))


def test_shrinking_is_the_mean_of_each_area() -> None:
    square = np.random.default_rng(0).integers(0, 256, (84, 84, 1)).astype(np.uint8)
    expected = square[..., 0].reshape(21, 4, 21, 4).mean((1, 3)) / 255
    assert shrink(square, 21)[..., 0] == pytest.approx(expected, abs=1e-5)


def test_categories_are_one_hot() -> None:
    codec = codec_for(spaces.Discrete(5))
    assert codec.encode(3).tolist() == [0, 0, 0, 1, 0]


def test_masks_are_found_beside_the_observation_or_in_the_info() -> None:
    space = spaces.Dict({"observation": spaces.Box(0, 1, (2, 2)), "action_mask": spaces.Box(0, 1, (3,), np.int8)})
    codec = codec_for(space)
    seen = {"observation": np.ones((2, 2)), "action_mask": np.array([1, 0, 1])}
    mask = codec.mask(seen)
    assert mask is not None
    assert mask.tolist() == [1, 0, 1]
    assert codec.encode(seen).tolist() == [1, 1, 1, 1]
    assert codec_for(spaces.Box(0, 1, (2,))).mask([0, 0], {"action_mask": [0, 1]}).tolist() == [0, 1]  # type: ignore[union-attr]


def test_a_wrong_shape_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"got shape \(3,\), allowed: \(2,\)"):
        codec_for(spaces.Box(0, 1, (2,))).encode([1, 2, 3])
    with pytest.raises(ValueError, match="neither numbers nor categories"):
        codec_for(spaces.Text(3))
