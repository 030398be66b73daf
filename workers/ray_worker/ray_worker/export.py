"""Takes RLlib's networks apart into plain layers and writes them beside a checkpoint, for serving without RLlib."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium.spaces as spaces
import msgspec
import numpy as np
import torch
from ray.rllib.core.models.torch.primitives import TorchCNN
from safetensors.torch import save_file
from torch import nn

from ray_worker import policy_file
from ray_worker.config import RayWorkerConfig
from ray_worker.network import Layer
from ray_worker.policies import PolicyPlan, PolicySpec
from ray_worker.policy_file import ActionSpec, PolicyEntry, PolicyFile

ACTIVATIONS: dict[type[nn.Module], Any] = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.SiLU: "silu"}
Part = tuple[Layer, dict[str, Any]]


def write_policies(folder: Path, algorithm: Any, config: RayWorkerConfig, plan: PolicyPlan) -> None:
    """`policies.json` and a safetensors file for each policy."""
    (folder / policy_file.FOLDER).mkdir()
    entries = {}
    for name, spec in plan.policies.items():
        module = learner_module(algorithm, name)
        parts = list(layers_of(module))
        entries[name] = PolicyEntry(action_spec(spec, module), tuple(layer for layer, _ in parts))
        weights = {
            f"{index}.{key}": tensor.detach().to("cpu", torch.float32).contiguous().clone()
            for index, (_, tensors) in enumerate(parts)
            for key, tensor in tensors.items()
        }
        save_file(weights, policy_file.weights_path(folder, name))
    content = PolicyFile(
        algorithm=config.training.algorithm,
        environment=msgspec.to_builtins(config.environment),
        policies=entries,
        mapping=dict(plan.mapping),
        codecs=dict(plan.codecs),
    )
    policy_file.write(folder, content)


def learner_module(algorithm: Any, name: str) -> Any:
    """A policy's network, as the learner holds it."""
    modules = algorithm.learner_group._learner.module
    return modules[name if name in modules else "default_policy"].unwrapped()


def layers_of(module: Any) -> Iterator[Part]:
    """The way from observation to action through one of RLlib's default networks."""
    encoder = module.encoder
    yield from _parts(getattr(encoder, "actor_encoder", None) or encoder.encoder)
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
        return ActionSpec("categorical", int(space.n))
    assert isinstance(space, spaces.Box)
    # RLlib stretches what is bounded on both sides and made of floats.
    bounded = bool(np.all(space.bounded_below & space.bounded_above)) and np.issubdtype(space.dtype, np.floating)
    low, high = (space.low.reshape(-1), space.high.reshape(-1)) if bounded else ((), ())
    return ActionSpec(
        "gaussian",
        int(np.prod(space.shape)),
        tuple(int(length) for length in space.shape),
        tuple(float(value) for value in low),
        tuple(float(value) for value in high),
        float(getattr(module, "model_config", {}).get("log_std_clip_param", 20.0)),
    )
