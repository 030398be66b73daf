"""Environments that are not Gymnasium's: old gym, PettingZoo's two kinds, pools that step many at once.

What stands in for them here has their interfaces and their surprises, without the libraries.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic.fastlane import FastLaneReader, Settings, stream_path, wrap_env, wrap_vector


class OldGym:
    """gym before 0.26: four values from step, a render mode at each call."""

    metadata = {"render.modes": ["human", "rgb_array"]}  # noqa: RUF012

    def __init__(self) -> None:
        self.steps = 0

    @property
    def unwrapped(self) -> OldGym:
        return self

    def reset(self) -> int:
        return 0

    def step(self, action: Any) -> tuple[int, float, bool, dict[str, Any]]:
        self.steps += 1
        return self.steps, 2.0, self.steps % 10 == 0, {"not": "empty"}

    def render(self, mode: str = "human") -> Any:
        assert mode == "rgb_array", "a window would have opened"
        return np.full((8, 9, 3), self.steps % 256, np.uint8)

    def close(self) -> None: ...


def test_old_gym_environments(lane_dir: Path) -> None:
    env = wrap_env(OldGym(), Settings(lane_dir, interval_ms=0, budget=1))
    reader = FastLaneReader(stream_path(lane_dir, "env-0"))
    env.reset()
    frame = None
    deadline = time.monotonic() + 30
    while frame is None or frame.info.episode < 3:
        assert time.monotonic() < deadline
        result = env.step(0)
        assert len(result) == 4
        if result[2]:
            env.reset()
        frame = reader.latest() or frame
    assert frame.info.rolling_return == 20.0 and frame.info.last_reward == 2.0


class Parallel:
    """PettingZoo's parallel API."""

    render_mode = "rgb_array"

    def __init__(self) -> None:
        self.possible_agents = ["ann", "bob"]
        self.agents: list[str] = []
        self.steps = 0

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        self.steps = 0
        return dict.fromkeys(self.agents, 0), {}

    def step(self, actions: dict[str, int]) -> Any:
        self.steps += 1
        over = self.steps == 5
        rewards = {"ann": 3.0, "bob": -3.0}
        result = ({}, rewards, dict.fromkeys(self.agents, over), dict.fromkeys(self.agents, False), {})
        if over:
            self.agents = []
        return result

    def render(self) -> Any:
        return np.full((8, 9, 3), self.steps, np.uint8)

    def close(self) -> None: ...


class Aec:
    """PettingZoo's AEC API, with its attributes out of reach before the first reset."""

    render_mode = "rgb_array"

    def __init__(self) -> None:
        self.possible_agents = ["ann", "bob"]
        self.turns = 0

    def agent_iter(self) -> Any:
        yield from ()

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.agent_selection = "ann"
        self.turns = 0
        self.rewards = {"ann": 0.0, "bob": 0.0}
        self.terminations = {"ann": False, "bob": False}
        self.truncations = {"ann": False, "bob": False}

    def step(self, action: int | None) -> None:
        if self.terminations[self.agent_selection]:
            self.agents.remove(self.agent_selection)
        else:
            self.turns += 1
            self.rewards = {"ann": 1.0, "bob": -1.0}
            if self.turns == 6:
                self.terminations = {"ann": True, "bob": True}
        self.agent_selection = "bob" if self.agent_selection == "ann" else "ann"

    def render(self) -> Any:
        return np.full((8, 9, 3), self.turns, np.uint8)

    def close(self) -> None: ...


class FirstDies(Parallel):
    """Its first agent is over after two steps, and told to be so until the end."""

    def step(self, actions: dict[str, int]) -> Any:
        observations, rewards, terminations, truncations, infos = super().step(actions)
        return observations, rewards, terminations | {"ann": self.steps >= 2}, truncations, infos


@pytest.mark.parametrize(("make", "expected"), [(Parallel, 15.0), (FirstDies, 6.0), (Aec, 6.0)])
def test_pettingzoo_environments_report_their_first_agent(lane_dir: Path, make: Any, expected: float) -> None:
    env, bare = wrap_env(make(), Settings(lane_dir, interval_ms=0, budget=1)), make()
    episodes = 1
    reader = FastLaneReader(stream_path(lane_dir, "env-0"))
    env.reset(seed=1)
    bare.reset(seed=1)
    frame = None
    deadline = time.monotonic() + 30
    while frame is None or frame.info.episode < 3:
        assert time.monotonic() < deadline
        assert env.step({}) == bare.step({})
        if not env.agents:
            env.reset()
            bare.reset()
            episodes += 1
        frame = reader.latest() or frame
    assert frame.info.agent == "ann" and frame.info.rolling_return == expected
    assert frame.info.episode in (episodes - 1, episodes)


class Pool:
    """A vector environment out of whose reach the single ones are, in envpool's manner: pictures are observations."""

    num_envs = 3

    def __init__(self) -> None:
        self.steps = 0

    def observe(self) -> np.ndarray:
        return np.stack([np.full((4, 16, 16), self.steps % 50 + 100 * env, np.uint8) for env in range(3)])

    def reset(self, **_: Any) -> Any:
        return self.observe(), {}

    def step(self, actions: Any) -> Any:
        self.steps += 1
        over = np.full(3, self.steps % 7 == 0)
        return self.observe(), np.array([1.0, 2.0, 3.0]), over, np.zeros(3, bool), {}

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("mode", "slot", "stream", "shape"), [("single", 1, "env-1", (16, 16, 1)), ("grid", 0, "grid", (34, 34, 1))]
)
def test_vector_environments_seen_by_their_observations(
    lane_dir: Path, mode: Any, slot: int, stream: str, shape: Any
) -> None:
    env = wrap_vector(Pool(), Settings(lane_dir, interval_ms=0, budget=1, mode=mode, slot=slot))
    reader = FastLaneReader(stream_path(lane_dir, stream))
    env.reset()
    frame = None
    deadline = time.monotonic() + 30
    while frame is None or frame.info.rolling_return != frame.info.rolling_return:
        assert time.monotonic() < deadline
        env.step(np.zeros(3))
        frame = reader.latest() or frame
    assert frame.pixels.shape == shape
    assert frame.info.rolling_return == 7.0 * (slot + 1)
    assert frame.pixels[0, 0, 0] // 100 == slot
