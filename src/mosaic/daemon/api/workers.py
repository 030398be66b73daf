"""Workers: which there are, what they take, and their environments."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request

from mosaic.daemon.api.common import ApiError, Json, TrainerDep, read_body, spec_error
from mosaic.daemon.job import SpecError, Strict
from mosaic.daemon.scripts import DESCRIPTION, SCRIPT_WORKER
from mosaic.daemon.trainer import Trainer
from mosaic.envs import WorkerMissing

router = APIRouter(prefix="/workers", tags=["workers"])


class InstallRequest(Strict, frozen=True):
    extras: tuple[str, ...] = ()


@router.get("")
async def list_workers(trainer: TrainerDep) -> Json:
    """Those that come with MOSAIC and those that are installed."""
    found = await asyncio.to_thread(_all_workers, trainer)
    for entry in found:
        entry["installing"] = trainer.dispatcher.installs.under_way(str(entry["name"]))
    return Json({"workers": found})


@router.get("/{name}")
async def get_worker(name: str, trainer: TrainerDep) -> Json:
    """The worker's description of itself: capabilities, config schema, algorithms."""
    _check_known(trainer, name)
    return Json(await asyncio.to_thread(trainer.programs.describe, name))


@router.post("/{name}/check")
async def check(name: str, request: Request, trainer: TrainerDep) -> Json:
    """Is this config right? 200 if it is, 422 with errors by field if not."""
    _check_known(trainer, name)
    try:
        config = msgspec.json.decode(await read_body(request), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ApiError(422, f"the request body must be a JSON object: {error}") from None
    try:
        await trainer.check_config(name, config)
    except SpecError as error:
        raise spec_error(error) from None
    return Json({"ok": True})


@router.post("/{name}/install", status_code=202)
async def install(name: str, request: Request, trainer: TrainerDep) -> Json:
    """Begin to install the environment; how far it is, GET /workers tells."""
    _check_known(trainer, name)
    body = await read_body(request)
    try:
        wanted = msgspec.json.decode(body, type=InstallRequest) if body else InstallRequest()
    except msgspec.DecodeError as error:
        raise ApiError(422, f"request body: {error}") from None
    installs = trainer.dispatcher.installs
    if wanted.extras and installs.under_way(name) is not None:
        raise ApiError(409, f"{name} is being installed: ask for its extras when that is done")
    return Json({"name": name, "detail": installs.want(name, wanted.extras)}, status_code=202)


@router.delete("/{name}")
async def remove(name: str, trainer: TrainerDep) -> Json:
    """Remove an environment that no run needs now."""
    _check_known(trainer, name)
    needed = trainer.registry.rows(states=("QUEUED", "ACTIVE"), worker=name, limit=1)
    if needed or trainer.dispatcher.installs.under_way(name) is not None:
        who = f"run {needed[0].name} waits or runs" if needed else "it is being installed"
        raise ApiError(409, f"the environment of {name} is in use: {who}")
    await asyncio.to_thread(trainer.programs.envs.remove, name)
    return Json({"removed": name})


def _check_known(trainer: Trainer, name: str) -> None:
    if not trainer.programs.is_known(name):
        raise WorkerMissing(f"there is no worker {name!r}; known: {', '.join(trainer.programs.names())}")


def _all_workers(trainer: Trainer) -> list[dict[str, Any]]:
    script = {
        "name": SCRIPT_WORKER,
        "title": DESCRIPTION["title"],
        "description": DESCRIPTION["description"],
        "version": DESCRIPTION["version"],
        "installed": True,
        "ours": True,
        "extras": [],
    }
    found: dict[str, dict[str, Any]] = {SCRIPT_WORKER: script}
    for available in trainer.programs.available():
        found[available.name] = {
            "name": available.name,
            "title": available.name,
            "description": available.description,
            "version": available.version,
            "installed": available.installed is not None,
            "ours": True,
            "extras": list(available.extras),
        }
    for installed in trainer.programs.installed():
        entry = found.setdefault(
            installed.name, {"name": installed.name, "title": installed.name, "description": "", "ours": False}
        )
        entry |= {"version": installed.version, "installed": True, "source": installed.source}
        entry["installed_extras"] = list(installed.extras)
    return list(found.values())
