"""`policies.json` in a checkpoint: what each policy sees, how its network is built, how its output becomes an action.

Weights lie beside it, one safetensors file for each policy. Reading them executes nothing from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from mosaic.worker import CheckpointError
from ray_worker.config import EnvironmentConfig
from ray_worker.network import Layer, Network
from ray_worker.observations import Codec

FILE = "policies.json"
FOLDER = "policies"
FORMAT = 1


class ActionSpec(msgspec.Struct, frozen=True):
    """How a network's output becomes an action.

    categorical: logits of `size` actions. values: the values of `size` actions; the best is taken. gaussian: `size`
    means and log deviations. squashed_gaussian: the same through a tanh. Outputs from -1 to 1 are stretched to `low`
    and `high` if those are given.
    """

    kind: Literal["categorical", "values", "gaussian", "squashed_gaussian"]
    size: int
    shape: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    log_std_limit: float = 20.0


class PolicyEntry(msgspec.Struct, frozen=True):
    action: ActionSpec
    layers: tuple[Layer, ...]


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    algorithm: str
    environment: dict[str, Any]
    policies: dict[str, PolicyEntry]
    mapping: dict[str, str]
    # What each agent sees; agents that share a policy may differ in it.
    codecs: dict[str, Codec]
    # Policies of the mapping that are no network: "random", or the script that plays.
    others: dict[str, str] = {}

    @property
    def environment_config(self) -> EnvironmentConfig:
        return msgspec.convert(self.environment, EnvironmentConfig)


def weights_path(checkpoint: Path, policy: str) -> Path:
    return checkpoint / FOLDER / f"{policy}.safetensors"


def load_weights(checkpoint: Path, policy: str) -> dict[str, NDArray[np.float32]]:
    weights: dict[str, NDArray[np.float32]] = load_file(weights_path(checkpoint, policy))
    return weights


def write(checkpoint: Path, content: PolicyFile) -> None:
    (checkpoint / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(content)))


def read(checkpoint: Path) -> PolicyFile:
    path = checkpoint / FILE
    try:
        content = msgspec.json.decode(path.read_bytes(), type=PolicyFile)
    except OSError as error:
        raise CheckpointError(f"checkpoint {checkpoint}: no {FILE} ({error.strerror}): not one of worker ray") from None
    except msgspec.DecodeError as error:
        raise CheckpointError(f"checkpoint {checkpoint}: {FILE} cannot be read: {error}") from None
    if content.format > FORMAT:
        raise CheckpointError(f"checkpoint {checkpoint}: {FILE} has format {content.format}, known here: {FORMAT}")
    return content


class NetworkPolicy:
    """Observation in, action out; the codec is that of the agent who acts."""

    def __init__(self, entry: PolicyEntry, network: Network, *, explore: bool = False, seed: int | None = None) -> None:
        self._entry = entry
        self._network = network
        self._explore = explore
        self._random = np.random.default_rng(seed)

    @classmethod
    def load(
        cls, checkpoint: Path, name: str, entry: PolicyEntry, *, explore: bool = False, seed: int | None = None
    ) -> NetworkPolicy:
        network = Network(entry.layers, load_weights(checkpoint, name))
        return cls(entry, network, explore=explore, seed=seed)

    def act(self, codec: Codec, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        return self.act_on(codec.encode(observation), codec.mask(observation, info))

    def act_on(self, encoded: NDArray[np.float32], mask: NDArray[np.float32] | None) -> Any:
        return self.choose(self._network(encoded[None])[0], mask)

    def choose(self, output: NDArray[np.float32], mask: NDArray[np.float32] | None) -> Any:
        action = self._entry.action
        if action.kind in ("categorical", "values"):
            return self._choose_one(output, mask)
        mean, log_std = output[: action.size], output[action.size :]
        if self._explore:
            deviation = np.exp(np.clip(log_std, -action.log_std_limit, action.log_std_limit))
            mean = mean + deviation * self._random.standard_normal(action.size).astype(np.float32)
        if action.kind == "squashed_gaussian":
            mean = np.tanh(mean)
        return stretch(mean, action).reshape(action.shape)

    def _choose_one(self, output: NDArray[np.float32], mask: NDArray[np.float32] | None) -> int:
        if mask is not None:
            if mask.shape != output.shape:
                raise ValueError(f"action_mask: got {mask.size} entries, allowed: {output.size}")
            if not (mask > 0.5).any():
                raise ValueError("action_mask: got no allowed action, allowed: at least one")
            output = np.where(mask > 0.5, output, -np.inf)
        if self._explore and self._entry.action.kind == "categorical":
            noise = self._random.gumbel(size=output.shape)
            return int(np.argmax(output + noise))
        return int(np.argmax(output))


def stretch(action: NDArray[np.float32], spec: ActionSpec) -> NDArray[np.float32]:
    """From the network's -1 to 1 to the environment's bounds, as RLlib does it."""
    if not spec.low:
        return action
    low, high = np.asarray(spec.low, np.float32), np.asarray(spec.high, np.float32)
    return np.clip(low + (action + 1) * (high - low) / 2, low, high)
