"""Weights & Biases: a run's scalars are logged there too, or, where it cannot be reached, into the run's folder.

The client is used directly, in the same way for every script, instead of by the scripts' own `--track`: so our own
scripts have it as well, and a resumed run goes on in the same place.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import wandb

from cleanrl_worker.job import Tracking
from mosaic.worker import Run

PATIENCE_S = 3.0


class Tracker:
    def __init__(self, tracking: Tracking, run: Run, config: Mapping[str, Any]) -> None:
        mode, why = chosen_mode()
        # No watching of the machine and of what is printed: the platform does both, at less cost.
        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True)
        self._run = wandb.init(
            project=tracking.project,
            entity=tracking.entity,
            id=run.id,
            name=run.id,
            resume="allow" if mode == "online" else None,
            dir=run.folder,
            config=dict(config),
            mode=mode,
            settings=settings,
        )
        self._run.define_metric("*", step_metric="global_step")
        folder = Path(self._run.settings.sync_dir)
        run.manifest.add("wandb", folder.relative_to(run.folder))
        run.telemetry.log(f"Weights & Biases: {self._run.url if mode == 'online' else f'{why}: logging to {folder}'}")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({**values, "global_step": step})

    def close(self) -> None:
        self._run.finish()


def chosen_mode() -> tuple[str, str]:
    """`online` or `offline`, and why offline."""
    if (asked := os.environ.get("WANDB_MODE")) is not None:
        return ("online", "") if asked == "online" else ("offline", f"WANDB_MODE is {asked}")
    address = urlsplit(wandb.setup().settings.base_url)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        # First, because the client itself goes on trying for long.
        socket.create_connection((address.hostname or "", port), PATIENCE_S).close()
    except OSError as error:
        return "offline", f"{address.hostname} cannot be reached ({error.strerror or error})"
    try:
        known = wandb.login(prompt=False)
    except wandb.errors.AuthenticationError as error:
        return "offline", f"{address.hostname} refuses the account ({' '.join(str(error).split())})"
    return ("online", "") if known else ("offline", "no account is known (wandb login, or WANDB_API_KEY)")
