"""What a run has said and written: telemetry, metrics, logs, files. Everything here only reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import FileResponse

from mosaic.daemon.api.common import ApiError, Json, SeenDep, TrainerDep
from mosaic.paths import RunFolder
from mosaic.store import KINDS, RunReader, StoreMissing

router = APIRouter(prefix="/runs/{run}", tags=["reading"])

FILES_LIMIT = 10_000
# What may be shown in the browser rather than saved; everything else a worker could have filled with scripts.
SHOWN = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".mp4", ".webm", ".json", ".txt", ".log", ".csv"})
FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "no-store",
}

# Plain functions: they run in the server's threads and keep nobody waiting.


@router.get("/telemetry")
def telemetry(
    row: SeenDep,
    trainer: TrainerDep,
    since: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    kinds: str | None = None,
) -> Json:
    """Rows after `since`, in order of seq; all kinds, or those named, with commas between."""
    wanted = parse_kinds(kinds)
    folder = trainer.home.run(row.run_id)
    return Json({"rows": _read(folder, lambda reader: reader.read(since, kinds=wanted, limit=limit), [])})


@router.get("/series")
def series(row: SeenDep, trainer: TrainerDep) -> Json:
    """The metrics that there are."""
    return Json({"series": _read(trainer.home.run(row.run_id), lambda reader: reader.series(), [])})


@router.get("/plot")
def plot(
    row: SeenDep,
    trainer: TrainerDep,
    name: str,
    max_points: Annotated[int, Query(ge=1, le=20_000)] = 2000,
    start: int | None = None,
    stop: int | None = None,
) -> Json:
    """One metric, thinned to at most `max_points`."""
    points = _read(
        trainer.home.run(row.run_id),
        lambda reader: reader.plot(name, max_points=max_points, start=start, stop=stop),
        [],
    )
    return Json({"name": name, "points": points})


@router.get("/attempts")
def attempts(row: SeenDep, trainer: TrainerDep) -> Json:
    """Every attempt and how it ended, and what was odd."""
    folder = trainer.home.run(row.run_id)
    return Json(
        {
            "attempts": _read(folder, lambda reader: reader.attempts(), []),
            "counters": _read(folder, lambda reader: reader.counters(), {}),
        }
    )


@router.get("/checkpoints")
def checkpoints(row: SeenDep, trainer: TrainerDep) -> Json:
    return Json({"checkpoints": _read(trainer.home.run(row.run_id), lambda reader: reader.checkpoints(), [])})


@router.get("/logs")
def logs(
    row: SeenDep,
    trainer: TrainerDep,
    file: Literal["worker", "shepherd", "malformed"] = "worker",
    offset: int = 0,
    limit: Annotated[int, Query(ge=1, le=4 << 20)] = 1 << 20,
) -> Json:
    """A part of a log by byte offset; a negative one counts from the end. `next` is where to go on."""
    folder = trainer.home.run(row.run_id)
    path = {"worker": folder.worker_log, "shepherd": folder.shepherd_log, "malformed": folder.malformed_log}[file]
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return Json({"file": file, "text": "", "offset": 0, "next": 0, "size": 0})
    with stream:
        size = os.fstat(stream.fileno()).st_size
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        stream.seek(start)
        data = stream.read(limit)
    text = data.decode(errors="replace")
    return Json({"file": file, "text": text, "offset": start, "next": start + len(data), "size": size})


@router.get("/files")
def files(row: SeenDep, trainer: TrainerDep) -> Json:
    """All files of the run folder."""
    found: list[dict[str, Any]] = []
    truncated = False
    for entry in _walk(trainer.home.run(row.run_id).path):
        if len(found) == FILES_LIMIT:
            truncated = True
            break
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # a worker writes and removes as it likes
        path = os.fsencode(Path(entry.path).relative_to(trainer.home.run(row.run_id).path))
        # A name may be any bytes; one that is no text can be seen here, not fetched.
        found.append({"path": path.decode(errors="replace"), "bytes": status.st_size, "modified": status.st_mtime})
    return Json({"files": sorted(found, key=lambda item: str(item["path"])), "truncated": truncated})


@router.get("/files/{path:path}")
def get_file(row: SeenDep, trainer: TrainerDep, path: str) -> FileResponse:
    """One file of the run folder; nothing outside of it, wherever links lead."""
    folder = trainer.home.run(row.run_id).path.resolve()
    target = (folder / path).resolve()
    if not target.is_relative_to(folder) or not target.is_file():
        raise ApiError(404, f"run {row.name} has no file {path!r}")
    disposition = "inline" if target.suffix.lower() in SHOWN else "attachment"
    return FileResponse(target, headers=FILE_HEADERS, filename=target.name, content_disposition_type=disposition)


def parse_kinds(text: str | None) -> list[str] | None:
    if not text:
        return None
    kinds = [part.strip() for part in text.split(",") if part.strip()]
    for kind in kinds:
        if kind not in KINDS:
            raise ApiError(422, f"kinds: got {kind!r}, allowed: {', '.join(KINDS)}")
    return kinds


def _read(folder: RunFolder, what: Callable[[RunReader], Any], nothing: Any) -> Any:
    try:
        with RunReader(folder.store) as reader:
            return what(reader)
    except StoreMissing:
        return nothing


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                yield entry
