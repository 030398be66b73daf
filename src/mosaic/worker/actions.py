"""Actions that somebody outside sends, checked against the environment's own spaces.

Any spaces will do that have `shape`, `dtype` and `contains`, such as gymnasium's and gym's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Space(Protocol):
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> Any: ...
    def contains(self, x: Any) -> bool: ...


def fit_action(action: Any, space: Space) -> Any:
    """An action as the space has it, made from JSON's numbers and lists; ValueError if it does not fit."""
    with suppress(TypeError, ValueError):  # text, or lists of unlike lengths
        fitted = _as_array(action, space.dtype) if space.shape else action
        if space.contains(fitted):
            return fitted
    raise ValueError(f"action: got {action!r}, allowed: {space}")


def _as_array(action: Any, dtype: Any) -> NDArray[Any]:
    array = np.asarray(action).astype(dtype)
    if array.dtype.kind != "f" and not np.array_equal(array, action):
        raise ValueError("half a choice, or a number beyond the space's type")
    return array


def fit_actions(actions: Any, spaces: Mapping[str, Space], acting: Sequence[str]) -> dict[str, Any]:
    """An action for each agent whose turn it is, no more and no fewer."""
    if not isinstance(actions, Mapping) or sorted(actions) != sorted(acting):
        raise ValueError(f"action: got {actions!r}, allowed: an object with actions of {', '.join(acting)}")
    return {agent: fit_action(action, spaces[agent]) for agent, action in actions.items()}
