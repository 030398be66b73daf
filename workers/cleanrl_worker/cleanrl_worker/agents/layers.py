"""What both architectures are built from."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import nn

L = TypeVar("L", nn.Linear, nn.Conv2d)


def orthogonal(layer: L, gain: float = math.sqrt(2), bias: float = 0.0) -> L:
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)
    return layer


class ActorCritic(nn.Module):
    """A discrete policy and a value: subclasses give the features, the actor's logits and the critic's value."""

    actor: nn.Module
    critic: nn.Module

    def features(self, observation: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def logits(self, observation: torch.Tensor) -> torch.Tensor:
        return self.actor(self.features(observation))

    def get_value(self, observation: torch.Tensor) -> torch.Tensor:
        return self.critic(self.features(observation))

    def get_action_and_value(
        self, observation: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        features = self.features(observation)
        distribution = torch.distributions.Categorical(logits=self.actor(features), validate_args=False)
        if action is None:
            action = distribution.sample()
        return action, distribution.log_prob(action), distribution.entropy(), self.critic(features)
