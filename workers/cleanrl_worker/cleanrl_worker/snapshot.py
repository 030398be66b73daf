"""What a checkpoint of a running script holds, taken at the start of a round of its main loop.

At that point everything that the script knows lies in its module's globals: networks, optimizers, train states,
counters, the current observation, environments. So a script that has no idea of saving can be saved and, in a new
process that has just come to the start of its main loop, be put back. Weights lie in `<algorithm>.cleanrl_model`
(safetensors) by their own names, everything else in `state.json` and `state.safetensors`, the replay buffer, where
asked for, in `replay.safetensors`. Nothing is pickled.
"""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from cleanrl_worker.objects import (
    STATISTICS,
    capture_objects,
    capture_statistics,
    environments_in,
    restore_object,
    restore_objects,
    same_shape,
)
from cleanrl_worker.packing import Node, Packer, Unpackable, Unpacker
from mosaic.worker import CheckpointError

STATE_FORMAT = 1
WEIGHTS_SUFFIX = ".cleanrl_model"
# The parts of a flax train state that a policy needs; the rest is the optimizer's.
FLAX_WEIGHTS = ("params", "target_params")

Names = dict[str, Any]


class State(msgspec.Struct):
    """Everything but weights and replay buffer."""

    format: int
    rounds: int  # rounds of the main loop that are done
    step: int
    elapsed: float  # seconds since the script's start_time
    exact: bool  # whether the environments could be kept
    lost: list[str]  # and what could not, if not
    optimizers: dict[str, Node]
    train_states: dict[str, Node]
    values: dict[str, Node]
    leaves: dict[str, Node]  # trained tensors outside of any module
    statistics: dict[str, Node]
    environments: list[Node]
    random: dict[str, Node]
    curriculum: dict[str, Any] = {}
    histories: dict[str, Node] = {}  # such as the returns of the last episodes


@dataclass
class Snapshot:
    """A script's state, copied: the script may go on while it is written."""

    state: State
    weights: dict[str, np.ndarray[Any, Any]]
    arrays: dict[str, np.ndarray[Any, Any]]
    replay: dict[str, np.ndarray[Any, Any]] | None

    def write(self, folder: Path, algorithm: str) -> None:
        save_file(self.weights, folder / f"{algorithm}{WEIGHTS_SUFFIX}")
        save_file(self.arrays, folder / "state.safetensors")
        (folder / "state.json").write_bytes(msgspec.json.encode(self.state))
        if self.replay is not None:
            save_file(self.replay, folder / "replay.safetensors")


def read_state(folder: Path) -> State:
    try:
        state = msgspec.json.decode((folder / "state.json").read_bytes(), type=State)
    except (OSError, msgspec.DecodeError) as error:
        raise CheckpointError(f"checkpoint {folder}: state.json cannot be read: {error}") from None
    if state.format != STATE_FORMAT:
        raise CheckpointError(f"checkpoint {folder}: state format {state.format}, allowed: {STATE_FORMAT}")
    return state


def read_arrays(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    return load_file(folder / "state.safetensors")


def weights_file(folder: Path) -> Path:
    found = sorted(folder.glob(f"*{WEIGHTS_SUFFIX}"))
    if len(found) != 1:
        raise CheckpointError(f"checkpoint {folder}: {len(found)} files *{WEIGHTS_SUFFIX}, allowed: one")
    return found[0]


def capture(
    script: Names,
    carried: frozenset[str],
    rounds: int,
    *,
    with_environments: bool,
    with_replay: bool,
    curriculum: dict[str, Any],
) -> Snapshot:
    """Take a copy of all that a script knows. `carried`: the names that its main loop hands from round to round."""
    packer = Packer()
    weights: dict[str, np.ndarray[Any, Any]] = {}
    for name, module in _modules(script).items():
        for key, tensor in module.state_dict().items():
            weights[f"{name}.{key}"] = np.array(tensor.detach().cpu().numpy(), order="C")
    train_states = {}
    for name, train_state in _train_states(script).items():
        tree = _flax().to_state_dict(train_state)
        for part in FLAX_WEIGHTS:
            weights |= {f"{name}.{key}": array for key, array in _flatten(tree.pop(part, {}), part).items()}
        train_states[name] = packer.pack(_to_numpy(tree))
    environments: list[Node] = []
    lost = ["taken in the middle of a round"]
    if with_environments:
        environments, lost = capture_objects(list(environments_in(script["envs"])), packer)
    state = State(
        format=STATE_FORMAT,
        rounds=rounds,
        step=int(script.get("global_step", 0)),
        elapsed=time.time() - script.get("start_time", time.time()),
        exact=not lost,
        lost=lost,
        optimizers={name: packer.pack(item.state_dict()) for name, item in _optimizers(script).items()},
        train_states=train_states,
        values=_capture_values(script, carried, packer),
        leaves={name: packer.pack(item) for name, item in _leaves(script).items()},
        statistics={name: capture_statistics(item, packer) for name, item in _statistics(script).items()},
        environments=environments,
        random={
            "python": packer.pack(random.getstate()),
            "numpy": packer.pack(np.random.get_state(legacy=False)),
            "torch": packer.pack(torch.get_rng_state()),
        },
        curriculum=curriculum,
        histories={name: packer.pack(item) for name, item in _of_kind(script, deque).items()},
    )
    replay = _capture_replay(script["rb"]) if with_replay and "rb" in script else None
    return Snapshot(state, weights, packer.arrays, replay)


def restore(script: Names, folder: Path) -> State:
    """Put a script that stands at the start of its main loop where the checkpoint was taken."""
    state = read_state(folder)
    unpacker = Unpacker(read_arrays(folder))
    weights = load_file(weights_file(folder))
    for name, module in _modules(script).items():
        part = {key.removeprefix(f"{name}."): array for key, array in weights.items() if key.startswith(f"{name}.")}
        module.load_state_dict({key: torch.from_numpy(array) for key, array in part.items()})
    for name, optimizer in _optimizers(script).items():
        optimizer.load_state_dict(unpacker.unpack(state.optimizers[name]))
    for name, train_state in _train_states(script).items():
        tree = unpacker.unpack(state.train_states[name])
        part = {key.removeprefix(f"{name}."): array for key, array in weights.items() if key.startswith(f"{name}.")}
        script[name] = _flax().from_state_dict(train_state, tree | unflatten(part))
    for name, leaf in _leaves(script).items():
        with torch.no_grad():
            leaf.copy_(unpacker.unpack(state.leaves[name]))
    for name, item in _statistics(script).items():
        restore_object(item, state.statistics[name], unpacker)
    exact = _restore_environments(script, state, unpacker)
    for name, node in state.values.items():
        # Without its environment an old observation would be a lie; numbers, and keys of random numbers, are not.
        if exact or not isinstance(node, dict) or node["$"] in ("int", "float", "scalar") or name == "key":
            script[name] = unpacker.unpack(node)
    script |= {name: unpacker.unpack(node) for name, node in state.histories.items()}
    script["global_step"] = state.step
    if "start_time" in script:
        script["start_time"] = time.time() - state.elapsed
    _restore_replay(script, state, folder)
    # Last: everything above may have drawn random numbers.
    random.setstate(unpacker.unpack(state.random["python"]))
    np.random.set_state(unpacker.unpack(state.random["numpy"]))
    torch.set_rng_state(unpacker.unpack(state.random["torch"]))
    return state


def _of_kind(script: Names, kind: type) -> dict[str, Any]:
    return {name: item for name, item in script.items() if isinstance(item, kind) and not name.startswith("_")}


def _modules(script: Names) -> dict[str, torch.nn.Module]:
    return _of_kind(script, torch.nn.Module)


def _optimizers(script: Names) -> dict[str, torch.optim.Optimizer]:
    return _of_kind(script, torch.optim.Optimizer)


def _leaves(script: Names) -> dict[str, torch.Tensor]:
    """Tensors that are trained without being part of a module, such as SAC's log_alpha."""
    tensors = _of_kind(script, torch.Tensor)
    trained = {id(p) for item in _optimizers(script).values() for group in item.param_groups for p in group["params"]}
    return {name: tensor for name, tensor in tensors.items() if id(tensor) in trained}


def _statistics(script: Names) -> dict[str, Any]:
    return {name: item for name, item in script.items() if type(item).__name__ in STATISTICS}


def _train_states(script: Names) -> dict[str, Any]:
    module = sys.modules.get("flax.training.train_state")
    return {} if module is None else _of_kind(script, module.TrainState)


def _flax() -> Any:
    return sys.modules["flax.serialization"]


def _to_numpy(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {name: _to_numpy(item) for name, item in tree.items()}
    return tree if tree is None or isinstance(tree, (int, float, str)) else np.asarray(tree)


def _flatten(tree: Any, prefix: str) -> dict[str, np.ndarray[Any, Any]]:
    if not isinstance(tree, Mapping):
        return {prefix: np.array(tree, order="C")}
    return {key: array for name, item in tree.items() for key, array in _flatten(item, f"{prefix}/{name}").items()}


def unflatten(flat: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, array in flat.items():
        *parents, last = path.split("/")
        node = tree
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = array
    return tree


def _capture_values(script: Names, carried: frozenset[str], packer: Packer) -> dict[str, Node]:
    values = {}
    kept = (*_modules(script), *_train_states(script), *_leaves(script))
    for name in sorted(carried - set(kept)):
        if name in script:
            try:
                values[name] = packer.pack(script[name])
            except Unpackable:
                # Such as envpool's handle: made anew by the new process.
                continue
    return values


def _restore_environments(script: Names, state: State, unpacker: Unpacker) -> bool:
    """Whether the environments stand again exactly where they stood; their normalisation is restored in any case."""
    if not state.environments:
        return False
    items = list(environments_in(script["envs"]))
    if not same_shape(items, state.environments):
        return False
    if state.exact:
        restore_objects(items, state.environments, unpacker)
    else:
        for item, node in zip(items, state.environments, strict=True):
            restore_object(item, node, unpacker, statistics_only=True)
    return state.exact


REPLAY_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _capture_replay(buffer: Any) -> dict[str, np.ndarray[Any, Any]]:
    if hasattr(buffer, "capture"):  # one of our own scripts'
        arrays: dict[str, np.ndarray[Any, Any]] = buffer.capture()
        return arrays
    filled = buffer.buffer_size if buffer.full else buffer.pos
    arrays = {name: getattr(buffer, name)[:filled].copy() for name in REPLAY_ARRAYS if hasattr(buffer, name)}
    return {**arrays, "position": np.array([buffer.pos, int(buffer.full)])}


def _restore_replay(script: Names, state: State, folder: Path) -> None:
    if "rb" not in script:
        return
    path, buffer = folder / "replay.safetensors", script["rb"]
    if not path.exists():
        # Learning waits until the buffer holds again what the script wants it to hold before it learns. Our own scripts
        # look at the buffer, not at the step.
        if hasattr(script["args"], "learning_starts"):
            script["args"].learning_starts += state.step
        return
    arrays = load_file(path)
    if hasattr(buffer, "restore"):
        buffer.restore(arrays)
        return
    buffer.pos, full = (int(item) for item in arrays.pop("position"))
    buffer.full = bool(full)
    for name, array in arrays.items():
        target = getattr(buffer, name)
        if len(array) > len(target):
            raise CheckpointError(
                f"checkpoint {folder}: its replay buffer holds {len(array)} rows, buffer_size allows {len(target)}"
            )
        target[: len(array)] = array
