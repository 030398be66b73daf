"""The algorithms' hyperparameters, read from XuanCe's own yaml files.

Needs neither torch nor XuanCe to be imported: `--describe` and the checks of a config take these answers.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mosaic.worker import Algorithm
from mosaic.worker.schema import DIALECT
from xuance_worker.entries import ENTRIES, Entry, Kind

# What the worker decides itself, from the config or from the environment.
OURS = frozenset(
    [
        "agent",
        "env_name",
        "env_id",
        "env_seed",
        "vectorize",
        "policy",
        "learner",
        "runner",
        "representation",
        "seed",
        "parallels",
        "running_steps",
        "eval_interval",
        "test_episode",
        "log_dir",
        "model_dir",
        "render",
        "render_mode",
        "fps",
        "device",
        "dl_toolbox",
        "project_name",
        "logger",
        "wandb_user_name",
        "distributed_training",
        "master_port",
        "continuous_action",
        "use_parameter_sharing",
        "use_actions_mask",
        "clip_type",
        "dropout",
        "target_kl",
        "kl_coef",
        "decay_step_greedy",
        "mixer",
        "alpha_attention",
        "episode_length",
        "test_mode",
        "representation_critic",
        "bias_net",
        "hidden_bias_dim",
        "policy_type",
    ]
)
# What networks with a memory are made of.
RECURRENT = frozenset(
    ["use_rnn", "rnn", "N_recurrent_layers", "recurrent_layer_N", "recurrent_hidden_size", "fc_hidden_sizes"]
)
ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "elu")
SHARES = frozenset(
    ["gamma", "gae_lambda", "start_greedy", "end_greedy", "tau", "end_factor_lr_decay", "PER_alpha", "PER_beta0"]
)
COUNTS = frozenset(
    [
        "buffer_size",
        "horizon_size",
        "batch_size",
        "n_epochs",
        "n_minibatch",
        "training_frequency",
        "sync_frequency",
        "hidden_dim_mixing_net",
        "hidden_dim_hyper_net",
        "policy_nepoch",
        "value_nepoch",
        "aux_nepoch",
        "atom_num",
        "quantile_num",
        "actor_update_delay",
    ]
)
# Schedules whose length is the worker's to choose where the user does not.
DECAYS = (
    ("start_greedy", "decay_step_greedy", "epsilon"),
    ("decay_step_noise", "decay_step_noise", "the noise"),
)
MAY_BE_NEGATIVE = frozenset(("v_min", "target_entropy"))
TEXTS: Mapping[str, tuple[str, ...]] = {
    "activation": ACTIVATIONS,
    "activation_action": ACTIVATIONS,
    "normalize": ("LayerNorm", "BatchNorm"),
    "initialize": ("orthogonal",),
    "rnn": ("GRU", "LSTM"),
    "mixer": ("VDN", "QMIX"),
    "graph_type": ("FULL", "CYCLE", "LINE", "STAR", "VDN"),
}


@cache
def configs_folder() -> Path:
    """Where XuanCe keeps its yaml files. Finding a package does not import it."""
    spec = importlib.util.find_spec("xuance")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("XuanCe is not installed here: pip install --no-deps xuance==1.4.4")
    return Path(spec.origin).parent / "configs"


@cache
def _read(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A yaml file of XuanCe: its values, and the comments behind them."""
    text = (configs_folder() / name).read_text(encoding="utf-8")
    comments = {
        found["name"]: found["comment"].strip()
        for found in re.finditer(r"^(?P<name>\w+) *:[^#\n]*#(?P<comment>.*)$", text, re.MULTILINE)
    }
    return yaml.safe_load(text), comments


def defaults(entry: Entry, kind: Kind) -> dict[str, Any]:
    """All that XuanCe sets for an algorithm, basics included."""
    return {**_read("basic.yaml")[0], **_read(entry.defaults[kind])[0], **entry.settings}


@cache
def params_schema(name: str) -> dict[str, Any]:
    """The hyperparameters of an algorithm as JSON Schema; defaults are those for discrete actions first."""
    entry = ENTRIES[name]
    properties: dict[str, Any] = {}
    for kind in entry.action_kinds:
        _, basic_comments = _read("basic.yaml")
        values, comments = _read(entry.defaults[kind])
        for key, value in {**_shared_by_networks(), **values}.items():
            if _is_offered(entry, key) and key not in properties:
                comment = comments.get(key) or basic_comments.get(key, "")
                properties[key] = _property(key, value, comment)
    for first, name, what in DECAYS:
        if first in properties:
            description = f"Steps over which {what} falls from start to end; not given: half of the budget"
            properties[name] = {"type": "integer", "minimum": 1, "description": description}
    return {
        "$schema": DIALECT,
        "version": 1,
        "title": f"Hyperparameters of {entry.title}",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _is_offered(entry: Entry, key: str) -> bool:
    if key in RECURRENT:
        return entry.memory in ("by choice", "if shared") or key in entry.shown
    return key not in OURS or key in entry.shown


def _shared_by_networks() -> dict[str, Any]:
    values = _read("basic.yaml")[0]
    return {key: values[key] for key in ("activation", "representation_hidden_size")}


def _property(name: str, value: Any, comment: str) -> dict[str, Any]:
    schema: dict[str, Any]
    match value:
        case bool():
            schema = {"type": "boolean"}
        case int() | float():
            schema = {"type": "integer" if _is_count(name, value) else "number"}
            if name not in MAY_BE_NEGATIVE:
                schema["minimum"] = 1 if name in COUNTS else 0
            if name in SHARES:
                schema["maximum"] = 1
        case str():
            schema = {"enum": list(TEXTS.get(name, (value,)))}
        case list():
            schema = {"type": "array", "items": {"type": "integer", "minimum": 1}}
        case None:
            schema = {"type": ["number", "null"]}
        case _:
            raise ValueError(f"XuanCe's default {name}={value!r} is of a kind that has no form here")
    return {**schema, "default": value, **({"description": comment} if comment else {})}


def _is_count(name: str, value: float) -> bool:
    """YAML says 10 where 10.0 is meant: only what counts something is a whole number."""
    if name in COUNTS:
        return True
    return isinstance(value, int) and bool(re.search(r"size|step|freq|epoch|start_training|^n_|dim|num|delay", name))


def described() -> dict[str, Algorithm]:
    """All algorithms as `--describe` tells them."""
    return {
        name: Algorithm(
            entry.title,
            params_schema(name),
            entry.description,
            {
                "paradigm": "multi_agent" if entry.is_multi_agent else "single_agent",
                "action_spaces": list(entry.action_kinds),
                "on_policy": entry.is_on_policy,
                "memory": entry.memory,
                "acting": entry.acting,
            },
        )
        for name, entry in ENTRIES.items()
    }
