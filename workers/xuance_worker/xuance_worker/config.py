"""The config of a XuanCe run. Everything else (validation, flags, forms, docs) is derived from these dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

Family = Literal["mpe", "sisl", "butterfly", "classic", "gymnasium", "minigrid", "smac"]


@dataclass(frozen=True)
class StageConfig:
    """One stage of a curriculum: an environment with the same agents and spaces, and how long to train on it."""

    steps: Annotated[int, Meta(ge=1, description="Environment steps of this stage; the last one gets what is left")]
    env_id: Annotated[str, Meta(description="Environment of this stage; empty: the run's own")] = ""
    env_kwargs: Annotated[dict[str, Any], Meta(description="Passed to the environment of this stage")] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class XuanCeWorkerConfig:
    run_id: Annotated[str, Meta(description="Identifies the run; the platform fills it in")] = ""
    algorithm: Annotated[str, Meta(description="Which of XuanCe's algorithms learns")] = "mappo"
    env_family: Annotated[Family, Meta(description="Where the environment comes from")] = "mpe"
    env_id: Annotated[str, Meta(description="Such as simple_spread_v3, tictactoe_v3, CartPole-v1")] = "simple_spread_v3"
    env_kwargs: Annotated[dict[str, Any], Meta(description="Passed to the environment when it is made")] = field(
        default_factory=dict
    )
    mode: Annotated[Literal["train", "evaluate"], Meta(description="Train, or play episodes with a checkpoint")] = (
        "train"
    )
    checkpoint: Annotated[
        str, Meta(description="Checkpoint folder to evaluate, or whose weights a training starts with")
    ] = ""
    episodes: Annotated[int, Meta(ge=1, description="How many episodes an evaluation plays")] = 20
    backend: Annotated[Literal["torch"], Meta(description="Which of XuanCe's backends computes")] = "torch"
    learning_rate: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(description="Learning rate, of actor and critic alike; null: the algorithm's own"),
    ] = None
    batch_size: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Transitions in a minibatch of an update; null: the algorithm's own"),
    ] = None
    total_timesteps: Annotated[int, Meta(ge=1, description="Training budget in environment steps")] = 1_000_000
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1, description="Seeds environments, networks and exploration")] = 0
    device: Annotated[str, Meta(pattern=r"^(cpu|cuda(:\d+)?)$", description="cpu, cuda or cuda:N")] = "cpu"
    parallels: Annotated[int, Meta(ge=1, le=256, description="Environments that are stepped together")] = 8
    parameter_sharing: Annotated[
        bool | None, Meta(description="One network for all agents; null: wherever their spaces are alike")
    ] = None
    max_steps: Annotated[
        int, Meta(ge=0, description="Cut episodes after this many steps; 0: the environment's own")
    ] = 0
    image_size: Annotated[
        int, Meta(ge=24, le=256, description="Images are shrunk to squares of so many pixels a side")
    ] = 42
    vectorize: Annotated[
        Literal["dummy", "subprocess"],
        Meta(description="dummy: environments are stepped one after another; subprocess: at once, each in a process"),
    ] = "dummy"
    curriculum: Annotated[list[StageConfig], Meta(description="Stages to train one after the other")] = field(
        default_factory=list
    )
    checkpoint_every: Annotated[int, Meta(ge=0, description="Steps between checkpoints; 0: only at the end")] = 0
    keep_checkpoints: Annotated[int, Meta(ge=0, description="How many of the newest to keep; 0: all")] = 5
    save_buffer: Annotated[
        bool, Meta(description="Keep the replay buffer in checkpoints: without it, a resumed run refills it first")
    ] = True
    report_every: Annotated[int, Meta(ge=1, description="Steps between metrics")] = 2_000
    tensorboard: Annotated[bool, Meta(description="Also write the metrics for TensorBoard")] = False
    wandb: Annotated[bool, Meta(description="Also write the metrics for Weights & Biases, offline")] = False
    hyperparameters: Annotated[dict[str, Any], Meta(description="Hyperparameters of the algorithm")] = field(
        default_factory=dict
    )
    extras: Annotated[
        dict[str, str | int | float | bool], Meta(description="Settings of FastLane, such as fastlane_video_mode")
    ] = field(default_factory=dict)
