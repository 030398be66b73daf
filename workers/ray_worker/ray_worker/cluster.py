"""The Ray that a run trains with: started for it alone, quiet, and gone with it.

Ray is imported in here and not before, because what it reads from the environment it reads on import.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ray_worker.config import ResourceConfig
from ray_worker.scratch import RAY_FOLDER, SESSION_NAME, scratch_folder

OBJECT_STORE_BYTES = 512 * 2**20
LOG_BYTES = 4 * 2**20


@contextmanager
def own_cluster(resources: ResourceConfig, attempt: int) -> Iterator[None]:
    """A Ray instance with as many CPUs as the run asks for."""
    others = resources.num_workers * resources.num_cpus + resources.num_learners
    with scratch_folder(attempt) as folder:
        _prepare_environment(folder)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        import ray

        _adapt_ray(log_monitor=others > 0)
        ray.init(
            num_cpus=max(1, others),
            num_gpus=math.ceil(resources.num_gpus) or None,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            logging_level=logging.WARNING,
            # What runner processes print reaches the run's log through this process.
            log_to_driver=others > 0,
            # In a folder of its own: Ray opens it to everybody.
            _temp_dir=str(folder / RAY_FOLDER),
            # A process for each CPU, whether it will be used or not.
            _system_config={"prestart_worker_first_driver": False},
        )
        # SIGTERM asks the run to save and end; Ray takes it for itself.
        for number, handler in handlers.items():
            signal.signal(number, handler)
        quieten()
        try:
            yield
        finally:
            ray.shutdown()


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
