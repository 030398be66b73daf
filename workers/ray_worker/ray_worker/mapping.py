"""Explicit mappings: which agent plays with which policy, and who plays those that do not learn. Needs no Ray."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import gymnasium.spaces as spaces
import numpy as np
from numpy.typing import NDArray

from mosaic.worker import CheckpointError, ConfigError, refuse
from mosaic.worker.checkpoints import verify
from mosaic.worker.validation import closest
from ray_worker import policy_file
from ray_worker.config import MappedPolicyConfig, MappingConfig, PolicyKind
from ray_worker.observations import Codec
from ray_worker.policy_file import NetworkPolicy

Array = NDArray[np.float32]


@dataclass(frozen=True)
class PolicySpec:
    """What one policy sees and does."""

    codec: Codec
    action_space: spaces.Space[Any]


@dataclass(frozen=True)
class FrozenPlayer:
    """A policy of a checkpoint, which stays as it is."""

    checkpoint: str
    policy: str
    explore: bool

    @classmethod
    def of(cls, name: str, settings: MappedPolicyConfig, env_id: str, specs: Mapping[str, PolicySpec]) -> FrozenPlayer:
        """A ConfigError says if the checkpoint cannot play these agents."""
        field = f"mapping.policies.{name}"
        folder = Path(settings.checkpoint).expanduser().resolve()
        try:
            verify(folder)
            content = policy_file.read(folder)
        except CheckpointError as error:
            raise ConfigError(refuse(f"{field}.checkpoint", settings.checkpoint, f"a checkpoint ({error})")) from None
        if content.environment["env_id"] != env_id:
            allowed = f"a checkpoint of {env_id} (this one is of {content.environment['env_id']})"
            raise ConfigError(refuse(f"{field}.checkpoint", settings.checkpoint, allowed))
        policy = settings.policy or (next(iter(content.policies)) if len(content.policies) == 1 else "")
        if policy not in content.policies:
            allowed = f"one of {', '.join(content.policies)}"
            suggestion = closest(policy, content.policies)
            raise ConfigError(refuse(f"{field}.policy", policy, allowed, suggestion=suggestion))
        entry = content.policies[policy]
        seen = [content.codecs[agent] for agent, played in content.mapping.items() if played == policy]
        # A snapshot plays nobody in its own run; it sees what the others of that run see.
        known = {codec.encoded_shape for codec in seen or content.codecs.values()}
        for agent, spec in specs.items():
            acts = spec.action_space.n if isinstance(spec.action_space, spaces.Discrete) else spec.action_space.shape
            made_for = entry.action.size if isinstance(spec.action_space, spaces.Discrete) else entry.action.shape
            if known != {spec.codec.encoded_shape} or acts != made_for:
                sees = ", ".join(map(str, sorted(known)))
                allowed = (
                    f"a policy for {agent}, who sees {spec.codec.encoded_shape} and acts in {spec.action_space} "
                    f"(this one sees {sees} and has actions of size {entry.action.size})"
                )
                raise ConfigError(refuse(f"{field}.checkpoint", settings.checkpoint, allowed))
        return cls(str(folder), policy, settings.explore)

    def load(self, seed: int) -> Callable[[Array, Array | None], Any]:
        folder = Path(self.checkpoint)
        entry = policy_file.read(folder).policies[self.policy]
        return NetworkPolicy.load(folder, self.policy, entry, explore=self.explore, seed=seed).act_on


@dataclass(frozen=True)
class ScriptPlayer:
    """A function of the user's."""

    script: str
    agent: str
    codec: Codec

    @classmethod
    def of(cls, field: str, settings: MappedPolicyConfig, agent: str, codec: Codec) -> ScriptPlayer:
        place, _, name = settings.script.rpartition(":")
        if place.endswith(".py"):
            # Runner processes may stand in another folder.
            place = str(Path(place).expanduser().resolve())
        player = cls(f"{place}:{name}", agent, codec)
        try:
            load_script(player.script)
        except (ImportError, OSError, AttributeError, SyntaxError, TypeError, ValueError) as error:
            allowed = f"FILE.py:NAME or MODULE:NAME of a function ({str(error).splitlines()[0]})"
            raise ConfigError(refuse(field, settings.script, allowed)) from None
        return player

    def load(self, seed: int) -> Callable[[Array, Array | None], Any]:
        function = load_script(self.script)

        def act(encoded: Array, mask: Array | None) -> Any:
            info: dict[str, Any] = {"agent": self.agent}
            return function(self.codec.decode(encoded), info if mask is None else {**info, "action_mask": mask})

        return act


Player = FrozenPlayer | ScriptPlayer


def load_script(script: str) -> Callable[[Any, Mapping[str, Any]], Any]:
    """The function that `FILE.py:NAME` or `MODULE:NAME` means."""
    place, _, name = script.rpartition(":")
    if not place or not name:
        raise ValueError("no file or module, or no name in it")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    function = getattr(module, name)
    if not callable(function):
        raise TypeError(f"{name} is no function")
    found: Callable[[Any, Mapping[str, Any]], Any] = function
    return found


def policy_of_each(mapping: MappingConfig, agents: Sequence[str]) -> dict[str, str]:
    """The policy that the config names for each agent; every agent has one."""
    members = {team: _members(team, patterns, agents) for team, patterns in mapping.teams.items()}
    found: dict[str, str] = {}
    for name, policy in mapping.agents.items():
        if name not in agents and name not in members:
            known = [*agents, *members]
            allowed = f"agents and teams: {', '.join(known)}"
            raise ConfigError(refuse("mapping.agents", name, allowed, suggestion=closest(name, known)))
        for agent in [name] if name in agents else members[name]:
            if name in agents or agent not in mapping.agents:
                found[agent] = policy
    missing = [agent for agent in agents if agent not in found]
    if missing:
        allowed = f"a policy for every agent (none for {', '.join(missing)})"
        raise ConfigError(refuse("mapping.agents", dict(mapping.agents), allowed))
    unused = [name for name in mapping.policies if name not in found.values()]
    if unused:
        allowed = f"policies that somebody plays: {', '.join(dict.fromkeys(found.values()))}"
        raise ConfigError(refuse("mapping.policies", unused[0], allowed, suggestion=closest(unused[0], found.values())))
    return {agent: found[agent] for agent in agents}


def check_settings(name: str, settings: MappedPolicyConfig) -> None:
    """What a policy is given is what its kind needs."""
    needed = {PolicyKind.FROZEN: ["checkpoint"], PolicyKind.SCRIPTED: ["script"]}.get(settings.kind, [])
    allowed = [*needed, *(["policy", "explore"] if settings.kind is PolicyKind.FROZEN else [])]
    for option in ("checkpoint", "policy", "explore", "script"):
        given = getattr(settings, option)
        field = f"mapping.policies.{name}.{option}"
        if option in needed and not given:
            raise ConfigError(refuse(field, given, f"what a policy of kind {settings.kind.value} needs"))
        if given and option not in allowed:
            raise ConfigError(refuse(field, given, f"nothing for a policy of kind {settings.kind.value}"))


def _members(team: str, patterns: Sequence[str], agents: Sequence[str]) -> list[str]:
    found = [agent for agent in agents if any(fnmatchcase(agent, pattern) for pattern in patterns)]
    if not found:
        raise ConfigError(refuse(f"mapping.teams.{team}", list(patterns), f"agents: {', '.join(agents)}"))
    return found
