"""The config of a tabular run. Everything else (validation, flags, forms, docs) is derived from these dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta


@dataclass(frozen=True)
class TabularParams:
    """Hyperparameters that all tabular algorithms share."""

    learning_rate: Annotated[float, Meta(gt=0, le=1, description="Step size of the update")] = 0.1
    discount: Annotated[float, Meta(ge=0, le=1, description="How much the next state's value counts")] = 0.99
    epsilon_start: Annotated[float, Meta(ge=0, le=1, description="Share of random actions at the start")] = 1.0
    epsilon_end: Annotated[float, Meta(ge=0, le=1, description="Share of random actions after exploration")] = 0.05
    exploration_fraction: Annotated[
        float, Meta(gt=0, le=1, description="Part of the budget over which epsilon falls from start to end")
    ] = 0.5


@dataclass(frozen=True)
class TabularWorkerConfig:
    run_id: Annotated[str, Meta(description="Identifies the run; the platform fills it in")] = ""
    algorithm: Annotated[
        Literal["q_learning", "sarsa", "expected_sarsa"], Meta(description="Which update rule learns the table")
    ] = "q_learning"
    env_id: Annotated[str, Meta(description="A Gymnasium environment with discrete spaces")] = "FrozenLake-v1"
    env_kwargs: Annotated[dict[str, Any], Meta(description="Passed to gymnasium.make")] = field(default_factory=dict)
    total_timesteps: Annotated[int, Meta(ge=1, description="Training budget in environment steps")] = 200_000
    seed: Annotated[int, Meta(ge=0, description="Seeds environment and exploration")] = 0
    checkpoint_every: Annotated[int, Meta(ge=0, description="Steps between checkpoints; 0: only at the end")] = 50_000
    report_every: Annotated[int, Meta(ge=1, description="Steps between metrics")] = 1_000
    step_events: Annotated[bool, Meta(description="Report every single environment step")] = False
    hyperparameters: Annotated[dict[str, Any], Meta(description="Hyperparameters of the algorithm")] = field(
        default_factory=dict
    )
