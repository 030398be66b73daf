"""Actions from outside fit the environment's spaces, or are refused in one line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from mosaic.worker.actions import fit_action, fit_actions

SPACES: list[spaces.Space[Any]] = [
    spaces.Discrete(5),
    spaces.Discrete(3, start=-1),
    spaces.Box(-1, 1, (2, 3)),
    spaces.Box(0, 255, (4,), np.uint8),
    spaces.MultiDiscrete([3, 4]),
    spaces.MultiBinary(3),
]


@given(st.sampled_from(SPACES), st.integers(0, 1000))
def test_what_a_space_gives_still_fits_after_json(space: spaces.Space[Any], seed: int) -> None:
    space.seed(seed)
    given = space.sample()
    fitted = fit_action(json.loads(json.dumps(given.tolist())), space)
    assert space.contains(fitted)
    assert np.array_equal(fitted, given)


@pytest.mark.parametrize(
    ("action", "space"),
    [
        (5, spaces.Discrete(5)),
        (1.5, spaces.Discrete(5)),
        ([1], spaces.Discrete(5)),
        ("left", spaces.Discrete(5)),
        (None, spaces.Discrete(5)),
        ([2.0], spaces.Box(-1, 1, (1,))),
        ([0.0, 0.0], spaces.Box(-1, 1, (1,))),
        (["left"], spaces.Box(-1, 1, (1,))),
        ([[0.0], [0.0, 1.0]], spaces.Box(-1, 1, (2, 1))),
        ([0.5, 1.0], spaces.MultiDiscrete([3, 4])),
        ([1, 300], spaces.Box(0, 255, (2,), np.uint8)),
        ({"a": 1}, spaces.MultiDiscrete([3, 4])),
    ],
)
def test_what_does_not_fit_is_refused_by_name(action: Any, space: spaces.Space[Any]) -> None:
    with pytest.raises(ValueError, match=r"^action: got .*, allowed: ") as refusal:
        fit_action(action, space)
    assert repr(action) in str(refusal.value)
    assert str(space) in str(refusal.value)


def test_each_agent_whose_turn_it_is_acts() -> None:
    board = {"white": spaces.Discrete(2), "black": spaces.Discrete(3)}
    assert fit_actions({"black": 2}, board, ["black"]) == {"black": 2}
    for wrong in ({}, {"white": 1}, {"black": 2, "white": 1}, 2, None):
        with pytest.raises(ValueError, match=r"allowed: an object with actions of black$"):
            fit_actions(wrong, board, ["black"])
    with pytest.raises(ValueError, match=r"^action: got 3, allowed: Discrete\(3\)"):
        fit_actions({"black": 3}, board, ["black"])
