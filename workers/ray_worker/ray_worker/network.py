"""Trained networks as plain layers, evaluated by NumPy: serving a policy imports neither Ray nor torch.

A network is a list of layers; those with weights have them in a safetensors file under `<index>.<name>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float32]
LayerKind = Literal[
    "linear",
    "layer_norm",
    "tanh",
    "relu",
    "silu",
    "pad",
    "conv",
    "channels_first",
    "channels_last",
    "flatten",
    "append",
]


class Layer(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: LayerKind
    # pad: left, right, top, bottom; conv: stride down and right; layer_norm: epsilon.
    sizes: tuple[int, ...] = ()
    epsilon: float = 0.0


class Network:
    """Evaluates layers on a batch of inputs."""

    def __init__(self, layers: Sequence[Layer], weights: Mapping[str, Array]) -> None:
        self._steps = [(layer, *_weights_of(index, layer, weights)) for index, layer in enumerate(layers)]

    def __call__(self, batch: Array) -> Array:
        value = batch
        for layer, first, second in self._steps:
            value = _apply(layer, value, first, second)
        return value


def _weights_of(index: int, layer: Layer, weights: Mapping[str, Array]) -> tuple[Any, Any]:
    match layer.kind:
        case "linear":
            return np.ascontiguousarray(weights[f"{index}.weight"].T), weights[f"{index}.bias"]
        case "conv":
            kernel = weights[f"{index}.weight"]
            return kernel.reshape(len(kernel), -1).T.copy(), (weights[f"{index}.bias"], kernel.shape[2:])
        case "layer_norm":
            return weights[f"{index}.weight"], weights[f"{index}.bias"]
        case "append":
            return weights[f"{index}.weight"], None
        case _:
            return None, None


def _apply(layer: Layer, value: Any, first: Any, second: Any) -> Any:
    match layer.kind:
        case "linear":
            return value @ first + second
        case "tanh":
            return np.tanh(value)
        case "relu":
            return np.maximum(value, np.float32(0))
        case "silu":
            return value / (np.float32(1) + np.exp(-value))
        case "layer_norm":
            centred = value - value.mean(-1, keepdims=True)
            spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(layer.epsilon))
            return centred / spread * first + second
        case "conv":
            return _convolve(value, first, second[0], second[1], layer.sizes)
        case "pad":
            left, right, top, bottom = layer.sizes
            return np.pad(value, ((0, 0), (0, 0), (top, bottom), (left, right)))
        case "channels_first":
            return value.transpose(0, 3, 1, 2)
        case "channels_last":
            return value.transpose(0, 2, 3, 1)
        case "flatten":
            return np.ascontiguousarray(value).reshape(len(value), -1)
        case "append":
            return np.concatenate((value, np.broadcast_to(first, (len(value), first.shape[-1]))), -1)


def _convolve(value: Array, kernel: Array, bias: Array, window: tuple[int, int], stride: tuple[int, ...]) -> Any:
    """Every window as a row, times the kernels as columns."""
    views = sliding_window_view(value, window, axis=(2, 3))[:, :, :: stride[0], :: stride[1]]
    batch, channels, height, width = views.shape[:4]
    rows = views.transpose(0, 2, 3, 1, 4, 5).reshape(batch * height * width, channels * window[0] * window[1])
    return (rows @ kernel + bias).reshape(batch, height, width, -1).transpose(0, 3, 1, 2)
