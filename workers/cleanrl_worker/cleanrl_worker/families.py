"""Families of environments: which an id belongs to, and what has to be installed and imported for it."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal

# What an algorithm's network takes: flat vectors, Atari-like images, or vectors and MiniGrid's small images alike.
Observation = Literal["vector", "image", "any"]
ActionSpace = Literal["discrete", "continuous"]
# How a script's network turns observations into actions.
PolicyKind = Literal["actor_critic", "values", "value_distribution", "deterministic_actor", "squashed_actor"]


@dataclass(frozen=True)
class Family:
    """Environments that come from one package."""

    name: str
    module: str | None  # importing it registers the ids
    extra: str | None
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()

    def has(self, env_id: str) -> bool:
        return env_id.startswith(self.prefixes or "\0") or env_id.endswith(self.suffixes or "\0")

    @property
    def installed(self) -> bool:
        return self.module is None or importlib.util.find_spec(self.module) is not None


FAMILIES = (
    Family("babyai", "minigrid", "minigrid", prefixes=("BabyAI-",)),
    Family("minigrid", "minigrid", "minigrid", prefixes=("MiniGrid-",)),
)
GYMNASIUM = Family("gymnasium", None, None)


def family_of(env_id: str) -> Family:
    return next((family for family in FAMILIES if family.has(env_id)), GYMNASIUM)
