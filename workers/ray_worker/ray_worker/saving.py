"""What a checkpoint's card says of a run of this worker, and where copies go."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mosaic.worker import CheckpointError, Run
from ray_worker.config import RayWorkerConfig
from ray_worker.environments import EnvironmentFacts
from ray_worker.policies import PolicyPlan


def card_facts(config: RayWorkerConfig, facts: EnvironmentFacts, plan: PolicyPlan) -> dict[str, Any]:
    """The fields of a card that are the same for all of a run's checkpoints."""
    return {
        "algorithm": config.training.algorithm,
        "environment": config.environment.env_id,
        "seed": config.training.seed,
        "observation_space": _join(facts.observation_spaces),
        "action_space": _join(facts.action_spaces),
        "agents": list(facts.agents),
        "extra": {
            "family": config.environment.family.value,
            "policy_configuration": config.policy_configuration.value,
            "policies": sorted(plan.policies),
            **({"population": config.population.size} if config.population.size else {}),
        },
    }


def save(run: Run, config: RayWorkerConfig, facts: Mapping[str, Any], step: int, write: Callable[[Path], None]) -> None:
    """Save a checkpoint of a run, and its copy where the config asks for one."""
    path = run.save_checkpoint(step, write, keep=config.checkpoint.keep or None, **facts)
    if config.checkpoint.directory:
        target = Path(config.checkpoint.directory).expanduser() / run.id / path.name
        shutil.copytree(path, target, dirs_exist_ok=True)


def resume_folder(run: Run, facts: Mapping[str, Any]) -> Path | None:
    """The checkpoint to go on from, if it is one of such a run."""
    card = run.resume_card
    if card is None or run.resume_folder is None:
        return None
    for what, saved, wanted in (
        ("worker", card.worker, "ray"),
        ("algorithm", card.algorithm, facts["algorithm"]),
        ("environment", card.environment, facts["environment"]),
        ("policies", card.extra.get("policies"), facts["extra"]["policies"]),
        ("population", card.extra.get("population"), facts["extra"].get("population")),
    ):
        if saved != wanted:
            name = run.resume_folder.name
            raise CheckpointError(f"checkpoint {name}: its {what} is {saved!r}, this run's {wanted!r}")
    return run.resume_folder


def _join(spaces: Mapping[str, Any]) -> str:
    """The spaces of all agents, each kind told once."""
    return "; ".join(dict.fromkeys(str(space) for space in spaces.values()))
