"""Families of environments: which an id belongs to, and what has to be installed and imported for it."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal

# What an algorithm's network takes: flat vectors, Atari-like images, or vectors and MiniGrid's small images alike.
Observation = Literal["vector", "image", "any"]
ActionSpace = Literal["discrete", "continuous"]
# How a script's network turns observations into actions.
PolicyKind = Literal[
    "actor_critic",
    "values",
    "value_distribution",
    "image_value_distribution",
    "deterministic_actor",
    "squashed_actor",
    "discrete_actor",
    "flax_values",
    "flax_actor",
]


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


MUJOCO = (
    "Ant",
    "HalfCheetah",
    "Hopper",
    "Humanoid",
    "HumanoidStandup",
    "InvertedDoublePendulum",
    "InvertedPendulum",
    "Pusher",
    "Reacher",
    "Swimmer",
    "Walker2d",
)
FAMILIES = (
    Family("babyai", "minigrid", "minigrid", prefixes=("BabyAI-",)),
    Family("minigrid", "minigrid", "minigrid", prefixes=("MiniGrid-",)),
    Family("atari", "ale_py", "atari", prefixes=("ALE/",), suffixes=("NoFrameskip-v4",)),
    Family("mujoco", "mujoco", "mujoco", prefixes=tuple(f"{name}-v" for name in MUJOCO)),
)
# What an extra brings that its algorithms import, beyond any family's own package.
EXTRA_MODULES = {"atari": ("ale_py", "cv2"), "jax": ("jax", "flax", "optax")}
GYMNASIUM = Family("gymnasium", None, None)


def family_of(env_id: str) -> Family:
    return next((family for family in FAMILIES if family.has(env_id)), GYMNASIUM)


def extra_installed(extra: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in EXTRA_MODULES[extra])
