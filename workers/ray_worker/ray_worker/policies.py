"""Who plays with which policy."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium.spaces as spaces
import numpy as np

from mosaic.worker import ConfigError, refuse
from mosaic.worker.config import as_dict
from ray_worker.algo_params import ALGORITHMS
from ray_worker.config import (
    MappedPolicyConfig,
    MappingConfig,
    PolicyConfiguration,
    PolicyKind,
    RayWorkerConfig,
)
from ray_worker.environments import EnvironmentFacts, action_kind
from ray_worker.mapping import FrozenPlayer, Player, PolicySpec, ScriptPlayer, check_settings, policy_of_each
from ray_worker.observations import Codec

SHARED = "shared"
CENTRAL_ALGORITHMS = ("PPO", "A2C")
# In self-play: the policy that learns, the frozen ones that it meets, and those that play at random.
MAIN = "main"
OPPONENT = "opponent"
RANDOM = "random"


@dataclass(frozen=True)
class PolicyPlan:
    """The policies of a run, and which agent plays with which once training is done."""

    policies: Mapping[str, PolicySpec]
    mapping: Mapping[str, str]
    codecs: Mapping[str, Codec]
    # Policies that never learn: with weights of others, and with none.
    frozen: tuple[str, ...] = ()
    random: tuple[str, ...] = ()
    # Policies that somebody else plays: frozen ones of another run, and scripts.
    players: Mapping[str, Player] = field(default_factory=dict)
    # One critic judges the state of all agents together.
    central: bool = False

    @property
    def trained(self) -> list[str]:
        return [name for name in self.policies if name not in (*self.frozen, *self.random, *self.players)]


def plan_policies(config: RayWorkerConfig, facts: EnvironmentFacts) -> PolicyPlan:
    """The plan, or a ConfigError that says why the environment and the policies do not go together."""
    _check_actions(config, facts)
    if config.policy_configuration is PolicyConfiguration.MAPPING:
        return _plan_mapping(config, facts)
    if config.mapping != MappingConfig():
        allowed = "nothing, unless policy_configuration is MAPPING"
        raise ConfigError(refuse("mapping", as_dict(config.mapping), allowed))
    specs = {agent: PolicySpec(facts.codecs[agent], facts.action_spaces[agent]) for agent in facts.agents}
    if config.policy_configuration is PolicyConfiguration.SHARED_VALUE_FUNCTION:
        _check_central(config, facts)
        return PolicyPlan(specs, {agent: agent for agent in facts.agents}, facts.codecs, central=True)
    if config.policy_configuration is PolicyConfiguration.INDEPENDENT and not facts.is_single:
        return PolicyPlan(specs, {agent: agent for agent in facts.agents}, facts.codecs)
    self_play = config.policy_configuration is PolicyConfiguration.SELF_PLAY
    if self_play and facts.is_single:
        allowed = f"PARAMETER_SHARING ({config.environment.env_id} has one agent, who cannot play against itself)"
        raise ConfigError(refuse("policy_configuration", config.policy_configuration.value, allowed))
    first = facts.agents[0]
    _check_alike("policy_configuration", config.policy_configuration.value, "INDEPENDENT", specs)
    if self_play:
        slots = tuple(f"{OPPONENT}_{index}" for index in range(config.league.opponents))
        dice = tuple(f"{RANDOM}_{index}" for index in range(config.league.random_opponents))
        policies = dict.fromkeys((MAIN, *slots, *dice), specs[first])
        return PolicyPlan(policies, dict.fromkeys(facts.agents, MAIN), facts.codecs, slots, dice)
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


def _check_alike(field: str, given: str, instead: str, specs: Mapping[str, PolicySpec]) -> None:
    """Those who share a policy see and do the same kind of thing; else the error says what to do instead."""
    (first, one), *others = specs.items()
    for agent, other in others:
        if one.action_space != other.action_space:
            allowed = f"{instead} ({first} acts in {one.action_space}, {agent} in {other.action_space})"
            raise ConfigError(refuse(field, given, allowed))
        if one.codec.encoded_shape != other.codec.encoded_shape:
            allowed = (
                f"{instead}, or environment.wrappers.pad_observations = true ({first} sees {one.codec.encoded_shape}, "
                f"{agent} {other.codec.encoded_shape})"
            )
            raise ConfigError(refuse(field, given, allowed))


def _plan_mapping(config: RayWorkerConfig, facts: EnvironmentFacts) -> PolicyPlan:
    """Each agent with the policy that the config gives it."""
    if facts.is_single:
        allowed = f"PARAMETER_SHARING ({config.environment.env_id} has one agent)"
        raise ConfigError(refuse("policy_configuration", config.policy_configuration.value, allowed))
    wanted = policy_of_each(config.mapping, facts.agents)
    policies: dict[str, PolicySpec] = {}
    mapping: dict[str, str] = {}
    players: dict[str, Player] = {}
    dice = []
    for name in dict.fromkeys(wanted.values()):
        specs = {
            agent: PolicySpec(facts.codecs[agent], facts.action_spaces[agent])
            for agent in facts.agents
            if wanted[agent] == name
        }
        settings = config.mapping.policies.get(name, MappedPolicyConfig())
        check_settings(name, settings)
        if settings.kind is PolicyKind.SCRIPTED:
            # A script is told who it plays, so each agent has its own.
            for agent, spec in specs.items():
                own = name if len(specs) == 1 else f"{name}-{agent}"
                policies[own], mapping[agent] = spec, own
                players[own] = ScriptPlayer.of(f"mapping.policies.{name}.script", settings, agent, spec.codec)
            continue
        _check_alike(f"mapping.agents.{next(iter(specs))}", name, "a policy for each of them", specs)
        policies[name] = next(iter(specs.values()))
        mapping |= dict.fromkeys(specs, name)
        if settings.kind is PolicyKind.RANDOM:
            dice.append(name)
        elif settings.kind is PolicyKind.FROZEN:
            players[name] = FrozenPlayer.of(name, settings, config.environment.env_id, specs)
    plan = PolicyPlan(policies, mapping, facts.codecs, random=tuple(dice), players=players)
    if not plan.trained:
        allowed = f"at least one policy of kind TRAINED (among {', '.join(policies)})"
        raise ConfigError(refuse("mapping.policies", dict.fromkeys(policies, "does not learn"), allowed))
    return plan


def _check_central(config: RayWorkerConfig, facts: EnvironmentFacts) -> None:
    """A critic for all needs several agents that act at once, and vectors to lay side by side."""
    given = config.policy_configuration.value
    environment = config.environment.env_id
    if facts.is_single:
        allowed = f"PARAMETER_SHARING ({environment} has one agent)"
    elif facts.in_turn:
        allowed = (
            f"INDEPENDENT or SELF_PLAY (the agents of {environment} act in turn, there is no common step to judge)"
        )
    elif any(codec.kind in ("image", "grid") for codec in facts.codecs.values()):
        allowed = f"INDEPENDENT (the agents of {environment} see images, which do not add up to one state)"
    elif config.training.algorithm not in CENTRAL_ALGORITHMS:
        allowed = f"INDEPENDENT, or training.algorithm one of {', '.join(CENTRAL_ALGORITHMS)}"
    else:
        return
    raise ConfigError(refuse("policy_configuration", given, allowed))


class AgentMapping:
    """RLlib's policy mapping function, as plain data that travels to runner processes."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._mapping = dict(mapping)

    def __call__(self, agent_id: str, episode: Any, **_: Any) -> str:
        return self._mapping[agent_id]


class SeatMapping:
    """In self-play, who learns and who is met changes with every episode, by a draw that all processes agree on."""

    def __init__(self, agents: Sequence[str], opponents: Sequence[str]) -> None:
        self._agents = list(agents)
        self._opponents = list(opponents)

    def __call__(self, agent_id: str, episode: Any, **_: Any) -> str:
        # Not hash(): it differs between processes.
        draw = zlib.crc32(str(episode.id_).encode())
        seat = self._agents.index(agent_id)
        if draw % len(self._agents) == seat:
            return MAIN
        return self._opponents[(draw // len(self._agents) + seat) % len(self._opponents)]
