"""Checkpoints from which a run goes on exactly: what XuanCe saves, and all that it forgets.

XuanCe keeps the policy, the optimizers and torch's random state. Lost would be: the step and episode counters, epsilon
and noise, the learning-rate schedule, value and observation normalisers, SAC's temperature, the replay or rollout
buffer, NumPy's and Python's random states, and where the environments stand.

`policy.safetensors` holds the weights under XuanCe's names; `training.json` with `training.safetensors` the rest but
for the buffer, which lies in `buffer.safetensors`; `config.json` the run's config. Nothing is pickled.
"""

from __future__ import annotations

import json
import random
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file as save_tensors
from xuance.common.segtree_tool import SegmentTree

from mosaic.worker import CheckpointError
from xuance_worker import vector
from xuance_worker.packing import Arrays, pack, unpack

POLICY, TRAINING, STATE, BUFFER, CONFIG = (
    "policy.safetensors",
    "training.json",
    "training.safetensors",
    "buffer.safetensors",
    "config.json",
)
COUNTERS = ("current_step", "current_episode", "e_greedy", "egreedy", "noise_scale", "returns")
UNDER_WAY = ("actions_mean", "episodes", "rnn_hidden")  # of the episodes that the environments are in
NORMALISERS = ("obs_rms", "ret_rms")
LEARNER_COUNTERS = ("iterations", "learning_rate", "egreedy", "kl_coef")
NOT_LEARNED = ("policy", "config", "callback")


def write(folder: Path, agent: Any, config: dict[str, Any], progress: dict[str, Any], *, with_buffer: bool) -> None:
    save_policy(folder, agent)
    arrays: Arrays = {}
    state = {
        "agent": _agent_state(agent),
        "learner": _learner_state(agent.learner),
        "random": _random_state(),
        "action_random": vector.action_randomness(agent.train_envs),
        "positions": vector.positions(agent.train_envs),
        "progress": progress,
    }
    document = {"format": 1, "state": pack(state, arrays)}
    if with_buffer:
        kept: Arrays = {}
        document["buffer"] = pack(_buffer_state(agent.memory), kept)
        save_file(kept, folder / BUFFER)
    save_file(arrays, folder / STATE)
    (folder / TRAINING).write_text(json.dumps(document))
    (folder / CONFIG).write_text(json.dumps(config, indent=1))


def read(folder: Path, agent: Any) -> dict[str, Any]:
    """Put agent and environments back; the answer is the progress that was saved with them."""
    load_policy(folder, agent)
    document = json.loads((folder / TRAINING).read_text())
    state = unpack(document["state"], load_file(folder / STATE))
    vector.go_to(agent.train_envs, state["positions"])
    vector.set_action_randomness(agent.train_envs, state["action_random"])
    _set_agent_state(agent, state["agent"])
    _set_learner_state(agent.learner, state["learner"])
    if "buffer" in document:
        _set_buffer_state(agent.memory, unpack(document["buffer"], load_file(folder / BUFFER)))
    _set_random_state(state["random"])
    progress: dict[str, Any] = state["progress"]
    return progress


def read_for_acting(folder: Path, agent: Any) -> None:
    """What acting needs: the weights, and how observations are normalised."""
    load_policy(folder, agent)
    document = json.loads((folder / TRAINING).read_text())
    saved = unpack(document["state"], load_file(folder / STATE))["agent"]
    _set_agent_state(agent, {name: saved[name] for name in NORMALISERS if name in saved})


def save_policy(folder: Path, agent: Any) -> None:
    # Copies: networks that share parts are saved twice, which safetensors would refuse.
    weights = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in agent.policy.state_dict().items()}
    save_tensors(weights, str(folder / POLICY))


def load_policy(folder: Path, agent: Any) -> None:
    """All weights, or a CheckpointError: XuanCe's own loading passes over those that do not fit."""
    try:
        agent.policy.load_state_dict(load_tensors(str(folder / POLICY)))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"checkpoint {folder.name}: its weights are not of this network: {reason}") from None


def _agent_state(agent: Any) -> dict[str, Any]:
    state = {name: getattr(agent, name) for name in (*COUNTERS, *UNDER_WAY) if getattr(agent, name, None) is not None}
    normalisers = {name: getattr(agent, name, None) for name in NORMALISERS}
    return state | {name: _numbers_of(item) for name, item in normalisers.items() if item is not None}


def _set_agent_state(agent: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if name in NORMALISERS:
            for part, numbers in value.items():
                setattr(getattr(agent, name), part, numbers)
        else:
            setattr(agent, name, value)


def _numbers_of(item: Any) -> dict[str, Any]:
    return {
        name: value for name, value in vars(item).items() if isinstance(value, (int, float, np.ndarray, np.generic))
    }


def _learner_state(learner: Any) -> dict[str, Any]:
    state = {name: getattr(learner, name) for name in LEARNER_COUNTERS if hasattr(learner, name)}
    for name, value in vars(learner).items():
        if name not in NOT_LEARNED and (found := _learned(value)) is not None:
            state[name] = found
    return state


def _learned(value: Any) -> Any:
    """What is learned in an attribute, None for nothing: tensors, and whatever has a state of its own."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)):
        return value.state_dict()
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: found for name, item in items if (found := _learned(item)) is not None} or None
    return None


def _set_learner_state(learner: Any, state: dict[str, Any]) -> None:
    for name, saved in state.items():
        if name in LEARNER_COUNTERS:
            setattr(learner, name, saved)
        else:
            _set_learned(getattr(learner, name), saved)


def _set_learned(value: Any, saved: Any) -> None:
    if isinstance(value, torch.Tensor):
        value.data.copy_(saved)
    elif isinstance(value, (dict, list)):
        for name, item in saved.items():
            _set_learned(value[name], item)
    else:
        value.load_state_dict(saved)


def _buffer_state(memory: Any) -> dict[str, Any]:
    state = {"ptr": memory.ptr, "size": memory.size}
    for name, value in vars(memory).items():
        if name not in state and (found := _filled(value, memory)) is not None:
            state[name] = found
    return state


def _filled(value: Any, memory: Any) -> Any:
    """The arrays of an attribute, as far as they are filled; None for nothing."""
    if isinstance(value, np.ndarray):
        shared_out = value.shape[:2] == (memory.n_envs, memory.n_size)
        return value[:, : memory.size] if shared_out and memory.size < memory.n_size else value
    if isinstance(value, SegmentTree):  # of priorities
        return np.array(value._value, float)
    if isinstance(value, deque):  # of episodes
        return list(value)
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: found for name, item in items if (found := _filled(item, memory)) is not None} or None
    return None


def _set_buffer_state(memory: Any, state: dict[str, Any]) -> None:
    for name, saved in state.items():
        if name in ("ptr", "size"):
            setattr(memory, name, saved)
        else:
            _fill(getattr(memory, name), saved)


def _fill(value: Any, saved: Any) -> None:
    if isinstance(saved, dict):
        for name, item in saved.items():
            _fill(value[name], item)
    elif isinstance(value, SegmentTree):
        value._value = saved.tolist()
    elif isinstance(value, deque):
        value.extend(saved)
    elif saved.shape == value.shape:
        value[...] = saved
    else:
        value[:, : saved.shape[1]] = saved


def _random_state() -> dict[str, Any]:
    return {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()}


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    np.random.set_state(state["numpy"])
    random.setstate(state["python"])
