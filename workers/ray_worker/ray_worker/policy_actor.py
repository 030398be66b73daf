"""Trained policies as actors: no Ray, no torch, nothing but NumPy and the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium.spaces as spaces
import numpy as np

from mosaic.worker import CheckpointError
from mosaic.worker.checkpoints import verify
from ray_worker import policy_file
from ray_worker.mapping import load_script
from ray_worker.policy_file import NetworkPolicy, PolicyFile

Info = Mapping[str, Any]


@dataclass(frozen=True)
class RayPolicyConfig:
    """Which checkpoint to load; `algorithm` and `env_id`, if given, are what it must have been trained with."""

    checkpoint_path: str | Path
    algorithm: str | None = None
    env_id: str | None = None
    # One policy of several, for an actor that plays every agent with it; None: each agent with its own.
    policy: str | None = None
    # Draw actions as in training instead of taking the best.
    explore: bool = False
    seed: int | None = None
    name: str = ""


class RayPolicyActor:
    """Plays one environment's agents with the policies of one checkpoint."""

    def __init__(
        self, name: str, content: PolicyFile, policies: Mapping[str, NetworkPolicy], mapping: Mapping[str, str]
    ) -> None:
        self.name = name
        self.content = content
        self._policies = dict(policies)
        self._mapping = dict(mapping)

    def select_action(self, observation: Any, info: Info) -> Any:
        """The action for an observation; `info["agent"]` says whose it is, where agents differ."""
        agent = info.get("agent")
        if agent not in self._mapping:
            if len(self._policies) > 1 or len(set(self.content.codecs.values())) > 1:
                raise ValueError(f"info.agent: got {agent!r}, allowed: one of {', '.join(self._mapping)}")
            agent = next(iter(self._mapping))
        policy = self._mapping[agent]
        if policy not in self._policies:
            raise ValueError(f"info.agent: got {agent!r}, whom {self.content.others[policy]} played: give it an actor")
        return self._policies[policy].act(self.content.codecs[agent], observation, info)

    def not_learned(self) -> dict[str, str]:
        """The agents that no network plays: by `random`, or by which script."""
        return {
            agent: self.content.others[policy]
            for agent, policy in self._mapping.items()
            if policy not in self._policies
        }


class RandomActor:
    """Any allowed action, each as likely: the yardstick."""

    def __init__(self, action_spaces: Mapping[str, spaces.Space[Any]], *, seed: int = 0, name: str = "random") -> None:
        self.name = name
        self._spaces = dict(action_spaces)
        self._random = np.random.default_rng(seed)

    def select_action(self, observation: Any, info: Info) -> Any:
        space = self._spaces[info["agent"]]
        mask = observation.get("action_mask") if isinstance(observation, Mapping) else info.get("action_mask")
        if isinstance(space, spaces.Discrete):
            allowed = np.arange(int(space.n)) if mask is None else np.flatnonzero(mask)
            return int(self._random.choice(allowed))
        assert isinstance(space, spaces.Box)
        return self._random.uniform(space.low, space.high).astype(np.float32)


class ScriptActor:
    """A function of the user's plays one agent."""

    def __init__(self, script: str, agent: str) -> None:
        self.name = script
        self._agent = agent
        self._function = load_script(script)

    def select_action(self, observation: Any, info: Info) -> Any:
        if isinstance(observation, Mapping) and "action_mask" in observation:
            info = {**info, "action_mask": observation["action_mask"]}
            observation = observation["observation"]
        return self._function(observation, {**info, "agent": self._agent})


class RayPolicyController:
    """Maps every agent of an environment to the actor that plays it; actors may come from different checkpoints."""

    def __init__(self, actors: Mapping[str, Any]) -> None:
        self.actors = dict(actors)

    @classmethod
    def from_checkpoints(cls, configs: Mapping[str, RayPolicyConfig]) -> RayPolicyController:
        return cls({agent: create_ray_actor(config) for agent, config in configs.items()})

    def select_action(self, observation: Any, info: Info) -> Any:
        agent = info.get("agent")
        if agent not in self.actors:
            raise ValueError(f"info.agent: got {agent!r}, allowed: one of {', '.join(self.actors)}")
        return self.actors[agent].select_action(observation, info)

    def seats(self) -> dict[str, str]:
        return {agent: actor.name for agent, actor in self.actors.items()}


def create_ray_actor(config: RayPolicyConfig) -> RayPolicyActor:
    """The actor of a checkpoint, which must be whole and of the expected algorithm and environment."""
    path = Path(config.checkpoint_path)
    verify(path)
    content = policy_file.read(path)
    for what, expected, found in (
        ("algorithm", config.algorithm, content.algorithm),
        ("environment", config.env_id, content.environment["env_id"]),
    ):
        if expected is not None and expected != found:
            raise CheckpointError(f"checkpoint {path}: its {what} is {found!r}, expected {expected!r}")
    if config.policy is not None and config.policy not in content.policies:
        names = ", ".join(content.policies)
        raise CheckpointError(f"checkpoint {path}: has no policy {config.policy!r}, allowed: one of {names}")
    chosen = [config.policy] if config.policy else list(content.policies)
    policies = {
        name: NetworkPolicy.load(path, name, content.policies[name], explore=config.explore, seed=config.seed)
        for name in chosen
    }
    mapping = dict.fromkeys(content.mapping, config.policy) if config.policy else content.mapping
    return RayPolicyActor(config.name or path.name, content, policies, mapping)
