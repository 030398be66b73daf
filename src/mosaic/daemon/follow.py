"""Following runs over a WebSocket.

There is no queue: a follower is a sequence number, and what comes next is read from the run's own store when the last
rows were sent. A slow one is behind, and disturbs nobody. A run's store is looked at only while somebody follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any

from mosaic.daemon.trainer import Trainer
from mosaic.daemon.views import RunView
from mosaic.paths import RunFolder
from mosaic.store import RunReader, StoreMissing

BATCH = 1000
# How often a followed run's store is looked at.
ROWS_INTERVAL_S = 0.1
# How often to look whether a run's state or progress has changed, which its shepherd writes down and tells nobody.
VIEW_INTERVAL_S = 0.5


class StoreFollower:
    """Reads on from a sequence number; the store may come into being later."""

    def __init__(self, folder: RunFolder, since: int, kinds: Collection[str] | None) -> None:
        self._folder = folder
        self._since = since
        self._kinds = kinds
        self._reader: RunReader | None = None

    def read(self) -> list[dict[str, Any]]:
        if self._reader is None:
            try:
                self._reader = RunReader(self._folder.store)
            except StoreMissing:
                return []
        newest = self._reader.last_seq()
        if newest <= self._since:
            return []
        rows = self._reader.read(self._since, kinds=self._kinds, limit=BATCH)
        # Rows of other kinds are behind us too.
        self._since = rows[-1]["seq"] if len(rows) == BATCH else max(newest, rows[-1]["seq"] if rows else 0)
        return rows

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


async def follow_run(
    trainer: Trainer, run_id: str, since: int, kinds: Collection[str] | None
) -> AsyncIterator[dict[str, Any]]:
    """{"run": view} whenever the run's state changes, {"rows": [...]} for what it says, until the run's last row."""
    follower = StoreFollower(trainer.home.run(run_id), since, kinds)
    told: RunView | None = None
    loop = asyncio.get_running_loop()
    look_again = 0.0
    try:
        with trainer.hub.listen() as listener:
            while True:
                row = trainer.now(run_id)
                if row is None:
                    return
                # The state before the rows: whatever was said before the end is read after the end is known.
                view = told
                if loop.time() >= look_again or view is None:
                    look_again = loop.time() + VIEW_INTERVAL_S
                    view = await trainer.view(row)
                rows = await asyncio.to_thread(follower.read)
                if rows:
                    yield {"rows": rows}
                if len(rows) == BATCH:
                    continue
                if not view.same_as(told):
                    told = view
                    yield {"run": view}
                if listener.closed or (row.has_ended and view.state == row.state):
                    return
                timeout = ROWS_INTERVAL_S if row.state == "ACTIVE" else None
                if run_id in await listener.wait(timeout):
                    look_again = 0.0
    finally:
        await asyncio.to_thread(follower.close)


async def follow_all(trainer: Trainer) -> AsyncIterator[dict[str, Any]]:
    """{"run": view} for every run that is under way, and for any other when it changes; {"removed": run_id}."""
    told: dict[str, RunView] = {}
    with trainer.hub.listen() as listener:
        while not listener.closed:
            active = [row.run_id for row in trainer.registry.rows(states=("ACTIVE",))]
            changed = await listener.wait(VIEW_INTERVAL_S if active else None)
            for run_id in sorted(changed | set(active)):
                row = trainer.registry.get(run_id)
                if row is None:
                    told.pop(run_id, None)
                    yield {"removed": run_id}
                    continue
                view = await trainer.view(row)
                if not view.same_as(told.get(run_id)):
                    yield {"run": view}
                told[run_id] = view
                if row.has_ended:
                    del told[run_id]
