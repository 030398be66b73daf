"""Derives every algorithm's JSON Schema from RLlib's own config classes.

`python -m ray_worker.schema_source` writes `schemas.json`, which is what the worker describes itself with: importing
RLlib takes many seconds, reading a file none. A test derives the schemas anew and compares, so they cannot drift.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union

import msgspec
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from mosaic.worker.schema import DIALECT
from ray_worker.algo_params import ALGORITHMS, SCHEMA_FILE, SCHEMA_VERSION, AlgorithmEntry

# What RLlib's annotations cannot say.
BOUNDS: dict[str, dict[str, float]] = {
    "gamma": {"minimum": 0, "maximum": 1},
    "lambda_": {"minimum": 0, "maximum": 1},
    "tau": {"exclusiveMinimum": 0, "maximum": 1},
    "grad_clip": {"exclusiveMinimum": 0},
    "clip_param": {"exclusiveMinimum": 0},
    "vf_clip_param": {"exclusiveMinimum": 0},
    "vf_loss_coeff": {"minimum": 0},
    "kl_coeff": {"minimum": 0},
    "kl_target": {"exclusiveMinimum": 0},
    "train_batch_size_per_learner": {"minimum": 1},
    "minibatch_size": {"minimum": 1},
    "num_epochs": {"minimum": 1},
    "n_step": {"minimum": 1},
    "num_steps_sampled_before_learning_starts": {"minimum": 0},
    "target_network_update_freq": {"minimum": 0},
    "num_atoms": {"minimum": 1},
    "initial_alpha": {"exclusiveMinimum": 0},
    "rollout_fragment_length": {"minimum": 1},
    "circular_buffer_num_batches": {"minimum": 1},
    "circular_buffer_iterations_per_batch": {"minimum": 1},
    "broadcast_interval": {"minimum": 1},
    "max_seq_len": {"minimum": 1},
    "log_std_clip_param": {"exclusiveMinimum": 0},
}
CHOICES: dict[str, list[str]] = {
    "grad_clip_by": ["value", "norm", "global_norm"],
    "fcnet_activation": ["tanh", "relu", "silu", "linear"],
    "conv_activation": ["tanh", "relu", "silu", "linear"],
    "head_fcnet_activation": ["tanh", "relu", "silu", "linear"],
}
# A constant, or a piecewise linear schedule of (step, value) pairs that starts at step 0.
RATE_OR_SCHEDULE = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {
            "type": "array",
            "minItems": 2,
            "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number", "minimum": 0}},
        },
    ]
}
SCHEDULED = {"lr", "entropy_coeff", "actor_lr", "critic_lr", "alpha_lr", "epsilon"}
POSITIVE_INTEGERS = {"type": "array", "items": {"type": "integer", "minimum": 1}}
CONV_FILTERS = {
    "anyOf": [{"type": "array", "items": {**POSITIVE_INTEGERS, "minItems": 3, "maxItems": 3}}, {"type": "null"}]
}
REPLAY = "replay_buffer_config"
REPLAY_PLAIN = "EpisodeReplayBuffer"
REPLAY_PRIORITISED = "PrioritizedEpisodeReplayBuffer"
# The parts of RLlib's default networks that can be served without RLlib.
MODEL_FIELDS = (
    "fcnet_hiddens",
    "fcnet_activation",
    "fcnet_use_layernorm",
    "conv_filters",
    "conv_activation",
    "head_fcnet_hiddens",
    "head_fcnet_activation",
    "head_fcnet_use_layernorm",
    "vf_share_layers",
    "free_log_std",
    "log_std_clip_param",
)


def derive_all() -> dict[str, Any]:
    """All schemas, as `schemas.json` holds them."""
    return {"ray": ray.__version__, "schemas": {name: derive(entry) for name, entry in ALGORITHMS.items()}}


def derive(entry: AlgorithmEntry) -> dict[str, Any]:
    config = load_config_class(entry)()
    kinds, texts = _documented(type(config))
    properties = {
        name: _replay_schema(config)
        if name == REPLAY
        else _property(name, kinds[name], getattr(config, name), texts.get(name, ""))
        for name in entry.parameters
    }
    properties["model_config"] = _model_schema(entry)
    return {
        "$schema": DIALECT,
        "version": SCHEMA_VERSION,
        "title": f"{entry.title} hyperparameters",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def load_config_class(entry: AlgorithmEntry) -> type[AlgorithmConfig]:
    module, name = entry.config_class.split(":")
    found: type[AlgorithmConfig] = getattr(importlib.import_module(module), name)
    return found


def _documented(kind: type) -> tuple[dict[str, Any], dict[str, str]]:
    """Annotation and description of every setting, from the methods of the config class and its bases."""
    kinds: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for method in ("training", "env_runners", "learners"):
            if method not in vars(base):
                continue
            function = vars(base)[method]
            kinds |= {name: one.annotation for name, one in inspect.signature(function).parameters.items()}
            texts |= dict(_argument_texts(function.__doc__ or ""))
    return kinds, texts


def _argument_texts(docstring: str) -> Iterator[tuple[str, str]]:
    """The first sentence on each argument of a Google-style docstring."""
    arguments = re.search(r"^\s*Args:\n(.*?)(?:^\s*(?:Returns|Raises):|\Z)", docstring, re.DOTALL | re.MULTILINE)
    for part in re.split(r"\n(?= {12}\w+:)", "\n" + arguments[1].rstrip() if arguments else ""):
        name, _, text = part.strip().partition(":")
        sentence = re.split(r"(?<=[.!])\s", " ".join(text.split()))[0]
        if sentence:
            yield name, sentence


def _property(name: str, kind: Any, default: Any, text: str) -> dict[str, Any]:
    schema = RATE_OR_SCHEDULE if name in SCHEDULED else _type_schema(name, kind)
    if isinstance(default, str) and schema.get("type") in ("integer", "number"):
        schema = {"anyOf": [schema, {"const": default}]}
    if default is None and schema.get("type") != "null" and {"type": "null"} not in schema.get("anyOf", []):
        schema = {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}
    result = {"description": text, **schema, "default": default}
    return result if text else {key: value for key, value in result.items() if key != "description"}


def _type_schema(name: str, kind: Any) -> dict[str, Any]:
    if name in CHOICES:
        return {"enum": CHOICES[name]}
    options = [option for option in _options(kind) if option is not type(None)]
    simple = [_SIMPLE[option] for option in options if option in _SIMPLE]
    if not simple:
        raise TypeError(f"{name}: no JSON type for {kind!r}")
    # A whole number is a number too.
    chosen = "number" if "number" in simple else simple[0]
    return {"type": chosen, **(BOUNDS.get(name, {}) if chosen in ("number", "integer") else {})}


_SIMPLE: Mapping[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def _options(kind: Any) -> list[Any]:
    if typing.get_origin(kind) in (Union, types.UnionType):
        return [option for part in typing.get_args(kind) for option in _options(part)]
    return [kind]


def _model_schema(entry: AlgorithmEntry) -> dict[str, Any]:
    config = load_config_class(entry)()
    defaults = {**dataclasses.asdict(DefaultModelConfig()), **_own_model_defaults(config)}
    hints = typing.get_type_hints(DefaultModelConfig)
    properties: dict[str, Any] = {}
    for name in MODEL_FIELDS:
        if name == "conv_filters":
            schema: dict[str, Any] = CONV_FILTERS
        elif name.endswith("_hiddens"):
            schema = POSITIVE_INTEGERS
        else:
            schema = _type_schema(name, hints[name])
        properties[name] = {**schema, "default": defaults[name]}
    return {
        "description": "The network: RLlib's DefaultModelConfig.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _replay_schema(config: Any) -> dict[str, Any]:
    """The settings of RLlib's episode buffers, with the algorithm's own defaults."""
    defaults = config.replay_buffer_config
    share = {"type": "number", "minimum": 0, "maximum": 1}
    return {
        "description": "The replay buffer; alpha and beta are of the prioritised one.",
        "type": "object",
        "properties": {
            "type": {"enum": [REPLAY_PLAIN, REPLAY_PRIORITISED], "default": defaults["type"]},
            "capacity": {"type": "integer", "minimum": 1, "default": defaults["capacity"]},
            "alpha": {**share, "default": defaults["alpha"]},
            "beta": {**share, "default": defaults["beta"]},
        },
        "additionalProperties": False,
    }


def _own_model_defaults(config: AlgorithmConfig) -> dict[str, Any]:
    """An algorithm's own network defaults (PPO does not share layers with the value function, for one)."""
    own = config._model_config_auto_includes
    return {name: own[name] for name in MODEL_FIELDS if name in own}


def main() -> None:
    target = Path(__file__).with_name(SCHEMA_FILE)
    target.write_bytes(msgspec.json.format(msgspec.json.encode(derive_all())) + b"\n")


if __name__ == "__main__":
    main()
