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
_REPLAY = (
    "num_steps_sampled_before_learning_starts",
    "target_network_update_freq",
    "tau",
    "n_step",
    "training_intensity",
    "replay_buffer_config",
)
_VTRACE = ("vtrace_clip_rho_threshold", "vtrace_clip_pg_rho_threshold", "broadcast_interval")
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
    "A2C": AlgorithmEntry(
        "A2C",
        "Advantage actor-critic: one step of learning on every short batch, nothing seen twice.",
        "ray_worker.a2c:A2CConfig",
        ("discrete", "box"),
        (*_COMMON, "lambda_", "vf_loss_coeff", "entropy_coeff"),
    ),
    "DQN": AlgorithmEntry(
        "DQN",
        "Deep Q-learning from a replay buffer: discrete actions only, frugal with steps, slow with time.",
        "ray.rllib.algorithms.dqn:DQNConfig",
        ("discrete",),
        (*_COMMON, *_REPLAY, "epsilon", "double_q", "dueling", "adam_epsilon"),
    ),
    "IMPALA": AlgorithmEntry(
        "IMPALA",
        "Learns from what runners play meanwhile, corrected for the lag: the fastest with many runners.",
        "ray.rllib.algorithms.impala:IMPALAConfig",
        ("discrete", "box"),
        (*_COMMON, *_VTRACE, "vf_loss_coeff", "entropy_coeff"),
    ),
    "APPO": AlgorithmEntry(
        "APPO",
        "Asynchronous PPO: IMPALA with PPO's clipped steps.",
        "ray.rllib.algorithms.appo:APPOConfig",
        ("discrete", "box"),
        (
            *_COMMON,
            *_VTRACE,
            "vf_loss_coeff",
            "entropy_coeff",
            "clip_param",
            "use_kl_loss",
            "kl_coeff",
            "kl_target",
            "target_network_update_freq",
            "tau",
            "circular_buffer_num_batches",
            "circular_buffer_iterations_per_batch",
        ),
    ),
    "SAC": AlgorithmEntry(
        "SAC",
        "Soft actor-critic from a replay buffer: strong on continuous actions, also for discrete ones.",
        "ray.rllib.algorithms.sac:SACConfig",
        ("discrete", "box"),
        (
            "actor_lr",
            "critic_lr",
            "alpha_lr",
            *_COMMON[1:],
            *_REPLAY,
            "initial_alpha",
            "target_entropy",
            "twin_q",
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
