"""Runs: submit, list, look at, steer, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request

from mosaic.daemon.api.common import ApiError, Json, RowDep, SeenDep, TrainerDep, answers, read_body, spec_error
from mosaic.daemon.job import SpecError, parse_spec
from mosaic.daemon.registry import ENDED, Row
from mosaic.daemon.trainer import Trainer
from mosaic.shepherd.status import LIVE_STATES

router = APIRouter(prefix="/runs", tags=["runs"])

STATES = ("QUEUED", *sorted(LIVE_STATES), *sorted(ENDED))
Filter = Annotated[str | None, Query()]
BODY = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobSpec"}}}, "required": True}


async def answer(trainer: Trainer, row: Row, status: int = 200) -> Json:
    return Json(await trainer.view(row), status_code=status)


@router.post("", status_code=201, openapi_extra={"requestBody": BODY}, responses=answers("RunView", status=201))
async def submit(request: Request, trainer: TrainerDep) -> Json:
    """Queue a run. 422 tells every field that is wrong."""
    try:
        row = await trainer.submit(parse_spec(await read_body(request)))
    except SpecError as error:
        raise spec_error(error) from None
    return await answer(trainer, row, 201)


@router.get("", responses=answers("RunView", many="runs"))
async def list_runs(
    trainer: TrainerDep,
    state: Filter = None,
    worker: Filter = None,
    tag: Filter = None,
    group: Filter = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Filter = None,
) -> Json:
    """Newest first; `before` a run_id for the next page. `state` may be several, with commas between."""
    wanted = {part.strip().upper() for part in state.split(",")} if state else set()
    if unknown := wanted - {*STATES, "ACTIVE"}:
        raise ApiError(422, f"state: got {sorted(unknown)[0]!r}, allowed: {', '.join(STATES)}")
    rows_wanted = {"ACTIVE" if name in LIVE_STATES else name for name in wanted}
    live = wanted & LIVE_STATES
    rows = trainer.registry.rows(
        # Which state an active run is in only its folder knows: of those take all and pick.
        states=tuple(sorted(rows_wanted)),
        worker=worker,
        tag=tag,
        group=group,
        before=before,
        limit=-1 if live else limit,
    )
    views = []
    for row in rows:
        view = await trainer.view(row)
        if not wanted or row.state != "ACTIVE" or "ACTIVE" in wanted or view.state in live:
            views.append(view)
        if len(views) == limit:
            break
    return Json({"runs": views})


@router.get("/{run}", responses=answers("RunView"))
async def get_run(row: SeenDep, trainer: TrainerDep) -> Json:
    """By id, by a beginning of the id that is unique, by name, or `latest`; a child run as `RUN:CHILD`."""
    return await answer(trainer, row)


@router.get("/{run}/children", responses=answers("RunView", many="runs"))
async def children(row: RowDep, trainer: TrainerDep) -> Json:
    """The child runs of a run (the trials of a population). They are read like runs, under their own ids."""
    return Json({"runs": await trainer.children(row)})


@router.post("/{run}/pause", responses=answers("RunView"))
async def pause(row: RowDep, trainer: TrainerDep) -> Json:
    return await answer(trainer, await trainer.pause(row))


@router.post("/{run}/resume", responses=answers("RunView"))
async def resume(row: RowDep, trainer: TrainerDep) -> Json:
    """A paused run goes on; an ended one starts its next attempt from the newest whole checkpoint."""
    return await answer(trainer, await trainer.resume(row))


@router.post("/{run}/cancel", responses=answers("RunView"))
async def cancel(row: RowDep, trainer: TrainerDep) -> Json:
    return await answer(trainer, await trainer.cancel(row))


@router.post("/{run}/retry", responses=answers("RunView"))
async def retry(row: RowDep, trainer: TrainerDep) -> Json:
    """An ended run starts its next attempt from the beginning."""
    return await answer(trainer, await trainer.retry(row))


@router.post("/{run}/checkpoint", responses=answers("RunView"))
async def checkpoint(row: RowDep, trainer: TrainerDep) -> Json:
    """Ask the worker to write a checkpoint now."""
    return await answer(trainer, await trainer.checkpoint(row))


@router.delete("/{run}")
async def remove(row: RowDep, trainer: TrainerDep, force: bool = False) -> Json:
    """Delete an ended run with its folder; with `force` cancel it first."""
    await trainer.remove(row, force=force)
    return Json({"removed": row.run_id})
