"""What the networks are shown: vectors, and images of one size."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from PIL import Image

Seen = NDArray[np.float32]
# What is smaller is a board or the view of a grid world: no convolution of the usual kind fits on it.
SMALLEST_IMAGE = 24
CHANNELS = (1, 3)


class UnfitSpace(Exception):
    """A space that none of the networks here takes."""


class Eye:
    """Makes one agent's observations fit for a network; `space` is that of what it gives."""

    def __init__(self, space: spaces.Space[Any], image_size: int) -> None:
        if isinstance(space, spaces.Dict) and {"observation", "action_mask"} <= set(space.spaces):
            space = space["observation"]
        self._raw = space
        self._image_size = 0
        match space:
            case spaces.Discrete():
                self.space = spaces.Box(0, 1, (int(space.n),), np.float32)
            case spaces.Box() if is_image(space):
                self._image_size = image_size
                self.space = spaces.Box(0, 255, (image_size, image_size, space.shape[2]), np.float32)
            case spaces.Box():
                self.space = spaces.Box(-np.inf, np.inf, (int(np.prod(space.shape)),), np.float32)
            case _:
                raise UnfitSpace(f"observations are {space}, allowed: vectors, boards, images, numbers")
        self.blank = np.zeros(self.space.shape, np.float32)

    @property
    def sees_images(self) -> bool:
        return self._image_size > 0

    def see(self, observation: Any) -> Seen:
        if isinstance(self._raw, spaces.Discrete):
            return np.asarray(np.arange(self._raw.n) == observation - self._raw.start, np.float32)
        if self._image_size:
            return _shrunk(np.asarray(observation, np.uint8), self._image_size)
        return np.asarray(observation, np.float32).reshape(-1)


def is_image(space: spaces.Box) -> bool:
    shape = space.shape
    return space.dtype == np.uint8 and len(shape) == 3 and min(shape[:2]) >= SMALLEST_IMAGE and shape[2] in CHANNELS


def _shrunk(image: NDArray[np.uint8], size: int) -> Seen:
    """A square of that size; each of its pixels is the mean of what it covers."""
    if image.shape[:2] != (size, size):
        picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
        image = np.asarray(picture.resize((size, size), Image.Resampling.BOX)).reshape(size, size, -1)
    return np.asarray(image, np.float32)
