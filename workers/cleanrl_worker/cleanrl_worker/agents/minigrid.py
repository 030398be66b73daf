"""`MinigridAgent`: for the 7x7x3 images of MiniGrid and BabyAI."""

from __future__ import annotations

import torch
from torch import nn

from cleanrl_worker.agents.layers import ActorCritic, orthogonal

IMAGE_SHAPE = (7, 7, 3)


class MinigridCNN(nn.Module):
    """Three 3x3 convolutions that keep the grid's size, then 128 features."""

    def __init__(self, features: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            orthogonal(nn.Conv2d(3, 32, 3, padding=1)),
            nn.ReLU(),
            orthogonal(nn.Conv2d(32, 64, 3, padding=1)),
            nn.ReLU(),
            orthogonal(nn.Conv2d(64, 64, 3, padding=1)),
            nn.ReLU(),
            nn.Flatten(),
            orthogonal(nn.Linear(64 * 7 * 7, features)),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image.permute(0, 3, 1, 2).float() / 255.0)


class MinigridAgent(ActorCritic):
    def __init__(self, actions: int, hidden: int = 128) -> None:
        super().__init__()
        self.network = MinigridCNN(hidden)
        self.actor = self._head(hidden, actions, gain=0.01)
        self.critic = self._head(hidden, 1, gain=1.0)

    @staticmethod
    def _head(hidden: int, outputs: int, gain: float) -> nn.Sequential:
        return nn.Sequential(
            orthogonal(nn.Linear(hidden, hidden)), nn.ReLU(), orthogonal(nn.Linear(hidden, outputs), gain=gain)
        )

    def features(self, observation: torch.Tensor) -> torch.Tensor:
        return self.network(observation)
