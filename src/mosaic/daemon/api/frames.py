"""Live frames of a run: which streams there are, one frame as PNG, and a stream over a WebSocket."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from mosaic.daemon.api.common import ApiError, Json, RowDep, TrainerDep
from mosaic.daemon.auth import refuse
from mosaic.daemon.frames import Format, Viewer, encode_png
from mosaic.daemon.hub import Listener
from mosaic.daemon.registry import UnknownRun
from mosaic.daemon.trainer import Trainer
from mosaic.fastlane import FastLaneError, FastLaneReader, discover, stream_path
from mosaic.shepherd.launch import shared_memory_folder

router = APIRouter(prefix="/runs/{run}/streams", tags=["frames"])


class Acknowledgement(msgspec.Struct):
    ack: int


@router.get("")
def streams(row: RowDep) -> Json:
    """The streams that can be watched now; `grid`, if there is one, first."""
    found = discover(shared_memory_folder(row.run_id))
    return Json(
        {
            "streams": [
                {
                    "name": stream.name,
                    "width": stream.width,
                    "height": stream.height,
                    "frames": stream.frames,
                    "has_writer": stream.has_writer,
                }
                for stream in found
            ]
        }
    )


@router.get("/{stream}/frame.png")
def frame_png(row: RowDep, stream: str) -> Response:
    """The newest frame. Asking does not count as watching: an unwatched run draws about one frame a second."""
    try:
        path = stream_path(shared_memory_folder(row.run_id), stream)
    except FastLaneError as error:
        raise ApiError(404, str(error)) from None
    with FastLaneReader(path, watch=False) as reader:
        frame = reader.latest()
    if frame is None:
        raise ApiError(404, f"run {row.name} has no frame in a stream {stream!r}")
    return Response(encode_png(frame), media_type="image/png", headers={"Cache-Control": "no-store"})


@router.websocket("/{stream}/live")
async def live(
    socket: WebSocket,
    run: str,
    stream: str,
    trainer: TrainerDep,
    format: Annotated[Format, Query()] = "image",
    max_fps: Annotated[float, Query(gt=0, le=240)] = 60,
) -> None:
    """Frames as binary messages: header length (4 bytes, little endian), header (JSON), picture.

    `format=image` is JPEG, or PNG for small frames; `format=rgb` is raw pixels. The viewer answers each frame that it
    has drawn with `{"ack": id}`; as long as it does not, it gets no more than a few.
    """
    try:
        run_id = trainer.registry.find(run).run_id
        path = stream_path(shared_memory_folder(run_id), stream)
    except (UnknownRun, FastLaneError) as error:
        await refuse(socket.scope, socket.send, 404, str(error))
        return
    await socket.accept()
    viewer = Viewer(format, max_fps)
    with trainer.frames.watch(path, viewer) as feed, trainer.hub.listen() as listener:

        async def send() -> None:
            async for message in viewer.messages(feed):
                await socket.send_bytes(message)

        tasks = {
            asyncio.create_task(send()),
            asyncio.create_task(_receive(socket, viewer)),
            asyncio.create_task(_until_ended(trainer, run_id, listener)),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    if not any(isinstance(task.exception(), WebSocketDisconnect) for task in done):
        await socket.close()


async def _receive(socket: WebSocket, viewer: Viewer) -> None:
    decoder = msgspec.json.Decoder(Acknowledgement)
    while True:
        # Raises WebSocketDisconnect when the viewer has gone.
        text = await socket.receive_text()
        try:
            viewer.acknowledge(decoder.decode(text).ack)
        except msgspec.DecodeError:
            return


async def _until_ended(trainer: Trainer, run_id: str, listener: Listener) -> None:
    while not listener.closed:
        row = trainer.registry.get(run_id)
        if row is None or row.has_ended:
            return
        await listener.wait()
