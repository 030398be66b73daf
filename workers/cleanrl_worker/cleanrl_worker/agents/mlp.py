"""`MLPAgent`: for flat observations (CartPole, MountainCar, LunarLander, ...)."""

from __future__ import annotations

import torch
from torch import nn

from cleanrl_worker.agents.layers import ActorCritic, orthogonal


class MLPAgent(ActorCritic):
    """Two layers of 64 with Tanh, shared by actor and critic."""

    def __init__(self, observations: int, actions: int, hidden: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            orthogonal(nn.Linear(observations, hidden)), nn.Tanh(), orthogonal(nn.Linear(hidden, hidden)), nn.Tanh()
        )
        self.actor = orthogonal(nn.Linear(hidden, actions), gain=0.01)
        self.critic = orthogonal(nn.Linear(hidden, 1), gain=1.0)

    def features(self, observation: torch.Tensor) -> torch.Tensor:
        return self.trunk(observation.flatten(1))
