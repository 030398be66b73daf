"""Ray RLlib under MOSAIC. Importing this package imports neither Ray nor torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mosaic.worker import WorkerCapabilities

if TYPE_CHECKING:
    from ray_worker.evaluation_results import EpisodeMetrics, EvaluationResults
    from ray_worker.policy_actor import RayPolicyActor, RayPolicyConfig, RayPolicyController, create_ray_actor
    from ray_worker.policy_evaluator import EvaluationConfig, PolicyEvaluator, run_evaluation

__version__ = "0.1.0"

CAPABILITIES = WorkerCapabilities(
    worker_type="ray",
    supported_paradigms=(
        "single_agent",
        "parameter_sharing",
        "independent",
        "self_play",
        "shared_value_function",
        "mapping",
        "population",
    ),
    env_families=("gymnasium", "sisl", "classic", "butterfly", "mpe"),
    action_spaces=("discrete", "box"),
    observation_spaces=("box", "discrete", "dict"),
    max_agents=100,
    supports_checkpointing=True,
    supports_self_play=True,
    supports_population_based_training=True,
    supports_pause_resume=True,
    estimated_memory_mb=1200,
)

_EXPORTS = {
    "EpisodeMetrics": "evaluation_results",
    "EvaluationConfig": "policy_evaluator",
    "EvaluationResults": "evaluation_results",
    "PolicyEvaluator": "policy_evaluator",
    "RayPolicyActor": "policy_actor",
    "RayPolicyConfig": "policy_actor",
    "RayPolicyController": "policy_actor",
    "create_ray_actor": "policy_actor",
    "run_evaluation": "policy_evaluator",
}

__all__ = [
    "CAPABILITIES",
    "EpisodeMetrics",
    "EvaluationConfig",
    "EvaluationResults",
    "PolicyEvaluator",
    "RayPolicyActor",
    "RayPolicyConfig",
    "RayPolicyController",
    "create_ray_actor",
    "get_worker_metadata",
    "run_evaluation",
]


def get_worker_metadata() -> WorkerCapabilities:
    return CAPABILITIES


def __getattr__(name: str) -> Any:
    """The inference layer is imported when it is first asked for: it needs torch, describing the worker does not."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
