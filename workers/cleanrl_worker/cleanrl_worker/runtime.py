"""The worker: resolves the algorithm, checks the config, and lets a process of its own run the script."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from cleanrl_worker import CAPABILITIES, __version__
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.families import extra_installed, family_of
from cleanrl_worker.fastlane import settings_variables
from cleanrl_worker.job import JOB_VARIABLE, ScriptJob, Tracking
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY, AlgorithmEntry
from cleanrl_worker.schedule import resolve
from cleanrl_worker.teachers import check_teacher, checkpoint_folder
from mosaic.worker import Algorithm, CheckpointError, ConfigError, ConfigFields, Policy, Run, Session, Worker, refuse
from mosaic.worker.checkpoints import verify
from mosaic.worker.child import run_child

LAUNCHER = (sys.executable, "-m", "cleanrl_worker.launcher")
TRAINING = ("train", "resume_training")
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
        from cleanrl_worker.environments import check_fit

        entry = DEFAULT_ALGO_REGISTRY[config.algo]
        check_offered(config, entry)
        check_fit(config.env_id, config.algo, entry.observation, entry.action_space)
        check_schedule(config, entry)
        check_tracking(config)
        check_videos(config)
        needed_checkpoint(config)
        if "teacher" in entry.script.flags and config.extras.mode in TRAINING:
            check_teacher(config.extras.algo_params.get("teacher"), config.env_id, entry)

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


def check_offered(config: CleanRLWorkerConfig, entry: AlgorithmEntry) -> None:
    """What can be said without making anything: families, extras, modes."""
    family = family_of(config.env_id)
    if family.name not in entry.env_families:
        allowed = f"an environment of {', '.join(entry.env_families)} for {config.algo}, such as {entry.default_env}"
        raise ConfigError(refuse("env_id", config.env_id, allowed))
    missing = [extra for extra in entry.extras if not extra_installed(extra)]
    if missing:
        how = f"./mosaic worker install cleanrl[{','.join(missing)}]"
        which = " and ".join(repr(extra) for extra in missing)
        raise ConfigError(refuse("algo", config.algo, f"an installed algorithm: it needs extra {which} ({how})"))


def check_schedule(config: CleanRLWorkerConfig, entry: AlgorithmEntry) -> None:
    """Every stage must be an environment that the algorithm can take, with the spaces of all the others."""
    from cleanrl_worker.environments import same_spaces

    field, stages = "extras.curriculum_schedule", resolve(config.extras.curriculum_schedule)
    if not stages:
        if config.extras.curriculum_schedule is not None:
            raise ConfigError(refuse(field, [], "at least one stage"))
        return
    if config.env_id not in (stage.env_id for stage in stages):
        allowed = "an environment of the schedule: " + ", ".join(stage.env_id for stage in stages)
        raise ConfigError(refuse("env_id", config.env_id, allowed))
    for index, stage in enumerate(stages):
        if not stage.is_valid:
            allowed = "steps>=N, episodes>=N or episode_return>=X, joined by |"
            raise ConfigError(refuse(f"{field}[{index}].condition", stage.condition, allowed))
        where = f"{field}[{index}].env_id"
        same_spaces(stage.env_id, config.env_id, config.algo, entry.observation, entry.action_space, field=where)


def check_tracking(config: CleanRLWorkerConfig) -> None:
    """Only trainings are logged at Weights & Biases, and only where its client is installed."""
    if not config.extras.track_wandb:
        return
    field, mode = "extras.track_wandb", config.extras.mode
    if mode not in TRAINING:
        raise ConfigError(refuse(field, True, f"false where nothing is trained (extras.mode is {mode})"))
    if not extra_installed("wandb"):
        how = "./mosaic worker install cleanrl[wandb]"
        raise ConfigError(refuse(field, True, f"false, or extra 'wandb' installed ({how})"))


def check_videos(config: CleanRLWorkerConfig) -> None:
    family = family_of(config.env_id)
    if config.extras.capture_video and family.whole:
        allowed = f"false for environments of {family.name}, which come as whole vectors (see `mosaic record`)"
        raise ConfigError(refuse("extras.capture_video", True, allowed))


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


def needed_checkpoint(config: CleanRLWorkerConfig) -> Path | None:
    """The checkpoint that the config's mode cannot do without, verified; None where the mode needs none."""
    extras = config.extras
    if extras.mode == "resume_training":
        return usable_checkpoint(config, "checkpoint_path", extras.checkpoint_path or extras.policy_path)
    if extras.mode == "policy_eval":
        return usable_checkpoint(config, "policy_path", extras.policy_path or extras.checkpoint_path)
    return None


def policy_checkpoint(config: CleanRLWorkerConfig) -> Path | None:
    """The checkpoint whose policy may choose actions in an interactive session, if one is named."""
    given = config.extras.policy_path
    return usable_checkpoint(config, "policy_path", given) if given is not None else None


def usable_checkpoint(config: CleanRLWorkerConfig, name: str, given: str | None) -> Path:
    field = f"extras.{name}"
    if given is None:
        raise ConfigError(refuse(field, None, f"a checkpoint (mode is {config.extras.mode})"))
    folder = checkpoint_folder(given)
    try:
        card = verify(folder)
    except CheckpointError as error:
        raise ConfigError(refuse(field, given, f"a checkpoint ({error})")) from None
    wanted = {"worker": CAPABILITIES.worker_type, "algorithm": config.algo, "environment": config.env_id}
    for part, value in wanted.items():
        found = getattr(card, part)
        # What went through a curriculum may be asked about any environment of it.
        if found != value and not (part == "environment" and value in card.extra.get("curriculum", ())):
            raise ConfigError(refuse(field, given, f"a checkpoint of {part} {value!r} (this one is of {found!r})"))
    return folder


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
