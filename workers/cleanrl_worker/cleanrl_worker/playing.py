"""A policy outside of training: it answers action requests, or plays in an environment that somebody else steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from cleanrl_worker import environments
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.evaluation import EvaluationEnvironments, WholeVector
from cleanrl_worker.policies import NetworkPolicy
from mosaic.worker.actions import fit_action
from mosaic.worker.checkpoints import verify


class ServedPolicy:
    """`--serve`: takes the environment's own observations and applies what the script's wrappers did to them."""

    def __init__(self, folder: Path, config: CleanRLWorkerConfig | None = None) -> None:
        card = verify(folder)
        config = config or CleanRLWorkerConfig(algo=card.algorithm, env_id=card.environment)
        self._envs = EvaluationEnvironments(config, folder, card).make(1)
        self._policy = NetworkPolicy(card, folder, self._envs)
        self._memory = self._policy.memory(1)
        self._deterministic = config.extras.deterministic
        self._seen_space = self._raw_space = self._envs.single_observation_space
        self._layers: list[Any] = []
        if not isinstance(self._envs, WholeVector):  # whose engine gives what the network sees
            self._raw_space = self._envs.envs[0].unwrapped.observation_space
            self._layers = [item for item in _inside_out(self._envs.envs[0]) if isinstance(item, SEEING)]

    def begin(self) -> None:
        """Another game begins: what is remembered of the last one does not count for it."""
        self._memory = self._policy.memory(1)

    def select_action(self, observation: Any, info: Mapping[str, Any]) -> Any:
        try:
            value = self._raw_space.from_jsonable([observation])[0]
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"observation: {error}, allowed: {self._raw_space}") from None
        return self.act(value, info)

    def act(self, value: Any, info: Mapping[str, Any]) -> Any:
        """The action for an observation as the environment itself gives it."""
        seen = self._as_seen(value)
        mask = info.get("action_mask")
        action = self._policy.actions(
            seen[np.newaxis],
            self._memory,
            deterministic=self._deterministic,
            mask=None if mask is None else np.asarray([mask]),
        )[0]
        return int(action) if action.ndim == 0 else action

    def _as_seen(self, value: Any) -> np.ndarray[Any, Any]:
        for layer in self._layers:
            if isinstance(layer, gymnasium.wrappers.NormalizeObservation):
                value = layer.normalize(np.array([value]))[0]
            else:
                value = layer.observation(value)
        seen = np.asarray(value, dtype=np.float32)
        if seen.shape != self._seen_space.shape:
            raise ValueError(f"observation: got shape {seen.shape}, allowed: {self._raw_space}")
        return seen


# The layers that change what is seen.
SEEING = (gymnasium.ObservationWrapper, gymnasium.wrappers.NormalizeObservation)


def _inside_out(env: Any) -> list[Any]:
    chain = [env]
    while (inner := vars(chain[-1]).get("env") or vars(chain[-1]).get("old_env")) is not None:
        chain.append(inner)
    return chain[::-1]


class EnvSession:
    """`--interactive`: somebody outside steps the environment, its actions or (null) a policy's."""

    def __init__(self, config: CleanRLWorkerConfig, policy_folder: Path | None) -> None:
        environments.register(config.env_id)
        options = environments.make_options(config.env_id, {}, wants_frames=True)
        self._env = environments.plain_make(config.env_id, **options)
        self._seed = config.seed
        self._policy = None if policy_folder is None else ServedPolicy(policy_folder, config)
        self._observation: Any = None
        self._info: Mapping[str, Any] = {}

    def reset(self, seed: int | None) -> Mapping[str, Any]:
        if self._policy is not None:
            self._policy.begin()
        observation, info = self._env.reset(seed=self._seed if seed is None else seed)
        self._seed = None
        self._observation, self._info = observation, info
        return {"observation": observation, "info": _plain(info)}

    def step(self, action: Any) -> Mapping[str, Any]:
        if self._observation is None:
            raise ValueError("step: the environment was not reset yet, or its episode is over: send reset")
        if action is None:
            action = self._policy_action()
        value = fit_action(action, self._env.action_space)
        observation, reward, terminated, truncated, info = self._env.step(value)
        self._observation, self._info = (None if terminated or truncated else observation), info
        return {
            "observation": observation,
            "reward": float(reward),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "action": value,
            "info": _plain(info),
        }

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()

    def _policy_action(self) -> Any:
        if self._policy is None:
            raise ValueError("action: got null, allowed: an action (there is no policy: give extras.policy_path)")
        return self._policy.act(self._observation, self._info)


def _plain(info: Mapping[str, Any]) -> dict[str, Any]:
    kept = (str, int, float, bool, list, np.ndarray, np.generic)
    return {name: value for name, value in info.items() if isinstance(value, kept)}
