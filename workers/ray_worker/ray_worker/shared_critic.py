"""SHARED_VALUE_FUNCTION: an actor for each agent and one critic that sees what all of them see (MAPPO).

The critic is a module of its own, there only for learning. It reaches the actors through the module that holds them
all, in a list, so that torch does not count its weights as theirs. The state that it judges is every agent's
observation side by side, zeros for those who are gone, and who is asking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import gymnasium.spaces as spaces
import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from ray_worker.modules import MaskedPPOModule
from ray_worker.rllib_env import OBSERVATIONS

CRITIC = "central_critic"
STATE = "global_state"


class CentralCritic(TorchRLModule):
    """The value of the common state for the agent that asks."""

    def setup(self) -> None:
        sizes = [self.model_config["state_size"], *self.model_config["hiddens"]]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Tanh()]
        self.network = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def value(self, state: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.network(state).squeeze(-1)
        return values

    def _forward(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        return {}


class CentralValue:
    """Makes a module ask the central critic instead of its own value function."""

    central: list[CentralCritic]

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> torch.Tensor:
        return self.central[0].value(batch[STATE])


class CentrallyJudgedModule(CentralValue, DefaultPPOTorchRLModule):
    pass


class MaskedCentrallyJudgedModule(CentralValue, MaskedPPOModule):
    pass


class ActorsAndCritic(MultiRLModule):
    def setup(self) -> None:
        super().setup()
        critic = self._rl_modules.get(CRITIC)
        if critic is None:
            return
        for name, module in self._rl_modules.items():
            if name != CRITIC:
                module.central = [critic]


class JoinObservations(ConnectorV2):
    """Gives each row of a learner's batch the state of all agents at that step."""

    def __init__(self, *args: Any, sizes: Mapping[str, int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sizes = dict(sizes)

    @classmethod
    def factory(cls, sizes: Mapping[str, int]) -> Callable[[Any, Any], JoinObservations]:
        return lambda observation_space, action_space: cls(observation_space, action_space, sizes=sizes)

    def __call__(self, *, batch: dict[str, Any], episodes: list[Any], **_: Any) -> dict[str, Any]:
        for episode in episodes:
            parts = episode.agent_episodes
            joined = join({agent: _observations(part) for agent, part in parts.items()}, self._sizes)
            for agent, part in parts.items():
                self.add_n_batch_items(
                    batch=batch,
                    column=STATE,
                    items_to_add=with_asker(joined[: len(part)], list(self._sizes).index(agent), len(self._sizes)),
                    num_items=len(part),
                    single_agent_episode=part,
                )
        return batch


def join(seen: Mapping[str, NDArray[np.float32]], sizes: Mapping[str, int]) -> NDArray[np.float32]:
    """Observations side by side, step by step; zeros where an agent is gone."""
    length = max(len(rows) for rows in seen.values())
    joined = np.zeros((length, sum(sizes.values())), np.float32)
    start = 0
    for agent, size in sizes.items():
        if agent in seen:
            joined[: len(seen[agent]), start : start + size] = seen[agent]
        start += size
    return joined


def with_asker(state: NDArray[np.float32], index: int, agents: int) -> NDArray[np.float32]:
    asker = np.zeros((len(state), agents), np.float32)
    asker[:, index] = 1
    return np.concatenate((state, asker), -1)


def _observations(part: Any) -> NDArray[np.float32]:
    """One observation for each step of the batch (the learner has added the last one as a step of its own)."""
    seen = part.get_observations(slice(0, len(part)))
    return np.asarray(seen[OBSERVATIONS] if isinstance(seen, Mapping) else seen, np.float32)


def critic_spec(sizes: Mapping[str, int], action_space: spaces.Space[Any], model: Mapping[str, Any]) -> RLModuleSpec:
    size = sum(sizes.values()) + len(sizes)
    return RLModuleSpec(
        module_class=CentralCritic,
        observation_space=spaces.Box(-np.inf, np.inf, (size,), np.float32),
        action_space=action_space,
        model_config={"state_size": size, "hiddens": model.get("fcnet_hiddens", [256, 256])},
        learner_only=True,
    )
