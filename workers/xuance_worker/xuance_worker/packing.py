"""Values as JSON plus arrays: what a checkpoint can hold without a pickle, so that loading one executes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

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
        case np.ndarray():
            return {"array": _keep(value, arrays)}
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


def _keep(array: Any, arrays: Arrays) -> str:
    name = f"a{len(arrays)}"
    arrays[name] = np.array(array, order="C")
    return name
