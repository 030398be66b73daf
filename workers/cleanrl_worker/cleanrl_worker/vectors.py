"""Environments that come as whole vectors: envpool's, Procgen's, SuperSuit's. No single one of them is within reach.

A script gets them as it expects them, in gym 0.23's form. Each step is told to a `VectorWatch`: true rewards and whole
games, whatever the script sees of them (clipped rewards, lost lives as ends).
"""

from __future__ import annotations

from typing import Any

import gym
import numpy as np

from cleanrl_worker.bridge import UNBOUNDED, space_to_gym
from cleanrl_worker.watching import Array, VectorWatch


class WatchedVector(gym.Env):  # type: ignore[misc]
    """A vector of environments as scripts written for gym 0.23 expect it."""

    is_vector_env = True

    def __init__(self, engine: Any, watch: VectorWatch) -> None:
        self.engine = engine  # not kept in checkpoints: its state is out of reach, so its games begin anew
        self._watch = watch
        self.num_envs = watch.count
        self.observation_space = space_to_gym(engine.observation_space)
        self.action_space = space_to_gym(engine.action_space)
        self.metadata = {"render.modes": ["rgb_array"], **(getattr(engine, "metadata", None) or {})}
        self.reward_range = UNBOUNDED
        self.spec = None

    def reset(self, **kwargs: Any) -> Any:
        self._watch.began()
        return self._reset(**kwargs)

    def step(self, actions: Any) -> Any:
        self._watch.attend()
        return self._step(actions)

    def close(self) -> None:
        if hasattr(self.engine, "close"):
            self.engine.close()


class EnvpoolVector(WatchedVector):
    """envpool's Atari games. Lost lives may end what the script takes for an episode; `terminated` is the true end."""

    def _reset(self, **kwargs: Any) -> Any:
        return self.engine.reset()

    def _step(self, actions: Any) -> Any:
        observation, reward, done, info = self.engine.step(actions)
        over = np.logical_or(info["terminated"], info["TimeLimit.truncated"])
        self._watch.saw(observation, info["reward"], over, info["elapsed_step"])
        return observation, reward, done, info

    def xla(self) -> Any:
        """The engine's functions for jitted loops, which come by Python only to tell what they did."""
        import jax
        import jax.numpy as jnp

        handle, receive, send, step = self.engine.xla()
        shown, watch = max(1, self._watch.shown), self._watch

        def saw(newest: Any, rewards: Any, over: Any, lengths: Any) -> None:
            watch.saw(np.asarray(newest), np.asarray(rewards), np.asarray(over), np.asarray(lengths))

        def watched_step(handle: Any, action: Any) -> Any:
            handle, (observation, reward, done, info) = step(handle, action)
            over = jnp.logical_or(info["terminated"], info["TimeLimit.truncated"])
            jax.debug.callback(saw, observation[:shown, -1:], info["reward"], over, info["elapsed_step"], ordered=True)
            return handle, (observation, reward, done, info)

        return handle, receive, send, watched_step


class ProcgenVector(WatchedVector):
    """Procgen's games, which its engine steps all at once. It knows no reset: it begins each game itself."""

    def _reset(self, **kwargs: Any) -> Any:
        return self.engine.reset()

    def _step(self, actions: Any) -> Any:
        observation, reward, first, info = self.engine.step(actions)
        self._watch.saw(observation["rgb"], reward, first)
        return observation, reward, first, info


class PlayersVector(WatchedVector):
    """Games for several players as one vector, each player an environment: SuperSuit's, in gymnasium's API."""

    def __init__(self, engine: Any, watch: VectorWatch, seed: int) -> None:
        super().__init__(engine, watch)
        self._seed: int | None = seed
        self._totals = np.zeros(watch.count)

    def _reset(self, **kwargs: Any) -> Any:
        # Upstream asks for no seed.
        seed, self._seed = self._seed, None
        observation, _ = self.engine.reset(seed=seed)
        self._totals[:] = 0.0
        return observation

    def _step(self, actions: Any) -> Any:
        observation, reward, terminated, truncated, infos = self.engine.step(actions)
        over = np.logical_or(terminated, truncated)
        totals = np.array([info[TRUE_RETURN] for info in infos])
        self._watch.saw(observation, totals - self._totals, over)
        self._totals = np.where(over, 0.0, totals)
        return observation, reward, over.astype(np.uint8), infos


# In a player's info: the sum of its rewards in this game so far, before anybody clips them.
TRUE_RETURN = "true_return"


def screens(engine: Any) -> list[Array]:
    """What multi-agent Atari's games look like: one picture for each game."""
    return [part.par_env.unwrapped.ale.getScreenRGB() for part in engine.vec_envs]
