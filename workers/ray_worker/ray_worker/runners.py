"""RLlib's runners without what they do for nobody, and with an ear for commands between two steps.

Three things cost much and give nothing here: callbacks on every step (there is none), switching networks that never
learn to evaluation before every step, layer by layer, and, with several agents, making arrays of each finished episode
again at every later step, which grows with the square of the batch.
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from ray_worker.listening import listen


class _Runner:
    module: Any

    def make_module(self) -> None:
        super().make_module()  # type: ignore[misc]
        for module in self.module.values() if isinstance(self.module, MultiRLModule) else [self.module]:
            _settle(module)

    def _try_env_step(self, actions: Any) -> Any:
        listen()
        return super()._try_env_step(actions)  # type: ignore[misc]

    def _make_on_episode_callback(self, which: str, idx: int, episodes: Any) -> None:
        if which != "on_episode_step":
            super()._make_on_episode_callback(which, idx, episodes)  # type: ignore[misc]


class SingleRunner(_Runner, SingleAgentEnvRunner):
    pass


class MultiRunner(_Runner, MultiAgentEnvRunner):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.episodes_to_numpy = False

    def _sample(self, **kwargs: Any) -> list[Any]:
        return [episode.to_numpy() for episode in super()._sample(**kwargs)]


def _settle(module: Any) -> None:
    """A runner's network only ever evaluates: say so once."""
    if isinstance(module, torch.nn.Module):
        module.eval()
        module.eval = lambda: module  # type: ignore[method-assign]
