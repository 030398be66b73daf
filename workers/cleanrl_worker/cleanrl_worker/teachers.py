"""Checkpoints as teachers: who can teach whom, checked before anything is started; and the teaching."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cleanrl_worker.families import PolicyKind, extra_installed
from cleanrl_worker.registry import DEFAULT_ALGO_REGISTRY, AlgorithmEntry
from mosaic.worker import CheckpointError, ConfigError, refuse
from mosaic.worker.checkpoints import verify

FIELD = "extras.algo_params.teacher"
# Policies that choose by the values of all actions: these are what is taught.
VALUES: frozenset[PolicyKind] = frozenset({"values", "expected_values", "image_value_distribution", "flax_values"})


def teachers_of(entry: AlgorithmEntry) -> list[str]:
    """The algorithms whose checkpoints can teach this one: they see the same and say what actions are worth."""
    return [
        name
        for name, other in DEFAULT_ALGO_REGISTRY.items()
        if other.policy in VALUES
        and other.observation == entry.observation
        and set(other.env_families) == set(entry.env_families)
    ]


def check_teacher(given: str | None, environment: str, entry: AlgorithmEntry) -> Path:
    """The folder of a teacher that can be used, or ConfigError."""
    allowed = f"the teacher's checkpoint, of {environment} and one of {', '.join(teachers_of(entry))}"
    if given is None:
        raise ConfigError(refuse(FIELD, None, allowed))
    folder = checkpoint_folder(given)
    try:
        card = verify(folder)
    except CheckpointError as error:
        raise ConfigError(refuse(FIELD, given, f"{allowed} ({error})")) from None
    if card.worker != "cleanrl" or card.algorithm not in teachers_of(entry) or card.environment != environment:
        found = f"this one is of worker {card.worker!r}, algorithm {card.algorithm!r}, environment {card.environment!r}"
        raise ConfigError(refuse(FIELD, given, f"{allowed} ({found})"))
    missing = [extra for extra in DEFAULT_ALGO_REGISTRY[card.algorithm].extras if not extra_installed(extra)]
    if missing:
        how = f"{card.algorithm} needs extra {missing[0]!r}: ./mosaic worker install cleanrl[{','.join(missing)}]"
        raise ConfigError(refuse(FIELD, given, f"{allowed} ({how})"))
    return folder


def checkpoint_folder(given: str) -> Path:
    """A checkpoint's folder, which may also be named by the weights in it."""
    path = Path(given).expanduser().absolute()
    return path.parent if path.suffix == ".cleanrl_model" else path


class Teacher:
    """What the actions are worth by a checkpoint, for batches of observations. It learns nothing more."""

    def __init__(self, folder: Path, envs: Any, device: Any) -> None:
        import torch

        from cleanrl_worker.policies import NetworkPolicy

        self._policy = NetworkPolicy(verify(folder), folder, envs)
        self._device = device
        if isinstance(self._policy.network, torch.nn.Module):
            self._policy.network.to(device)

    def __call__(self, observations: Any) -> Any:
        return self._policy.values(observations).to(self._device)


def load_teacher(path: str, envs: Any, device: Any) -> Teacher:
    return Teacher(checkpoint_folder(path), envs, device)
