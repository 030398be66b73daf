"""Hearing of environments that are stepped as a whole vector, so that none of them can be wrapped by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from mosaic.fastlane import Settings, wrap_vector

Array = np.ndarray[Any, Any]


class VectorWatch(ABC):
    """Hears of every step of a vector of environments, and puts its pictures on the lane."""

    def __init__(self, count: int, fastlane: Settings, pictures: Callable[[], Any] | None = None) -> None:
        self.count = count
        # How many of the environments the lane may ask for a picture.
        self.shown = 0
        if fastlane.is_on:
            self.shown = min(count, fastlane.slot + 1 if fastlane.mode == "single" else fastlane.grid_limit)
        self._lane = wrap_vector(_Stepped(), fastlane, pictures=pictures)

    @abstractmethod
    def attend(self) -> None:
        """Before a step: what was asked of the run meanwhile?"""

    @abstractmethod
    def tally(self, rewards: Array, over: Array, lengths: Array | None) -> None:
        """After a step: true rewards, which games are over, and how long they are where the engine counts itself."""

    def began(self) -> None:
        self._lane.reset()

    def saw(self, observation: Any, rewards: Array, over: Array, lengths: Array | None = None) -> None:
        self._lane.step((observation, rewards, over))
        self.tally(rewards, over, lengths)


class _Stepped:
    """A vector environment to the lane's eyes: it is shown what came of a step that was made elsewhere."""

    def reset(self) -> None:
        return None

    def step(self, result: Any) -> Any:
        return result

    def close(self) -> None:
        return None
