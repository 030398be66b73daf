"""The Ray that a run trains with: started for it alone, quiet, and gone with it.

Ray is imported in here and not before, because what it reads from the environment it reads on import.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
import os
import secrets
import signal
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from mosaic.worker import ConfigError, refuse
from ray_worker.config import ResourceConfig
from ray_worker.scratch import RAY_FOLDER, SESSION_NAME, scratch_folder, temporary_files_in

OBJECT_STORE_BYTES = 512 * 2**20
CONNECT_S = 5.0
START_ATTEMPTS = 4
LOG_BYTES = 4 * 2**20


@contextmanager
def cluster(resources: ResourceConfig, attempt: int, cpus: int | None = None) -> Iterator[None]:
    """The Ray that the config asks for; one of our own has that many CPUs, or what the config's processes need."""
    if resources.address:
        with scratch_folder(attempt) as folder, temporary_files_in(folder), joined_cluster(resources):
            yield
    else:
        with own_cluster(resources, attempt, cpus):
            yield


@contextmanager
def joined_cluster(resources: ResourceConfig) -> Iterator[None]:
    """A Ray that is there already, and stays when the run is over."""
    if resources.token_file:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=resources.token_file)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    handlers = _handlers()
    import ray

    try:
        ray.init(address=resources.address, logging_level=logging.WARNING, log_to_driver=True, namespace="mosaic")
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.AuthenticationError) as error:
        reason = str(error).strip().split("\n")[0]
        allowed = f"the address of a running Ray cluster, and its token ({reason})"
        raise ConfigError(refuse("resources.address", resources.address, allowed)) from None
    _take_back(handlers)
    quieten()
    try:
        check_room(resources, int(ray.cluster_resources().get("CPU", 0)), f"the cluster at {resources.address}")
        yield
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Ray tries for a long time; whether anybody listens at an address is known at once."""
    host, _, port = address.rpartition(":")
    allowed = "HOST:PORT of a running Ray cluster"
    if not host or not port.isdecimal():
        raise ConfigError(refuse("resources.address", address, allowed))
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except OSError as error:
        raise ConfigError(refuse("resources.address", address, f"{allowed} (nobody answers: {error})")) from None


def check_room(resources: ResourceConfig, cpus: int, where: str) -> None:
    """Ray waits silently and for ever for what it does not have."""
    if needed_cpus(resources) > cpus:
        allowed = f"what {where} can place: {cpus} CPUs for workers ({resources.num_cpus} each) and learners"
        raise ConfigError(refuse("resources.num_workers", resources.num_workers, allowed))


def needed_cpus(resources: ResourceConfig) -> int:
    """For the processes beside the one that trains."""
    return resources.num_workers * resources.num_cpus + resources.num_learners


@contextmanager
def own_cluster(resources: ResourceConfig, attempt: int, cpus: int | None = None) -> Iterator[None]:
    """A Ray instance with as many CPUs as the run asks for."""
    others = needed_cpus(resources) if cpus is None else cpus
    with scratch_folder(attempt) as folder, temporary_files_in(folder):
        _prepare_environment(folder)
        handlers = _handlers()
        import ray

        _adapt_ray(log_monitor=others > 0)
        _start(folder, others, resources.num_gpus)
        _take_back(handlers)
        quieten()
        try:
            yield
        finally:
            ray.shutdown()


def _start(folder: Path, others: int, gpus: float) -> None:
    """Start Ray; on a busy machine it can miss its own deadline of 30 seconds, and is then started anew."""
    import ray

    for attempt in itertools.count(1):
        try:
            ray.init(
                num_cpus=max(1, others),
                num_gpus=math.ceil(gpus) or None,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                logging_level=logging.WARNING,
                # What runner processes print reaches the run's log through this process.
                log_to_driver=others > 0,
                # In a folder of its own: Ray opens it to everybody.
                _temp_dir=str(folder / f"{RAY_FOLDER}{attempt}"),
                # No process for each CPU, whether it will be used or not; and those that play and learn are the run as
                # much as this process is: how nice it is was decided by whoever started it.
                _system_config={"prestart_worker_first_driver": False, "worker_niceness": 0},
            )
            return
        except Exception as error:  # Ray raises no class of its own here
            if "timed out during startup" not in str(error) or attempt == START_ATTEMPTS:
                raise
            print(f"ray: not up after 30 s, attempt {attempt} of {START_ATTEMPTS}: starting anew", file=sys.stderr)
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}


def _take_back(handlers: dict[int, Any]) -> None:
    """SIGTERM asks the run to save and end; Ray takes it for itself."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _prepare_environment(folder: Path) -> None:
    """What Ray and its children read on import. A token of our own keeps Ray from writing one into the home folder."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ.update(
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN_PATH=str(token),
        RAY_USAGE_STATS_ENABLED="0",
        RAY_ROTATION_MAX_BYTES=str(LOG_BYTES),
        RAY_ROTATION_BACKUP_COUNT="1",
    )
    os.environ.pop("RAY_ADDRESS", None)


def _adapt_ray(*, log_monitor: bool) -> None:
    """What `ray.init` has no arguments for. Leaving out what a run does not need halves the time of a start."""
    from ray._private import parameter, services

    # A short session name, because sockets lie below it; no autoscaler, because one machine cannot scale.
    parameter.RayParams = functools.partial(
        parameter.RayParams, session_name=SESSION_NAME, no_monitor=True, include_log_monitor=log_monitor
    )
    # The dashboard's process runs even when there is no dashboard.
    services.start_api_server = lambda *_, **__: (None, None)
    # Ray's daemons get process groups of their own: a SIGTERM to the run's group asks the worker to save and end, for
    # which it still needs them.
    services.ConsolePopen = functools.partial(services.ConsolePopen, process_group=0)


def quieten() -> None:
    """Warnings about RLlib's own API and missing GPU tools are nobody's news; errors still reach the log."""
    for name in ("ray", "ray.rllib", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # RLlib registers its wrapper anew for each algorithm that it builds.
    warnings.filterwarnings("ignore", message=".*Overriding environment")
