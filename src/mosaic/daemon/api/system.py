"""The daemon itself: status, login, shutdown, doctor."""

from __future__ import annotations

import asyncio
import os
import time

from fastapi import APIRouter
from starlette.requests import Request

from mosaic import __version__
from mosaic.daemon.api.common import Json, TrainerDep
from mosaic.daemon.doctor import Doctor

router = APIRouter(tags=["daemon"])


@router.get("/status")
async def status(request: Request, trainer: TrainerDep) -> Json:
    state = request.app.state
    counts = trainer.registry.counts()
    free = trainer.dispatcher.free()
    capacity = trainer.capacity
    return Json(
        {
            "version": __version__,
            "pid": os.getpid(),
            "url": state.url,
            "started": state.started,
            "uptime_s": time.time() - state.started,
            "home": str(trainer.home.root),
            "capacity": {"cpus": capacity.cpus, "memory_mb": capacity.memory_mb, "gpus": list(capacity.gpus)},
            "free": {"cpus": free.cpus, "memory_mb": free.memory_mb, "gpus": free.gpus},
            "runs": counts,
            "queued": counts.get("QUEUED", 0),
            "running": counts.get("ACTIVE", 0),
        }
    )


@router.post("/login-codes", status_code=201)
async def make_login_code(request: Request) -> Json:
    """A link that logs a browser in, good for one use within five minutes."""
    code = request.app.state.codes.make()
    return Json({"code": code, "url": f"{request.app.state.url}/login?code={code}"}, status_code=201)


@router.post("/daemon/shutdown", status_code=202)
async def shutdown(request: Request) -> Json:
    """Start nothing more, finish the answers, let go of the lock. Runs go on; the next daemon takes them over."""
    request.app.state.stop.set()
    return Json({"detail": "stopping; runs go on"}, status_code=202)


@router.get("/doctor")
async def doctor(trainer: TrainerDep) -> Json:
    """What is wrong in the home folder."""
    return Json({"findings": await Doctor(trainer).examine()})


@router.post("/doctor/mend")
async def mend(trainer: TrainerDep) -> Json:
    """Put right what can be put right."""
    async with asyncio.timeout(120):
        return Json({"findings": await Doctor(trainer).mend()})
