"""Whether a config can be run at all: what is refused in one line, before anything is started."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from cleanrl_worker import CAPABILITIES
from cleanrl_worker.config import CleanRLWorkerConfig
from cleanrl_worker.families import extra_installed, family_of
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY, AlgorithmEntry
from cleanrl_worker.schedule import resolve
from cleanrl_worker.teachers import check_teacher, checkpoint_folder
from mosaic.worker import CheckpointError, ConfigError, refuse
from mosaic.worker.checkpoints import verify

TRAINING = ("train", "resume_training")


def check(config: CleanRLWorkerConfig) -> None:
    """Raise ConfigError for the first thing that is wrong."""
    from cleanrl_worker.environments import check_fit

    entry = DEFAULT_ALGO_REGISTRY[config.algo]
    check_offered(config, entry)
    check_fit(config.env_id, config.algo, entry.observation, entry.action_space)
    check_schedule(config, entry)
    check_minibatches(config, entry)
    check_outputs(config)
    check_tracking(config)
    needed_checkpoint(config)
    if "teacher" in entry.script.flags and config.extras.mode in TRAINING:
        check_teacher(config.extras.algo_params.get("teacher"), config.env_id, entry)


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
    if (family := family_of(config.env_id)).whole:
        allowed = f"none for environments of {family.name}, which come as whole vectors"
        raise ConfigError(refuse(field, [stage.env_id for stage in stages], allowed))
    if config.env_id not in (stage.env_id for stage in stages):
        allowed = "an environment of the schedule: " + ", ".join(stage.env_id for stage in stages)
        raise ConfigError(refuse("env_id", config.env_id, allowed))
    for index, stage in enumerate(stages):
        if not stage.is_valid:
            allowed = "steps>=N, episodes>=N or episode_return>=X, joined by |"
            raise ConfigError(refuse(f"{field}[{index}].condition", stage.condition, allowed))
        where = f"{field}[{index}].env_id"
        same_spaces(stage.env_id, config.env_id, config.algo, entry.observation, entry.action_space, field=where)


def check_minibatches(config: CleanRLWorkerConfig, entry: AlgorithmEntry) -> None:
    """Whoever learns from whole sequences deals whole environments out to minibatches."""
    if not entry.policy.startswith("recurrent"):
        return
    given = config.extras.algo_params
    envs, batches = (given.get(name, entry.script.default(name)) for name in ("num_envs", "num_minibatches"))
    if envs % batches:
        raise ConfigError(refuse("extras.algo_params.num_envs", envs, f"a multiple of num_minibatches ({batches})"))


def check_outputs(config: CleanRLWorkerConfig) -> None:
    folder = PurePosixPath(config.extras.tensorboard_dir)
    if folder.is_absolute() or ".." in folder.parts:
        raise ConfigError(refuse("extras.tensorboard_dir", str(folder), "a path within the run's folder"))
    family = family_of(config.env_id)
    if config.extras.capture_video and family.whole:
        allowed = f"false for environments of {family.name}, which come as whole vectors (see `mosaic record`)"
        raise ConfigError(refuse("extras.capture_video", True, allowed))


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
