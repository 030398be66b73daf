"""Values as JSON plus arrays: what a checkpoint can hold without pickling, so that loading one executes nothing.

`Packer.pack` turns a value into a plain node, moving arrays aside into `arrays`; `Unpacker.unpack` is the way back.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

Node = Any

BIT_GENERATORS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
# The kinds of arrays that safetensors knows: booleans, integers, floats.
NUMBERS = "biuf"


class Unpackable(Exception):
    """A value of a kind that cannot be kept."""


class Packer:
    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def pack(self, value: Any) -> Node:
        match value:
            case np.generic():  # before float, which np.float64 is as well
                return {"$": "scalar", "dtype": value.dtype.str, "value": self.pack(value.item())}
            case None | bool() | str():
                return value
            case int():
                # Random states hold 128-bit integers, which not every JSON reader takes.
                return value if abs(value) < 2**53 else {"$": "int", "value": str(value)}
            case float():
                return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
            case np.ndarray() if not value.dtype.hasobject and value.dtype.kind not in NUMBERS:
                # Such as FrozenLake's map, an array of bytes.
                plain = self._keep(np.frombuffer(value.tobytes(), np.uint8))
                return {"$": "raw", "key": plain, "dtype": value.dtype.str, "shape": list(value.shape)}
            case np.ndarray():
                return {"$": "array", "key": self._keep(value)}
            case tuple() | list():
                return {"$": "list" if isinstance(value, list) else "tuple", "items": self._all(value)}
            case deque():
                return {"$": "deque", "items": self._all(value), "maxlen": value.maxlen}
            case dict() | OrderedDict():
                return {"$": "dict", "items": [[self.pack(name), self.pack(item)] for name, item in value.items()]}
            case np.random.Generator():
                return {"$": "generator", "state": self.pack(value.bit_generator.state)}
            case _:
                return self._pack_tensor(value)

    def _pack_tensor(self, value: Any) -> Node:
        torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
        if torch is not None and isinstance(value, torch.Tensor):
            return {"$": "tensor", "key": self._keep(value.detach().cpu().numpy()), "device": str(value.device)}
        if jax is not None and isinstance(value, jax.Array):
            return {"$": "jax", "key": self._keep(np.asarray(value))}
        raise Unpackable(f"{type(value).__module__}.{type(value).__qualname__}")

    def _all(self, items: Any) -> list[Node]:
        return [self.pack(item) for item in items]

    def _keep(self, array: np.ndarray[Any, Any]) -> str:
        if array.dtype.hasobject:
            raise Unpackable("an array of objects")
        key = f"a{len(self.arrays)}"
        # A copy: the script goes on with its own.
        self.arrays[key] = np.array(array, order="C")
        return key


class Unpacker:
    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._arrays = arrays

    def unpack(self, node: Node) -> Any:
        if not isinstance(node, dict):
            return node
        match node["$"]:
            case "int":
                return int(node["value"])
            case "float":
                return float(node["value"])
            case "scalar":
                return np.dtype(node["dtype"]).type(self.unpack(node["value"]))
            case "array":
                return self._arrays[node["key"]].copy()
            case "raw":
                return np.frombuffer(self._arrays[node["key"]], node["dtype"]).reshape(node["shape"]).copy()
            case "tensor":
                import torch

                return torch.from_numpy(self._arrays[node["key"]].copy()).to(node["device"])
            case "jax":
                import jax.numpy as jnp

                return jnp.asarray(self._arrays[node["key"]])
            case "tuple":
                return tuple(self._all(node["items"]))
            case "list":
                return self._all(node["items"])
            case "deque":
                return deque(self._all(node["items"]), maxlen=node["maxlen"])
            case "dict":
                return {self.unpack(name): self.unpack(item) for name, item in node["items"]}
            case "generator":
                state = self.unpack(node["state"])
                bits = BIT_GENERATORS[state["bit_generator"]]()
                bits.state = state
                return np.random.Generator(bits)
            case kind:
                raise ValueError(f"a checkpoint's state holds a {kind!r}, which this version does not know")

    def _all(self, items: list[Node]) -> list[Any]:
        return [self.unpack(item) for item in items]
