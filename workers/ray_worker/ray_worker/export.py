"""Takes RLlib's networks apart into plain layers and writes them beside a checkpoint, for serving without RLlib."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import gymnasium.spaces as spaces
import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core.models.torch.primitives import TorchCNN
from safetensors.numpy import save_file
from torch import nn

from ray_worker import policy_file
from ray_worker.config import RayWorkerConfig
from ray_worker.mapping import FrozenPlayer, PolicySpec
from ray_worker.network import Layer
from ray_worker.policies import RANDOM, PolicyPlan
from ray_worker.policy_file import ActionSpec, PolicyEntry, PolicyFile

ACTIVATIONS: dict[type[nn.Module], Any] = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.SiLU: "silu"}
Part = tuple[Layer, dict[str, Any]]


Weights = dict[str, NDArray[np.float32]]
T = TypeVar("T")


def write_policies(
    folder: Path,
    algorithm: Any,
    config: RayWorkerConfig,
    plan: PolicyPlan,
    snapshots: Mapping[str, Weights] | None = None,
) -> None:
    """`policies.json` and a safetensors file for each policy; snapshots of the first policy lie beside it."""
    (folder / policy_file.FOLDER).mkdir()
    entries = {}
    for name in plan.trained:
        entries[name], weights = network_of(algorithm, name, plan.policies[name])
        save_file(weights, policy_file.weights_path(folder, name))
    for name, weights in (snapshots or {}).items():
        entries[name] = entries[plan.trained[0]]
        save_file(weights, policy_file.weights_path(folder, name))
    others = dict.fromkeys(set(plan.random) & set(plan.mapping.values()), RANDOM)
    for name, player in plan.players.items():
        if isinstance(player, FrozenPlayer):
            source = Path(player.checkpoint)
            entries[name] = policy_file.read(source).policies[player.policy]
            save_file(policy_file.load_weights(source, player.policy), policy_file.weights_path(folder, name))
        else:
            others[name] = player.script
    content = PolicyFile(
        algorithm=config.training.algorithm,
        environment=msgspec.to_builtins(config.environment),
        policies=entries,
        mapping=dict(plan.mapping),
        codecs=dict(plan.codecs),
        others=others,
    )
    policy_file.write(folder, content)


def entry_of(spec: PolicySpec, module: Any) -> PolicyEntry:
    return PolicyEntry(action_spec(spec, module), tuple(layer for layer, _ in layers_of(module)))


def plain_weights(module: Any) -> Weights:
    """A network's weights under the names that `Network` looks for."""
    return {
        name: tensor.detach().cpu().numpy().astype(np.float32).copy() for name, tensor in _named_tensors(module).items()
    }


def rllib_state(module: Any, weights: Weights) -> Weights:
    """Plain weights under RLlib's names, for a module of the same build; the value function is not among them."""
    names = {tensor.data_ptr(): name for name, tensor in module.named_parameters()}
    return {names[tensor.data_ptr()]: weights[name] for name, tensor in _named_tensors(module).items()}


def _named_tensors(module: Any) -> dict[str, torch.Tensor]:
    return {
        f"{index}.{key}": tensor
        for index, (_, tensors) in enumerate(layers_of(module))
        for key, tensor in tensors.items()
    }


def in_learner(algorithm: Any, name: str, function: Callable[[Any], T]) -> T:
    """What a function finds out about a policy's network where it learns: here or in another process."""

    def apply(learner: Any) -> T:
        modules = learner.module
        return function(modules[name if name in modules else "default_policy"].unwrapped())

    # All learners have the same.
    found: T = next(iter(algorithm.learner_group.foreach_learner(apply))).get()
    return found


def network_of(algorithm: Any, name: str, spec: PolicySpec) -> tuple[PolicyEntry, Weights]:
    return in_learner(algorithm, name, lambda module: (entry_of(spec, module), plain_weights(module)))


def layers_of(module: Any) -> Iterator[Part]:
    """The way from observation to action through one of RLlib's default networks."""
    if hasattr(module, "af"):
        # DQN: with dueling heads the best action is the one with the greatest advantage.
        yield from _parts(module.encoder)
        yield from _parts(module.af)
        return
    if hasattr(module, "pi_encoder"):
        yield from _parts(module.pi_encoder)
    else:
        encoder = module.encoder
        yield from _parts(encoder.actor_encoder if hasattr(encoder, "actor_encoder") else encoder.encoder)
    yield from _parts(module.pi)
    if hasattr(module.pi, "log_std"):
        yield Layer("append"), {"weight": module.pi.log_std}


def _parts(module: nn.Module) -> Iterator[Part]:
    if isinstance(module, TorchCNN):
        yield Layer("channels_first"), {}
        for child in module.cnn:
            yield from _parts(child)
        yield Layer("channels_last"), {}
        return
    children = list(module.children())
    if children:
        for child in children:
            yield from _parts(child)
        return
    match module:
        case nn.Linear():
            yield Layer("linear"), {"weight": module.weight, "bias": module.bias}
        case nn.LayerNorm():
            yield Layer("layer_norm", epsilon=module.eps), {"weight": module.weight, "bias": module.bias}
        case nn.Conv2d():
            yield Layer("conv", sizes=tuple(module.stride)), {"weight": module.weight, "bias": module.bias}
        case nn.ZeroPad2d():
            yield Layer("pad", sizes=tuple(module.padding)), {}
        case nn.Flatten():
            yield Layer("flatten"), {}
        case _ if type(module) in ACTIVATIONS:
            yield Layer(ACTIVATIONS[type(module)]), {}
        case _:
            raise TypeError(f"no plain layer for {type(module).__name__}")


def action_spec(spec: PolicySpec, module: Any) -> ActionSpec:
    space = spec.action_space
    if isinstance(space, spaces.Discrete):
        return ActionSpec("values" if hasattr(module, "af") else "categorical", int(space.n))
    assert isinstance(space, spaces.Box)
    # RLlib stretches what is bounded on both sides and made of floats.
    bounded = bool(np.all(space.bounded_below & space.bounded_above)) and np.issubdtype(space.dtype, np.floating)
    low, high = (space.low.reshape(-1), space.high.reshape(-1)) if bounded else ((), ())
    return ActionSpec(
        "squashed_gaussian" if hasattr(module, "pi_encoder") else "gaussian",
        int(np.prod(space.shape)),
        tuple(int(length) for length in space.shape),
        tuple(float(value) for value in low),
        tuple(float(value) for value in high),
        float(getattr(module, "model_config", {}).get("log_std_clip_param", 20.0)),
    )
