"""The daemon as a process: one for each home, on the loopback interface, gone at a word."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import uvicorn

from mosaic import __version__
from mosaic.build import fingerprint
from mosaic.daemon.app import make_app
from mosaic.daemon.auth import load_token
from mosaic.daemon.holder import HOST
from mosaic.daemon.resources import find_capacity
from mosaic.daemon.trainer import Trainer
from mosaic.files import write_atomic
from mosaic.paths import Home

log = logging.getLogger("mosaic.daemon")

DEFAULT_PORT = 8765
THREADS = 64
# What requests that are under way get to finish when the daemon stops.
FINISH_S = 5


class Server(uvicorn.Server):
    """Without uvicorn's ten wake-ups a second and without its signal handlers."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event) -> None:
        super().__init__(config)
        self._stop = stop

    async def main_loop(self) -> None:
        await self._stop.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(home: Home, port: int | None) -> None:
    """For the holder of the home's lock."""
    # Not asyncio.run, which would wait for threads that bury or install something: the next daemon does it again.
    loop = asyncio.new_event_loop()
    # Burying takes as long as a worker's grace, an installation minutes: neither may keep the answers waiting.
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="daemon"))
    try:
        loop.run_until_complete(_serve(home, port))
    finally:
        home.daemon_info.unlink(missing_ok=True)


async def _serve(home: Home, port: int | None) -> None:
    code = fingerprint()
    listener = _listen(port)
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    token = load_token(home.token)
    trainer = Trainer(home, find_capacity())
    app, guarded = make_app(trainer, token, url)
    stop: asyncio.Event = app.state.stop
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config = uvicorn.Config(
        guarded,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        # Frames are JPEG already: deflating them again takes more than all the rest.
        ws_per_message_deflate=False,
        ws_max_size=1 << 16,
        timeout_graceful_shutdown=FINISH_S,
    )
    await trainer.start()
    _announce(home, url, code)
    log.info("MOSAIC %s daemon %d at %s", __version__, os.getpid(), url)
    server = Server(config, stop)
    letting_go = asyncio.create_task(_let_go(stop, trainer))
    await server.serve(sockets=[listener])
    await letting_go
    trainer.close()
    log.info("daemon %d ends; runs go on", os.getpid())


async def _let_go(stop: asyncio.Event, trainer: Trainer) -> None:
    """Before the answers under way are finished: start nothing more, and send followers away to come back later."""
    await stop.wait()
    await trainer.stop()


def _listen(port: int | None) -> socket.socket:
    """The port asked for; without one the usual one, or any if somebody has that."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, DEFAULT_PORT if port is None else port))
    except OSError:
        if port is not None:
            raise
        listener.bind((HOST, 0))
    # From here on whoever connects waits for an answer instead of being refused.
    listener.listen(128)
    return listener


def _announce(home: Home, url: str, code: str) -> None:
    info = {"pid": os.getpid(), "url": url, "version": __version__, "started": time.time(), "code": code}
    write_atomic(home.daemon_info, json.dumps(info).encode() + b"\n", mode=0o600)


def set_up_log() -> None:
    """One line per event, to stderr: whoever starts the daemon decides where that goes."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
