"""Pictures: into the lane's form, smaller, and side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mosaic.fastlane.layout import FastLaneError
from mosaic.fastlane.writer import Pixels

BACKGROUND = 24
GAP = 2
_AREA_MAX = 257  # sums of so many 8-bit values fit 16 bits


def normalise(frame: Any) -> Pixels:
    """Any usual picture as height x width x (1 or 3) uint8, without a copy where there is a way."""
    pixels = np.asarray(frame)
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or 0 in pixels.shape:
        raise FastLaneError(
            f"frame: got {pixels.dtype} {pixels.shape}, allowed: uint8, height x width or height x width x 1, 3 or 4"
        )
    return pixels[:, :, :3] if pixels.shape[2] == 4 else pixels


def pictures_in(observation: Any) -> list[Pixels]:
    """The pictures in a batch of image observations, as vector environments without `render` give them.

    Knows batch x height x width x (1, 3), batch x channels x height x width (the last 1 or 3 channels: a frame stack's
    newest) and batch x height x width; a dict is searched for the first that fits. No pictures: an empty list.
    """
    if isinstance(observation, dict):
        for value in observation.values():
            if found := pictures_in(value):
                return found
        return []
    batch = np.asarray(observation)
    if batch.dtype != np.uint8 or batch.ndim not in (3, 4) or min(batch.shape[1:3]) < 1:
        return []
    if batch.ndim == 3:
        return list(batch[:, :, :, None])
    if batch.shape[3] in (1, 3) and batch.shape[1] > 4:
        return list(batch)
    channels = 3 if batch.shape[1] == 3 else 1
    return list(batch[:, -channels:].transpose(0, 2, 3, 1))


def shrink_factor(height: int, width: int, max_dim: int) -> int:
    """The smallest whole factor that brings the longest side to at most `max_dim` (0: no limit)."""
    return math.ceil(max(height, width) / max_dim) if max_dim else 1


def shrunk_shape(shape: tuple[int, ...], factor: int) -> tuple[int, int, int]:
    return max(1, shape[0] // factor), max(1, shape[1] // factor), shape[2]


class Shrinker:
    """Shrinks by a whole factor: each pixel is the mean of its square, so thin lines fade but never vanish or flicker.

    Only whole factors: then every pixel averages equally many, and it is a few passes over strided views, with buffers
    kept from frame to frame.
    """

    def __init__(self) -> None:
        self._sum: np.ndarray[Any, Any] = np.empty((0, 0, 0), np.uint16)

    def shrink(self, pixels: Pixels, factor: int, out: Pixels) -> None:
        height, width = out.shape[:2]
        across = min(factor, pixels.shape[1])  # a side shorter than the factor shrinks to one pixel
        down = min(factor, pixels.shape[0])
        kind = np.uint16 if across * down <= _AREA_MAX else np.uint32
        if self._sum.shape != out.shape or self._sum.dtype != kind:
            self._sum = np.empty(out.shape, kind)
        total = self._sum
        total[...] = (across * down) // 2  # round to nearest
        for row in range(down):
            for column in range(across):
                total += pixels[row : row + height * factor : factor, column : column + width * factor : factor]
        np.floor_divide(total, across * down, out=total)
        np.copyto(out, total, casting="unsafe")


def grid_layout(count: int, cell_height: int, cell_width: int) -> tuple[int, int]:
    """Rows and columns for `count` cells so that the whole is as near to a square as cells of this form allow."""

    def badness(columns: int) -> tuple[float, int]:
        rows = math.ceil(count / columns)
        form = (columns * cell_width) / (rows * cell_height)
        return max(form, 1 / form), rows * columns

    columns = min(range(1, count + 1), key=badness)
    return math.ceil(count / columns), columns


class Tiling:
    """Where frames of these shapes go in one picture: equal cells, each frame in the middle of its own.

    Frames may differ in size and in channels; the whole is shrunk to `max_dim`, each frame by the same factor.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], max_dim: int = 0) -> None:
        if not shapes:
            raise FastLaneError("tiling: got no frames, allowed: one or more")
        self.shapes = tuple(tuple(shape) for shape in shapes)
        height, width = max(shape[0] for shape in shapes), max(shape[1] for shape in shapes)
        self.rows, self.columns = grid_layout(len(shapes), height, width)
        self.factor = shrink_factor(self.rows * height, self.columns * width, max_dim)
        while not self._fits(max_dim):  # the gaps do not shrink
            self.factor += 1
        cells = [shrunk_shape(shape, self.factor) for shape in self.shapes]
        cell_height, cell_width = self._cell()
        down, across = self._size()
        self.shape = (down, across, max(shape[2] for shape in shapes))
        self._places = []
        for index, (tall, wide, _) in enumerate(cells):
            row, column = divmod(index, self.columns)
            top = row * (cell_height + GAP) + (cell_height - tall) // 2
            left = column * (cell_width + GAP) + (cell_width - wide) // 2
            self._places.append((slice(top, top + tall), slice(left, left + wide)))
        self._shrinkers = [Shrinker() for _ in cells]

    def _cell(self) -> tuple[int, int]:
        cells = [shrunk_shape(shape, self.factor) for shape in self.shapes]
        return max(cell[0] for cell in cells), max(cell[1] for cell in cells)

    def _size(self) -> tuple[int, int]:
        height, width = self._cell()
        return self.rows * (height + GAP) - GAP, self.columns * (width + GAP) - GAP

    def _fits(self, max_dim: int) -> bool:
        return not max_dim or max(self._size()) <= max_dim or self._cell() == (1, 1)

    def draw(self, frames: Sequence[Pixels], out: Pixels) -> None:
        """Draw all of `out`: it may hold anything before."""
        out[...] = BACKGROUND
        for frame, place, shrinker in zip(frames, self._places, self._shrinkers, strict=True):
            target = out[place]
            if self.factor == 1:
                target[...] = frame  # one channel spreads over three
                continue
            if frame.shape[2] == out.shape[2]:
                shrinker.shrink(frame, self.factor, target)
                continue
            grey = np.empty((*target.shape[:2], frame.shape[2]), np.uint8)
            shrinker.shrink(frame, self.factor, grey)
            target[...] = grey
