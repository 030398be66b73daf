"""Making observations fit for a network, the same way in training, evaluation and serving. Needs NumPy only.

A codec is made from a space once and turns every observation of that space into float32: vectors flat, small grids
flat or as they are, images small and gray, categories one-hot. An `action_mask` beside it is taken apart from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import gymnasium.spaces as spaces
import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Kind = Literal["vector", "grid", "image", "category"]

# From this many pixels a side on, three dimensions are an image.
SMALLEST_IMAGE = 40
GRAY = np.array([0.299, 0.587, 0.114], np.float32)


class Codec(msgspec.Struct, frozen=True):
    """How one agent's observations are encoded; plain data, so that it can lie beside a policy's weights."""

    kind: Kind
    shape: tuple[int, ...]
    size: int
    image_size: int = 0
    masked: bool = False

    @property
    def encoded_shape(self) -> tuple[int, ...]:
        match self.kind:
            case "image":
                return (self.image_size, self.image_size, 1)
            case "grid":
                return self.shape
            case _:
                return (self.size,)

    @property
    def is_identity(self) -> bool:
        """Whether float32 observations come out as they went in."""
        return self.kind == "vector" and not self.masked and self.shape == (self.size,)

    @property
    def encoded_space(self) -> spaces.Box:
        low, high = (0.0, 1.0) if self.kind in ("image", "category") else (-np.inf, np.inf)
        return spaces.Box(low, high, self.encoded_shape, np.float32)

    def encode(self, observation: Any) -> Array:
        """The network's input; a mask that comes with the observation is not part of it."""
        if self.masked and isinstance(observation, Mapping):
            observation = observation["observation"]
        if self.kind == "category":
            encoded = np.zeros(self.size, np.float32)
            encoded[int(observation)] = 1.0
            return encoded
        values = np.asarray(observation)
        if values.shape != self.shape:
            raise ValueError(f"observation: got shape {values.shape}, allowed: {self.shape}")
        if self.kind == "image":
            return shrink(values, self.image_size)
        if self.kind == "grid":
            return values.astype(np.float32)
        flat = values.astype(np.float32).reshape(-1)
        return flat if flat.size == self.size else np.concatenate((flat, np.zeros(self.size - flat.size, np.float32)))

    def decode(self, encoded: Array) -> Any:
        """The observation again, in the environment's shape; of an image, what the network gets to see."""
        if self.kind == "category":
            return int(encoded.argmax())
        return encoded if self.kind == "image" else encoded.reshape(-1)[: math.prod(self.shape)].reshape(self.shape)

    def mask(self, observation: Any, info: Mapping[str, Any] | None = None) -> Array | None:
        """Which actions are allowed, from the observation or the info; None: all."""
        found = None
        if isinstance(observation, Mapping):
            found = observation.get("action_mask")
        if found is None and info:
            found = info.get("action_mask")
        return None if found is None else np.asarray(found, np.float32)


def codec_for(
    space: spaces.Space[Any], *, image_size: int = 64, flatten_grids: bool = True, padded_size: int = 0
) -> Codec:
    """The codec of a space, or a ValueError that says what is not supported about it."""
    masked = isinstance(space, spaces.Dict) and set(space.spaces) == {"observation", "action_mask"}
    inner = space["observation"] if masked and isinstance(space, spaces.Dict) else space
    if isinstance(inner, spaces.Discrete):
        return Codec("category", (), max(int(inner.n), padded_size), masked=masked)
    if not isinstance(inner, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        raise ValueError(f"observation space {inner} is neither numbers nor categories")
    shape = tuple(int(length) for length in inner.shape)
    kind: Kind = "vector"
    if len(shape) == 3 and min(shape[:2]) >= SMALLEST_IMAGE and shape[2] in (1, 3):
        kind = "image"
    elif len(shape) == 3 and not flatten_grids:
        kind = "grid"
    size = max(int(np.prod(shape)), padded_size if kind == "vector" else 0)
    return Codec(kind, shape, size, image_size if kind == "image" else 0, masked)


def shrink(image: NDArray[Any], side: int) -> Array:
    """An image in shades of gray from 0 to 1, `side` pixels square, each the mean of the area that it stands for."""
    gray = image.astype(np.float32)
    gray = gray @ GRAY if gray.shape[2] == 3 else gray[..., 0]
    height, width = gray.shape
    # Enlarging repeats pixels: every area is at least one pixel.
    top, left = (np.arange(side) * height) // side, (np.arange(side) * width) // side
    bottom = np.maximum(top + 1, ((np.arange(side) + 1) * height) // side)
    right = np.maximum(left + 1, ((np.arange(side) + 1) * width) // side)
    sums = np.zeros((height + 1, width + 1))
    np.cumsum(np.cumsum(gray, 0, dtype=np.float64), 1, out=sums[1:, 1:])
    total = sums[bottom][:, right] - sums[top][:, right] - sums[bottom][:, left] + sums[top][:, left]
    area = (bottom - top)[:, None] * (right - left)[None]
    shades: Array = (total / (area * 255.0)).astype(np.float32)[..., None]
    return shades
