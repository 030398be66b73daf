"""The algorithms on offer, what each can be used for, and the schemas of their hyperparameters.

The schemas lie in `schemas.json`, derived from RLlib's config classes by `ray_worker.schema_source`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from mosaic.worker import Algorithm

SCHEMA_FILE = "schemas.json"
SCHEMA_VERSION = 1

ActionKind = Literal["discrete", "box"]

_COMMON = ("lr", "gamma", "grad_clip", "grad_clip_by", "train_batch_size_per_learner", "rollout_fragment_length")
_EPOCHS = ("num_epochs", "minibatch_size", "shuffle_batch_per_epoch")


@dataclass(frozen=True)
class AlgorithmEntry:
    """One algorithm: where RLlib has it, what it can act on, and which of its settings are offered."""

    title: str
    description: str
    config_class: str
    actions: tuple[ActionKind, ...]
    parameters: tuple[str, ...]


ALGORITHMS: Mapping[str, AlgorithmEntry] = {
    "PPO": AlgorithmEntry(
        "PPO",
        "Proximal policy optimisation: the default choice, for discrete and continuous actions.",
        "ray.rllib.algorithms.ppo:PPOConfig",
        ("discrete", "box"),
        (
            *_COMMON,
            *_EPOCHS,
            "use_gae",
            "lambda_",
            "use_kl_loss",
            "kl_coeff",
            "kl_target",
            "vf_loss_coeff",
            "vf_clip_param",
            "entropy_coeff",
            "clip_param",
        ),
    ),
}


@cache
def schemas() -> dict[str, Any]:
    """The hyperparameter schema of each algorithm."""
    found: dict[str, Any] = _file()["schemas"]
    return found


def schema_ray_version() -> str:
    """The version of Ray that the schemas were derived from."""
    return str(_file()["ray"])


@cache
def _file() -> dict[str, Any]:
    return msgspec.json.decode(Path(__file__).with_name(SCHEMA_FILE).read_bytes(), type=dict[str, Any])


def described_algorithms() -> dict[str, Algorithm]:
    return {
        name: Algorithm(entry.title, schemas()[name], entry.description, {"action_spaces": list(entry.actions)})
        for name, entry in ALGORITHMS.items()
    }
