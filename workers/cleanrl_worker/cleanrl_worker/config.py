"""The config of a CleanRL run: the single source of truth for flags, forms, validation and docs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cleanrl_worker.schedule import CurriculumStage, PresetName
from mosaic.worker.config import read_config_file

Mode = Literal["train", "resume_training", "policy_eval", "interactive"]


@dataclass(frozen=True)
class CleanRLExtras:
    """Everything beyond which algorithm, which environment, how long."""

    mode: Annotated[Mode, Meta(description="What to do")] = "train"
    algo_params: Annotated[dict[str, Any], Meta(description="Hyperparameters: the script's own flags")] = field(
        default_factory=dict
    )
    curriculum_schedule: Annotated[
        list[CurriculumStage] | PresetName | None,
        Meta(description="Stages that training goes through, or the name of a preset; turns on curriculum training"),
    ] = None
    policy_path: Annotated[
        str | None, Meta(description="Checkpoint whose policy plays: its folder or its .cleanrl_model file")
    ] = None
    eval_episodes: Annotated[int, Meta(ge=1, description="Episodes of an evaluation, per repeat")] = 10
    eval_repeats: Annotated[int, Meta(ge=1, description="How often to evaluate, each time with other seeds")] = 1
    eval_batch_size: Annotated[int, Meta(ge=1, le=1024, description="Environments that are stepped together")] = 8
    eval_gamma: Annotated[float, Meta(ge=0, le=1, description="Discount of the discounted returns")] = 0.99
    deterministic: Annotated[bool, Meta(description="Let the policy take its best action instead of a sample")] = True
    checkpoint_path: Annotated[
        str | None, Meta(description="Checkpoint to resume from: its folder or its .cleanrl_model file")
    ] = None
    checkpoint_interval: Annotated[int, Meta(ge=0, description="Steps between checkpoints; 0: only at the end")] = 0
    keep_checkpoints: Annotated[int, Meta(ge=0, description="How many checkpoints to keep; 0: all")] = 0
    save_replay_buffer: Annotated[
        bool, Meta(description="Keep the replay buffer of off-policy algorithms in checkpoints")
    ] = False
    cuda: Annotated[bool, Meta(description="Use a GPU where there is one")] = False
    use_cuda: Annotated[bool, Meta(description="The same as cuda")] = False
    capture_video: Annotated[bool, Meta(description="Record videos of the first environment")] = False
    fastlane_video_mode: Annotated[
        Literal["single", "grid", "off"],
        Meta(description="Live frames of one environment, of several, or none"),
    ] = "single"
    fastlane_slot: Annotated[int, Meta(ge=0, description="Which environment mode single shows, counted from 0")] = 0
    fastlane_grid_limit: Annotated[int, Meta(ge=1, le=64, description="How many environments mode grid shows")] = 9
    tensorboard_dir: Annotated[str, Meta(description="Folder for TensorBoard files, within the run's folder")] = (
        "tensorboard"
    )
    track_wandb: Annotated[
        bool, Meta(description="Log to Weights & Biases too; without a network or an account into the run's folder")
    ] = False
    wandb_project: Annotated[str, Meta(min_length=1, description="The project there")] = "cleanRL"
    wandb_entity: Annotated[str | None, Meta(description="The team there; without one it is your own account")] = None


@dataclass(frozen=True)
class CleanRLWorkerConfig:
    run_id: Annotated[str, Meta(description="Identifies the run; the platform fills it in")] = ""
    algo: Annotated[str, Meta(description="Which algorithm to run")] = "ppo"
    env_id: Annotated[str, Meta(description="A Gymnasium environment id")] = "CartPole-v1"
    total_timesteps: Annotated[int, Meta(ge=1, description="Training budget in environment steps")] = 500_000
    seed: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Seeds everything; without one it is the script's default")
    ] = None
    extras: Annotated[CleanRLExtras, Meta(description="Everything else")] = field(default_factory=CleanRLExtras)
    worker_id: Annotated[str | None, Meta(description="Which of several workers this is, where that matters")] = None
    raw: Annotated[dict[str, Any], Meta(description="The config as it was given, for debugging")] = field(
        default_factory=dict
    )

    @property
    def use_cuda(self) -> bool:
        return self.extras.cuda or self.extras.use_cuda


def load_worker_config(path: Path) -> CleanRLWorkerConfig:
    """A config file in either form, with all that was given in `raw`. For scripts; the worker itself checks more."""
    given = read_config_file(path)
    return msgspec.convert({**given, "raw": given}, CleanRLWorkerConfig)
