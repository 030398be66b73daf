"""What a person may ask to be installed: one of ours by NAME, a folder, or a requirement for the package index."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mosaic.envs.errors import InstallFailed
from mosaic.envs.projects import NAME, WorkerProject
from mosaic.paths import CHECKOUT

# The beginning of a requirement: a distribution's name and perhaps extras; a version, marker or address may follow.
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(?:$|[<>=!~;@(])"
)
_WITH_EXTRAS = re.compile(r"(?P<source>[^\[\]]+)\[(?P<extras>[^\[\]]*)\]")


@dataclass(frozen=True)
class Source:
    """Where a worker comes from."""

    text: str  # as it is recorded and shown: a folder's absolute path, or the requirement as it was given
    project: WorkerProject | None = None  # the folder's, for one of ours and for a path
    ours: bool = False

    @classmethod
    def parse(cls, given: str, catalogue: Path) -> Source:
        """`catalogue` is the folder with the workers that come with MOSAIC."""
        project = ours_in(catalogue).get(given)
        if project is not None:
            return cls(str(project.folder), project, ours=True)
        path = Path(given).expanduser()
        if given.startswith((".", "/", "~")) or (given and path.is_dir()):
            if not path.is_dir():
                raise InstallFailed(f"no worker in {given}: there is no such folder")
            folder = path.resolve()
            return cls(str(folder), WorkerProject.read(folder), ours=folder.parent == catalogue)
        meant = difflib.get_close_matches(given.partition("[")[0], ours_in(catalogue), n=1, cutoff=0.75)
        if meant:
            # Never let a typo fetch a stranger's package.
            raise InstallFailed(f"there is no worker {given!r}; did you mean {meant[0]!r}?")
        if not _REQUIREMENT.match(given):
            raise InstallFailed(
                f"cannot install {given!r}: give one of {', '.join(ours_in(catalogue))}, a folder, or a requirement"
                " such as 'some-worker>=1.0'"
            )
        return cls(given.strip())

    @property
    def key(self) -> str:
        """Names the files of an install under way: the worker's NAME if it is known beforehand."""
        known = self.project.name if self.project else None
        if known and NAME.fullmatch(known):
            return known
        return "source-" + hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def distribution(self) -> str:
        if self.project is not None:
            return self.project.distribution
        match = _REQUIREMENT.match(self.text)
        return match["name"] if match else ""

    def fingerprint(self, extras: Sequence[str]) -> str:
        if self.project is not None:
            return self.project.fingerprint(extras)
        return hashlib.sha256(f"{self.text}\n{CHECKOUT}\n{','.join(extras)}".encode()).hexdigest()

    def requirement(self, extras: Sequence[str]) -> list[str]:
        """The arguments that make uv install it."""
        wanted = f"[{','.join(extras)}]" if extras else ""
        if self.project is not None:
            return ["-e", f"{self.text}{wanted}"]
        if not wanted:
            return [self.text]
        if "[" in self.text:
            raise InstallFailed(f"{self.text!r} names extras itself; give all of them in one place")
        rest = self.text[len(self.distribution) :]
        return [f"{self.distribution}{wanted}{rest}"]


def split_extras(given: str, catalogue: Path) -> tuple[str, tuple[str, ...]]:
    """`NAME[extra,...]` or `FOLDER[extra,...]` as what to install and its extras; a requirement keeps its own."""
    match = _WITH_EXTRAS.fullmatch(given.strip())
    if match is None or Path(given).is_dir():
        return given, ()
    source = match["source"]
    if source not in ours_in(catalogue) and not source.startswith((".", "/", "~")):
        return given, ()
    return source, tuple(extra.strip() for extra in match["extras"].split(",") if extra.strip())


def ours_in(catalogue: Path) -> dict[str, WorkerProject]:
    """The workers that come with MOSAIC, by NAME."""
    projects = [WorkerProject.read(file.parent) for file in sorted(catalogue.glob("*/pyproject.toml"))]
    return {project.name: project for project in projects if project.name is not None}
