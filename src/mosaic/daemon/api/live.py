"""WebSockets: following one run, and all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.websockets import WebSocket, WebSocketDisconnect

from mosaic.daemon.api.common import ApiError, TrainerDep
from mosaic.daemon.api.reading import parse_kinds
from mosaic.daemon.auth import refuse
from mosaic.daemon.follow import follow_all, follow_run
from mosaic.daemon.registry import UnknownRun

router = APIRouter()


@router.websocket("/runs/{run}/follow")
async def follow(
    socket: WebSocket,
    run: str,
    trainer: TrainerDep,
    since: Annotated[int, Query(ge=0)] = 0,
    kinds: str | None = None,
) -> None:
    try:
        run_id = trainer.find(run).run_id
        wanted = parse_kinds(kinds)
    except UnknownRun as error:
        await refuse(socket.scope, socket.send, 404, str(error))
        return
    except ApiError as error:
        await refuse(socket.scope, socket.send, error.status, error.message)
        return
    await _serve(socket, follow_run(trainer, run_id, since, wanted))


@router.websocket("/events")
async def events(socket: WebSocket, trainer: TrainerDep) -> None:
    await _serve(socket, follow_all(trainer))


async def _serve(socket: WebSocket, messages: AsyncIterator[dict[str, Any]]) -> None:
    """Send until there is nothing more to send or the other side has gone; sending waits for a slow reader."""
    await socket.accept()
    sender = asyncio.create_task(_send_all(socket, messages))
    # Nothing is expected from the other side: reading is how its going away is noticed at once.
    receiver = asyncio.create_task(_until_gone(socket))
    done, waiting = await asyncio.wait({sender, receiver}, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    if sender in done and sender.exception() is None and receiver not in done:
        await socket.close()
    elif sender in done and (error := sender.exception()) is not None and not isinstance(error, WebSocketDisconnect):
        raise error


async def _send_all(socket: WebSocket, messages: AsyncIterator[dict[str, Any]]) -> None:
    try:
        async for message in messages:
            await socket.send_text(msgspec.json.encode(message).decode())
    finally:
        await messages.aclose()  # type: ignore[attr-defined]


async def _until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
