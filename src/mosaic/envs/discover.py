"""Which worker another environment offers, read from its metadata; nothing of it is run or imported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from mosaic.envs.errors import InstallFailed
from mosaic.envs.projects import ENTRY_POINT_GROUP, NAME


@dataclass(frozen=True)
class Offer:
    """One entry point of the group `mosaic.workers`."""

    name: str
    module: str
    distribution: str
    version: str


def offers(venv: Path) -> list[Offer]:
    """All that the environment offers, by NAME."""
    places = [str(place) for place in venv.glob("lib/python3.*/site-packages")]
    found = [
        Offer(point.name, point.module, distribution.metadata["Name"], distribution.version)
        for distribution in distributions(path=places)
        for point in distribution.entry_points.select(group=ENTRY_POINT_GROUP)
    ]
    return sorted(found, key=lambda offer: offer.name)


def offered_by(venv: Path, distribution: str) -> Offer:
    """The one worker that `distribution` offers in this environment."""
    found = [offer for offer in offers(venv) if normal(offer.distribution) == normal(distribution)]
    check_names(distribution, [offer.name for offer in found])
    return found[0]


def check_names(distribution: str, names: Sequence[str]) -> None:
    """A worker's package names one worker, by a fitting name."""
    if not names:
        raise InstallFailed(
            f"{distribution} is not a worker: it offers no entry point in the group {ENTRY_POINT_GROUP!r}"
            f' ([project.entry-points."{ENTRY_POINT_GROUP}"] in its pyproject.toml)'
        )
    if len(names) > 1:
        raise InstallFailed(f"{distribution} offers several workers ({', '.join(names)}); one package may offer one")
    if not NAME.fullmatch(names[0]):
        raise InstallFailed(
            f"{distribution} names its worker {names[0]!r}; allowed: small letters, digits, - and _, at most 64"
        )


def normal(distribution: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
