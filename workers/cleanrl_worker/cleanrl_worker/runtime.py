"""The worker: resolves the algorithm, checks the config, and lets a process of its own run the script."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from cleanrl_worker import CAPABILITIES, __version__
from cleanrl_worker.checking import TRAINING, check, needed_checkpoint, policy_checkpoint
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.fastlane import settings_variables
from cleanrl_worker.job import JOB_VARIABLE, ScriptJob, Tracking
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY, AlgorithmEntry
from cleanrl_worker.schedule import resolve
from cleanrl_worker.teachers import checkpoint_folder
from mosaic.worker import Algorithm, ConfigError, ConfigFields, Policy, Run, Session, Worker, refuse
from mosaic.worker.child import run_child

LAUNCHER = (sys.executable, "-m", "cleanrl_worker.launcher")
INJECTED = Path(__file__).parent / "injected"

__all__ = ["DEFAULT_ALGO_REGISTRY", "CleanRLWorkerRuntime"]


class CleanRLWorkerRuntime(Worker[CleanRLWorkerConfig]):
    """CleanRL's single-file algorithms, unmodified: trained, resumed from checkpoints, evaluated."""

    capabilities = CAPABILITIES
    version = __version__
    title = "CleanRL"
    config_type = CleanRLWorkerConfig
    fields = ConfigFields(algorithm="algo", params="extras.algo_params")
    example_config: ClassVar[Mapping[str, Any]] = {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "total_timesteps": 4096,
        "seed": 1,
    }

    @property
    def algorithms(self) -> Mapping[str, Algorithm]:
        return {name: _describe(entry) for name, entry in DEFAULT_ALGO_REGISTRY.items()}

    def validate(self, config: CleanRLWorkerConfig) -> None:
        check(config)

    def command(self, config: CleanRLWorkerConfig) -> list[str]:
        return script_command(config) if config.extras.mode in TRAINING else []

    def total_steps(self, config: CleanRLWorkerConfig) -> int | None:
        return None if config.extras.mode == "policy_eval" else config.total_timesteps  # those count episodes

    def run(self, config: CleanRLWorkerConfig, run: Run) -> Mapping[str, Any]:
        mode, checkpoint = config.extras.mode, needed_checkpoint(config)
        if mode == "interactive":
            raise ConfigError(refuse("extras.mode", mode, "another mode here: start the worker with --interactive"))
        if mode == "policy_eval":
            assert checkpoint is not None
            # In process; torch is loaded only where it is needed.
            from cleanrl_worker.evaluation import run_batched_evaluation

            return run_batched_evaluation(config, run, checkpoint)
        if config.extras.curriculum_schedule:
            return run_curriculum_training(config, run, checkpoint)
        return run_script(config, run, checkpoint)

    def open_session(self, config: CleanRLWorkerConfig) -> Session:
        from cleanrl_worker.playing import EnvSession

        return EnvSession(config, policy_checkpoint(config))

    def load_policy(self, checkpoint: Path) -> Policy:
        from cleanrl_worker.playing import ServedPolicy

        return ServedPolicy(checkpoint)


def run_script(config: CleanRLWorkerConfig, run: Run, resume: Path | None) -> dict[str, Any]:
    """Train: in a process of its own."""
    job = script_job(config)
    variables = {
        JOB_VARIABLE: msgspec.json.encode(job).decode(),
        "PYTHONPATH": with_injected(sys.path),
        **settings_variables(config.extras),
    }
    # What the platform resumes an attempt from is newer than what the config names.
    if resume is not None and run.resume_folder is None:
        variables["MOSAIC_RESUME_FROM"] = str(resume)
    run.manifest.add("tensorboard", Path(job.tensorboard_dir))
    if config.extras.capture_video:
        run.manifest.add("video", Path("videos"))
    return run_child(run, script_command(config), env=variables)


def run_curriculum_training(config: CleanRLWorkerConfig, run: Run, resume: Path | None) -> dict[str, Any]:
    """Train through the stages of a schedule: all of it happens below the script, in its environments."""
    summary = run_script(config, run, resume)
    return {**summary, "stages": len(resolve(config.extras.curriculum_schedule))}


def script_command(config: CleanRLWorkerConfig) -> list[str]:
    """The command that trains: the script with its own flags, below the launcher."""
    entry, extras = DEFAULT_ALGO_REGISTRY[config.algo], config.extras
    own = {
        "exp_name": config.algo,
        "env_id": config.env_id,
        "total_timesteps": config.total_timesteps,
        "seed": chosen_seed(config),
        "cuda": config.use_cuda,
        "capture_video": extras.capture_video,
    }
    given = extras.algo_params.get("teacher")
    teacher = {} if given is None else {"teacher": str(checkpoint_folder(given))}
    known = {name: value for name, value in own.items() if name in entry.script.flags}
    flags = entry.script.argv({**known, **extras.algo_params, **teacher})
    return [*LAUNCHER, entry.module, *flags]


def chosen_seed(config: CleanRLWorkerConfig) -> int:
    seed: int = DEFAULT_ALGO_REGISTRY[config.algo].script.default("seed") if config.seed is None else config.seed
    return seed


def with_injected(path: list[str]) -> str:
    """PYTHONPATH for the script's process: our sitecustomize first, and what this process was given itself."""
    package_parent = str(INJECTED.parents[1])
    return ":".join([str(INJECTED), *([package_parent] if package_parent in path else [])])


def script_job(config: CleanRLWorkerConfig) -> ScriptJob:
    entry = DEFAULT_ALGO_REGISTRY[config.algo]
    script, extras = entry.script, config.extras
    return ScriptJob(
        algorithm=config.algo,
        env_id=config.env_id,
        seed=chosen_seed(config),
        observation=entry.observation,
        loop_line=script.main_loop.line,
        carried=sorted(script.main_loop.carried),
        checkpoint_interval=extras.checkpoint_interval,
        keep_checkpoints=extras.keep_checkpoints,
        save_replay_buffer=extras.save_replay_buffer,
        tensorboard_dir=extras.tensorboard_dir,
        render=extras.capture_video,
        tracking=Tracking(extras.wandb_project, extras.wandb_entity) if extras.track_wandb else None,
        curriculum=resolve(extras.curriculum_schedule),
    )


def _describe(entry: AlgorithmEntry) -> Algorithm:
    return Algorithm(
        title=entry.title,
        params_schema=entry.script.params_schema(),
        facts={
            "family": entry.family,
            "module": entry.module,
            "action_spaces": [entry.action_space],
            "observation_spaces": ["vector", "image"] if entry.observation == "any" else [entry.observation],
            "env_families": list(entry.env_families),
            "default_env": entry.default_env,
            "extras": list(entry.extras),
            "replay_buffer": entry.off_policy,
        },
    )
