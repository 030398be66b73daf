"""Values as JSON plus arrays: what a checkpoint can hold without a pickle, so that loading one executes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from xuance.common.memory_tools import EpisodeBuffer
from xuance.torch.utils.distributions import CategoricalDistribution, DiagGaussianDistribution

Arrays = dict[str, Any]


class Unpackable(Exception):
    """A value of a kind that cannot be kept."""


def pack(value: Any, arrays: Arrays) -> Any:
    """A value as a JSON node; its arrays go to `arrays`."""
    match value:
        case np.generic():
            return pack(value.item(), arrays)
        case None | bool() | float() | str():
            return value
        case int():
            # Random states hold 128-bit integers, which not every JSON reader takes.
            return value if abs(value) < 2**53 else {"int": str(value)}
        case torch.Tensor():
            return {"tensor": _keep(value.detach().cpu().numpy(), arrays)}
        case np.ndarray() if value.dtype == object:
            return {"objects": [list(value.shape), [pack(item, arrays) for item in value.flat]]}
        case np.ndarray():
            return {"array": _keep(value, arrays)}
        case CategoricalDistribution():
            return {"categorical": pack(value.logits, arrays)}
        case DiagGaussianDistribution():
            return {"gaussian": [pack(value.mu, arrays), pack(value.std, arrays)]}
        case EpisodeBuffer():
            return {"episode": {name: pack(np.array(items), arrays) for name, items in vars(value).items()}}
        case list() | tuple():
            return {"list" if isinstance(value, list) else "tuple": [pack(item, arrays) for item in value]}
        case dict():
            return {"dict": [[pack(name, arrays), pack(item, arrays)] for name, item in value.items()]}
    raise Unpackable(f"{type(value).__module__}.{type(value).__qualname__}")


def unpack(node: Any, arrays: Arrays) -> Any:
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    match kind:
        case "objects":
            shape, items = content
            array = np.empty(len(items), object)
            array[:] = [unpack(item, arrays) for item in items]
            return array.reshape(shape)
        case "categorical":
            return _categorical(unpack(content, arrays))
        case "gaussian":
            gaussian = DiagGaussianDistribution(0)
            gaussian.set_param(*(unpack(part, arrays) for part in content))
            return gaussian
        case "episode":
            episode = EpisodeBuffer()
            for name, items in content.items():
                setattr(episode, name, list(unpack(items, arrays)))
            return episode
        case "int":
            return int(content)
        case "tensor":
            return torch.from_numpy(arrays[content])
        case "array":
            return arrays[content]
        case "list":
            return [unpack(item, arrays) for item in content]
        case "tuple":
            return tuple(unpack(item, arrays) for item in content)
        case "dict":
            return {unpack(name, arrays): unpack(item, arrays) for name, item in content}
    raise ValueError(f"a checkpoint's state holds a {kind!r}, which this version does not know")


def _categorical(logits: torch.Tensor) -> CategoricalDistribution:
    distribution = CategoricalDistribution(logits.shape[-1])
    distribution.set_param(logits=logits)
    distribution.logits = logits  # as they were: to normalise them once more changes their last bits
    return distribution


def _keep(array: Any, arrays: Arrays) -> str:
    name = f"a{len(arrays)}"
    arrays[name] = np.array(array, order="C")
    return name
