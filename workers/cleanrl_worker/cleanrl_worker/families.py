"""Families of environments: which an id belongs to, and what has to be installed and imported for it."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from typing import Literal

# What an algorithm's network takes: flat vectors, Atari-like images, or vectors and MiniGrid's small images alike.
Observation = Literal["vector", "image", "any"]
ActionSpace = Literal["discrete", "continuous"]
# How a script's network turns observations into actions.
PolicyKind = Literal[
    "actor_critic",
    "recurrent_actor_critic",
    "values",
    "recurrent_values",
    "value_distribution",
    "image_value_distribution",
    "expected_values",
    "deterministic_actor",
    "squashed_actor",
    "discrete_actor",
    "flax_values",
    "flax_actor",
    "flax_actor_critic",
]


@dataclass(frozen=True)
class Family:
    """Environments that come from one package."""

    name: str
    pattern: str  # what their ids look like, as a regular expression
    extra: str | None = None
    registers: str | None = None  # the module whose import registers the ids, or module:function
    whole: bool = False  # its environments come as whole vectors, not one by one through gymnasium.make

    def has(self, env_id: str) -> bool:
        return re.fullmatch(self.pattern, env_id) is not None

    @property
    def installed(self) -> bool:
        return self.extra is None or extra_installed(self.extra)


MUJOCO = (
    "Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher|Swimmer"
    "|Walker2d"
)
PROCGEN = (
    "bigfish|bossfight|caveflyer|chaser|climber|coinrun|dodgeball|fruitbot|heist|jumper|leaper|maze|miner|ninja|plunder"
    "|starpilot"
)
MINIGRID = "minigrid:register_minigrid_envs"
FAMILIES = (
    Family("babyai", r"BabyAI-.+", "minigrid", MINIGRID),
    Family("minigrid", r"MiniGrid-.+", "minigrid", MINIGRID),
    Family("atari", r"ALE/.+|.+NoFrameskip-v4", "atari", "ale_py"),
    Family("mujoco", rf"({MUJOCO})-v\d", "mujoco"),
    Family("dm_control", r"dm_control/.+", "dm_control", "shimmy.registration:_register_dm_control_envs"),
    Family("envpool", r"[A-Z]\w*-v5", "envpool", whole=True),
    Family("procgen", PROCGEN, "procgen", whole=True),
    Family("maatari", r"[a-z]\w*_v\d", "maatari", whole=True),
)
# What an extra brings that is imported.
EXTRA_MODULES = {
    "atari": ("ale_py", "cv2"),
    "dm_control": ("dm_control", "shimmy"),
    "envpool": ("envpool",),
    "jax": ("jax", "flax", "optax"),
    "maatari": ("multi_agent_ale_py", "supersuit", "ale_py", "cv2"),
    "minigrid": ("minigrid",),
    "mujoco": ("mujoco",),
    "procgen": ("procgen",),
    "wandb": ("wandb",),
}
GYMNASIUM = Family("gymnasium", r".+")


def family_of(env_id: str) -> Family:
    return next((family for family in FAMILIES if family.has(env_id)), GYMNASIUM)


def extra_installed(extra: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in EXTRA_MODULES[extra])
