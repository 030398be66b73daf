"""A2C on RLlib's new API stack, which has dropped its own.

PPO with A2C's settings is not A2C and collapses: its advantages are always standardised, over batches that are much too
small for it. This learner takes the plain ones.
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY
from ray.rllib.evaluation.postprocessing import Postprocessing

# As in the paper's implementation.
RMSPROP_ALPHA = 0.99
RMSPROP_EPSILON = 1e-5


class A2CConfig(PPOConfig):
    """One pass over each short batch, no clipping, no KL penalty."""

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class or A2C)
        self.lr = 7e-4
        self.lambda_ = 1.0
        self.num_epochs = 1
        self.minibatch_size = None
        self.shuffle_batch_per_epoch = False
        self.train_batch_size_per_learner = 80
        self.use_kl_loss = False
        self.kl_coeff = 0.0
        self.vf_loss_coeff = 0.5
        self.entropy_coeff = 0.01
        self.grad_clip = 0.5
        # An iteration is many of these batches: results would otherwise come a hundred times a second.
        self.min_sample_timesteps_per_iteration = 2000

    def get_default_learner_class(self) -> type[A2CTorchLearner]:
        return A2CTorchLearner


class A2C(PPO):
    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        return A2CConfig()


class A2CTorchLearner(PPOTorchLearner):
    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> torch.Tensor:
        module = self.module[module_id].unwrapped()
        mask = batch.get(Columns.LOSS_MASK)

        def mean(values: torch.Tensor) -> torch.Tensor:
            return values.mean() if mask is None else values[mask].sum() / mask.sum()

        actions = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
        targets = batch[Postprocessing.VALUE_TARGETS]
        # One pass: the values that the targets were made with are these.
        advantages = (targets - values).detach()
        policy_loss = -mean(actions.logp(batch[Columns.ACTIONS]) * advantages)
        value_loss = mean((values - targets) ** 2)
        entropy = mean(actions.entropy())
        entropy_coeff = self.entropy_coeff_schedulers_per_module[module_id].get_current_value()
        logged = {POLICY_LOSS_KEY: policy_loss, VF_LOSS_KEY: value_loss, ENTROPY_KEY: entropy}
        self.metrics.log_dict(logged, key=module_id, window=1)
        total: torch.Tensor = policy_loss + config.vf_loss_coeff * value_loss - entropy_coeff * entropy
        return total

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        parameters = self.get_parameters(self._module[module_id])
        optimizer = torch.optim.RMSprop(parameters, alpha=RMSPROP_ALPHA, eps=RMSPROP_EPSILON)
        self.register_optimizer(
            module_id=module_id, optimizer=optimizer, params=parameters, lr_or_lr_schedule=config.lr
        )
