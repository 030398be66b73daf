"""Between the two APIs of CleanRL's scripts: gym 0.23 (`done`, `env.seed`) and gymnasium (`terminated`, `truncated`).

Two thirds of the scripts import the old gym. Through the bridge they get gymnasium's environments all the same, and the
wrappers of stable-baselines3, which know gymnasium alone, can wrap old environments.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import gym
import gymnasium
from gym import spaces as old
from gymnasium import spaces as new

UNBOUNDED = (-float("inf"), float("inf"))


def _convert(space: Any, target: ModuleType) -> Any:
    """A space of either package as one of `target` (`gym.spaces` or `gymnasium.spaces`)."""
    match space:
        case old.Box() | new.Box():
            return target.Box(low=space.low, high=space.high, shape=space.shape, dtype=space.dtype)
        case old.Discrete() | new.Discrete():
            return target.Discrete(int(space.n), start=int(space.start))
        case old.MultiDiscrete() | new.MultiDiscrete():
            return target.MultiDiscrete(space.nvec, dtype=space.dtype)
        case old.MultiBinary() | new.MultiBinary():
            return target.MultiBinary(space.n)
        case old.Dict() | new.Dict():
            return target.Dict({name: _convert(inner, target) for name, inner in space.spaces.items()})
        case old.Tuple() | new.Tuple():
            return target.Tuple([_convert(inner, target) for inner in space.spaces])
        case _:
            raise TypeError(f"space {space!r} exists in only one of gym and gymnasium")


def space_to_gym(space: Any) -> Any:
    return space if isinstance(space, old.Space) else _convert(space, old)


def space_to_gymnasium(space: Any) -> Any:
    return space if isinstance(space, new.Space) else _convert(space, new)


class ToGym(gym.Env):  # type: ignore[misc]
    """A gymnasium environment as gym 0.23 knows environments."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space = space_to_gym(env.observation_space)
        self.action_space = space_to_gym(env.action_space)
        modes = ["rgb_array"]
        self.metadata = {"render.modes": modes, **(env.metadata or {}), "render_modes": modes}
        self.reward_range = getattr(env, "reward_range", UNBOUNDED)
        self.spec = None
        self._seed: int | None = None

    def seed(self, seed: int | None = None) -> list[int | None]:
        self._seed = None if seed is None else int(seed)
        return [self._seed]

    def reset(self, *, seed: int | None = None, return_info: bool = False, options: Any = None) -> Any:
        if seed is None:
            seed, self._seed = self._seed, None
        observation, info = self.env.reset(seed=seed, options=options)
        return (observation, info) if return_info else observation

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if truncated and not terminated:
            info = {**info, "TimeLimit.truncated": True}
        return observation, float(reward), bool(terminated or truncated), info

    def render(self, mode: str = "rgb_array", **kwargs: Any) -> Any:
        return self.env.render()

    def close(self) -> Any:
        return self.env.close()

    def __getattr__(self, name: str) -> Any:
        # What wrappers ask of the innermost environment (`ale`, `get_action_meanings`).
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env.unwrapped, name)


class ToGymnasium(gymnasium.Env):  # type: ignore[type-arg]
    """An environment of gym 0.23 as gymnasium knows environments."""

    def __init__(self, env: Any) -> None:
        self.old_env = env
        self.observation_space = space_to_gymnasium(env.observation_space)
        self.action_space = space_to_gymnasium(env.action_space)
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.old_env.seed(seed)
        return self.old_env.reset(), {}

    def step(self, action: Any) -> Any:
        observation, reward, done, info = self.old_env.step(action)
        truncated = bool(info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done and not truncated), truncated, info

    def render(self) -> Any:
        return self.old_env.render(mode="rgb_array")

    def close(self) -> Any:
        return self.old_env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "old_env":
            raise AttributeError(name)
        return getattr(self.old_env, name)


def on_either_api(wrapper: Any) -> Any:
    """A gymnasium wrapper class that also wraps gym 0.23 environments, giving back what it was given."""

    def wrap(env: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(env, gym.Env):
            return ToGym(wrapper(ToGymnasium(env), *args, **kwargs))
        return wrapper(env, *args, **kwargs)

    return wrap
