"""Who plays with which policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium.spaces as spaces
import numpy as np

from mosaic.worker import ConfigError, refuse
from ray_worker.algo_params import ALGORITHMS
from ray_worker.config import PolicyConfiguration, RayWorkerConfig
from ray_worker.environments import EnvironmentFacts, action_kind
from ray_worker.observations import Codec

SHARED = "shared"


@dataclass(frozen=True)
class PolicySpec:
    """What one policy sees and does."""

    codec: Codec
    action_space: spaces.Space[Any]


@dataclass(frozen=True)
class PolicyPlan:
    """The policies of a run, and which agent plays with which."""

    policies: Mapping[str, PolicySpec]
    mapping: Mapping[str, str]
    codecs: Mapping[str, Codec]


def plan_policies(config: RayWorkerConfig, facts: EnvironmentFacts) -> PolicyPlan:
    """The plan, or a ConfigError that says why the environment and the policies do not go together."""
    _check_actions(config, facts)
    specs = {agent: PolicySpec(facts.codecs[agent], facts.action_spaces[agent]) for agent in facts.agents}
    if config.policy_configuration is PolicyConfiguration.INDEPENDENT and not facts.is_single:
        return PolicyPlan(specs, {agent: agent for agent in facts.agents}, facts.codecs)
    first = facts.agents[0]
    for agent in facts.agents[1:]:
        _check_alike(config, first, specs[first], agent, specs[agent])
    return PolicyPlan({SHARED: specs[first]}, dict.fromkeys(facts.agents, SHARED), facts.codecs)


def _check_actions(config: RayWorkerConfig, facts: EnvironmentFacts) -> None:
    allowed = ALGORITHMS[config.training.algorithm].actions
    for agent, space in facts.action_spaces.items():
        if action_kind(space) not in allowed:
            fitting = [name for name, entry in ALGORITHMS.items() if action_kind(space) in entry.actions]
            what = f"an algorithm for {action_kind(space)} actions" if fitting else "no algorithm here can do that"
            text = f"{what} ({config.environment.env_id}: {agent} acts in {space}): {', '.join(fitting) or 'none'}"
            raise ConfigError(refuse("training.algorithm", config.training.algorithm, text))
        if (
            (isinstance(space, spaces.Discrete) and space.start != 0)
            or space.dtype == np.bool_
            or (isinstance(space, spaces.Box) and not np.issubdtype(space.dtype, np.floating))
        ):
            text = f"discrete actions from 0 on or boxes of floats ({agent} acts in {space})"
            raise ConfigError(refuse("environment.env_id", config.environment.env_id, text))


def _check_alike(config: RayWorkerConfig, first: str, one: PolicySpec, agent: str, other: PolicySpec) -> None:
    given = config.policy_configuration.value
    if one.action_space != other.action_space:
        allowed = f"INDEPENDENT ({first} acts in {one.action_space}, {agent} in {other.action_space})"
        raise ConfigError(refuse("policy_configuration", given, allowed))
    if one.codec.encoded_shape != other.codec.encoded_shape:
        allowed = (
            f"INDEPENDENT, or environment.wrappers.pad_observations = true ({first} sees {one.codec.encoded_shape}, "
            f"{agent} {other.codec.encoded_shape})"
        )
        raise ConfigError(refuse("policy_configuration", given, allowed))


class AgentMapping:
    """RLlib's policy mapping function, as plain data that travels to runner processes."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._mapping = dict(mapping)

    def __call__(self, agent_id: str, episode: Any, **_: Any) -> str:
        return self._mapping[agent_id]
