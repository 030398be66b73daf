"""RLlib's default networks with action masks: what is not allowed gets no probability. The batch stays as it is.

And modules without a network: one plays at random, for the other somebody else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium.spaces as spaces
import numpy as np
import torch
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.sac_learner import (
    ACTION_LOG_PROBS,
    ACTION_LOG_PROBS_NEXT,
    ACTION_PROBS,
    ACTION_PROBS_NEXT,
)
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS
from ray.rllib.examples.rl_modules.classes.random_rlm import RandomRLModule

from ray_worker.rllib_env import MASK, OBSERVATIONS

# As good as minus infinity for a softmax, and still a number in entropies.
FORBIDDEN = -1e9
# Where a PlayedModule finds its player.
PLAYER = "player"


def split(batch: Mapping[str, Any], key: str = Columns.OBS) -> tuple[torch.Tensor, dict[str, Any]]:
    """The mask, and the batch with the bare observation in the place of the pair."""
    seen = batch[key]
    return seen[MASK], {**batch, key: seen[OBSERVATIONS]}


def forbid(values: torch.Tensor, mask: torch.Tensor, instead: float = FORBIDDEN) -> torch.Tensor:
    return torch.where(mask > 0.5, values, torch.full_like(values, instead))


class MaskedModule:
    """Builds a default network for the observation alone, while the module's space stays the pair."""

    def __init__(self, *args: Any, observation_space: Any = None, **kwargs: Any) -> None:
        self._pair_space = observation_space
        super().__init__(*args, observation_space=observation_space[OBSERVATIONS], **kwargs)  # type: ignore[call-arg]

    def setup(self) -> None:
        super().setup()  # type: ignore[misc]
        self.observation_space = self._pair_space


class MaskedPolicyGradientModule(MaskedModule):
    """Masks the logits wherever actions are chosen or judged."""

    def _forward(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        mask, inner = split(batch)
        return self._masked(super()._forward(inner, **kwargs), mask)  # type: ignore[misc]

    def _forward_train(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        mask, inner = split(batch)
        return self._masked(super()._forward_train(inner, **kwargs), mask)  # type: ignore[misc]

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Any:
        if isinstance(batch[Columns.OBS], Mapping):
            _, batch = split(batch)
        return super().compute_values(batch, embeddings)  # type: ignore[misc]

    @staticmethod
    def _masked(output: dict[str, Any], mask: torch.Tensor) -> dict[str, Any]:
        logits = output[Columns.ACTION_DIST_INPUTS]
        return {**output, Columns.ACTION_DIST_INPUTS: forbid(logits, mask)}


class MaskedPPOModule(MaskedPolicyGradientModule, DefaultPPOTorchRLModule):
    pass


class MaskedAPPOModule(MaskedPolicyGradientModule, DefaultAPPOTorchRLModule):
    def forward_target(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        mask, inner = split(batch)
        output = super().forward_target(inner)
        logits = output[TARGET_NETWORK_ACTION_DIST_INPUTS]
        return {**output, TARGET_NETWORK_ACTION_DIST_INPUTS: forbid(logits, mask)}


class MaskedDQNModule(MaskedModule, DefaultDQNTorchRLModule):
    """RLlib's own module and learner take minus infinity for what cannot be chosen, also when exploring."""

    def _qf_forward_helper(self, batch: Mapping[str, Any], encoder: Any, head: Any) -> dict[str, Any]:
        mask, inner = split(batch)
        output = super()._qf_forward_helper(inner, encoder, head)
        return {**output, QF_PREDS: forbid(output[QF_PREDS], mask, float("-inf"))}


class MaskedSACModule(MaskedModule, DefaultSACTorchRLModule):
    """For discrete actions; the forbidden ones get no share in the expectation over actions."""

    def _forward_inference(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        mask, inner = split(batch)
        output = super()._forward_inference(inner)
        return {**output, Columns.ACTION_DIST_INPUTS: forbid(output[Columns.ACTION_DIST_INPUTS], mask)}

    def _forward_train_discrete(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        mask, inner = split(batch)
        next_mask, inner = split(inner, Columns.NEXT_OBS)
        output = dict(super()._forward_train_discrete(inner))
        for chances, logs, allowed in (
            (ACTION_PROBS, ACTION_LOG_PROBS, mask),
            (ACTION_PROBS_NEXT, ACTION_LOG_PROBS_NEXT, next_mask),
        ):
            kept = forbid(output[chances], allowed, 0.0)
            output[chances] = kept / kept.sum(-1, keepdim=True).clamp_min(1e-8)
            output[logs] = forbid(output[chances].clamp_min(1e-8).log(), allowed, 0.0)
        return output


class RandomModule(RandomRLModule):
    """Any allowed action, each as likely. It has nothing to learn, and nothing that an optimizer could hold."""

    def _forward(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        seen = batch[Columns.OBS]
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            allowed = seen[MASK] if isinstance(seen, Mapping) else torch.ones(len(seen), int(space.n))
            return {Columns.ACTIONS: torch.multinomial(allowed, 1).squeeze(-1)}
        draw = torch.rand if is_stretched(space) else torch.randn
        actions = draw((len(seen), *space.shape))
        return {Columns.ACTIONS: 2 * actions - 1 if is_stretched(space) else actions}


class PlayedModule(RandomModule):
    """Somebody else chooses: a frozen policy or a script. Its `model_config` holds the player."""

    def setup(self) -> None:
        super().setup()
        # RLlib has seeded NumPy's own generator for this process.
        self._act = self.model_config[PLAYER].load(int(np.random.randint(2**31)))

    def _forward(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        seen = batch[Columns.OBS]
        masks = seen[MASK].numpy() if isinstance(seen, Mapping) else None
        rows = (seen[OBSERVATIONS] if isinstance(seen, Mapping) else seen).numpy()
        actions = [self._act(row, None if masks is None else masks[n]) for n, row in enumerate(rows)]
        space = self.action_space
        chosen = np.asarray(actions, space.dtype)
        if is_stretched(space):
            chosen = 2 * (chosen - space.low) / (space.high - space.low) - 1
        return {Columns.ACTIONS: torch.from_numpy(chosen)}


def is_stretched(space: spaces.Space[Any]) -> bool:
    """Whether RLlib stretches actions from -1 to 1 to the bounds: where there are some on both sides."""
    return isinstance(space, spaces.Box) and bool(np.all(space.bounded_below & space.bounded_above))
