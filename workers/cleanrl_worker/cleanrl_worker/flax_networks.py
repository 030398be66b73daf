"""Networks of the JAX scripts, so that they can be filled and asked as torch modules are."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np
import torch

from cleanrl_worker.snapshot import unflatten


class FlaxNetwork:
    """A flax module and its parameters, between torch tensors."""

    def __init__(self, definition: Any, atoms: Any = None) -> None:
        import jax

        self._apply = jax.jit(definition.apply)
        self._atoms = atoms
        self._params: Any = None

    def load_state_dict(self, tensors: Mapping[str, torch.Tensor]) -> None:
        arrays = {key: tensor.numpy() for key, tensor in tensors.items() if key.startswith("params/")}
        self._params = unflatten(arrays)["params"]

    def eval(self) -> None:
        """Flax knows no modes here."""

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        answer = np.array(self._apply(self._params, batch.cpu().numpy()))
        if self._atoms is not None:
            answer = (answer * self._atoms).sum(-1)
        return torch.from_numpy(answer)


def value_network(module: ModuleType, spaces: Any, arguments: Any) -> FlaxNetwork:
    """The Q-network of dqn_jax, or of c51_jax, whose distributions become expected values."""
    actions = int(spaces.single_action_space.n)
    if not hasattr(arguments, "n_atoms"):
        return FlaxNetwork(module.QNetwork(action_dim=actions))
    atoms = np.linspace(arguments.v_min, arguments.v_max, num=arguments.n_atoms, dtype=np.float32)
    return FlaxNetwork(module.QNetwork(action_dim=actions, n_atoms=arguments.n_atoms), atoms)


def actor_network(module: ModuleType, spaces: Any, arguments: Any) -> FlaxNetwork:
    """The actor of ddpg_continuous_action_jax and td3_continuous_action_jax."""
    space = spaces.action_space
    scale, bias = (space.high - space.low) / 2.0, (space.high + space.low) / 2.0
    size = int(np.prod(spaces.single_action_space.shape))
    return FlaxNetwork(module.Actor(action_dim=size, action_scale=scale, action_bias=bias))


def actor_critic_network(module: ModuleType, spaces: Any, arguments: Any) -> FlaxNetwork:
    """The actor of ppo_atari_envpool_xla_jax(_scan), on top of the network that it shares with the critic."""
    network, actor = module.Network(), module.Actor(action_dim=int(spaces.single_action_space.n))

    def logits(params: Any, batch: Any) -> Any:
        return actor.apply(params["actor_params"], network.apply(params["network_params"], batch))

    return FlaxNetwork(SimpleNamespace(apply=jax.jit(logits)))
