"""Runs as their folders tell: for what must work without a daemon, and for quick completion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mosaic.client.errors import NoSuchRun
from mosaic.paths import Home, RunFolder


@dataclass(frozen=True)
class LocalRun:
    folder: RunFolder
    name: str
    worker: str
    group: str | None

    @property
    def run_id(self) -> str:
        return self.folder.run_id


def newest_first(home: Home) -> Iterator[LocalRun]:
    """All runs that have a readable job.json; run ids sort by time."""
    if not home.runs.is_dir():
        return
    for path in sorted(home.runs.iterdir(), key=lambda path: path.name, reverse=True):
        folder = RunFolder(path)
        try:
            job = json.loads(folder.job.read_bytes())
            yield LocalRun(folder, str(job["name"]), str(job["metadata"]["worker"]["name"]), job.get("group"))
        except (OSError, ValueError, LookupError, TypeError):
            continue  # not (yet) a whole run folder: doctor's business


def find_run(home: Home, reference: str) -> LocalRun:
    """The run that a person means, by the daemon's rules: id, name, unique beginning of an id, or `latest`."""
    named: list[LocalRun] = []
    begun: list[LocalRun] = []
    for run in newest_first(home):
        if reference in ("latest", run.run_id):
            return run
        if run.name == reference:
            named.append(run)
        elif run.run_id.startswith(reference.upper()):
            begun.append(run)
    matches = named or begun
    if not matches:
        raise NoSuchRun(f"no run {reference!r}; `mosaic runs` lists them")
    if len(matches) > 1:
        ids = ", ".join(run.run_id for run in matches[:4]) + (", ..." if len(matches) > 4 else "")
        raise NoSuchRun(f"{reference!r} could mean {len(matches)} runs, give the id: {ids}")
    return matches[0]


def short_ids(run_ids: list[str], least: int = 8) -> dict[str, str]:
    """Each id cut to the one length at which all of them still differ."""
    ordered = sorted(set(run_ids))
    length = least
    for one, other in pairwise(ordered):
        common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
        length = max(length, common + 1)
    return {run_id: run_id[:length] for run_id in run_ids}


def short_ids_in(home: Home, run_ids: list[str]) -> dict[str, str]:
    """Short ids that are unique among all runs of the home folder."""
    known = [path.name for path in home.runs.iterdir()] if home.runs.is_dir() else []
    return {run_id: short for run_id, short in short_ids([*known, *run_ids]).items() if run_id in set(run_ids)}
