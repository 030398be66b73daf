"""The trainer: everything that can be done with runs, whoever asks. The API is a thin layer over this."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import time
from typing import Any

from mosaic.daemon import ends
from mosaic.daemon.children import child_names, child_row, view_child
from mosaic.daemon.dispatcher import Dispatcher
from mosaic.daemon.frames import FrameService
from mosaic.daemon.hub import Hub
from mosaic.daemon.job import JobSpec, SpecError, make_job
from mosaic.daemon.launching import write_job
from mosaic.daemon.programs import Programs
from mosaic.daemon.recovery import TRASH_PREFIX, recover
from mosaic.daemon.registry import Registry, Row, UnknownRun
from mosaic.daemon.resources import Capacity
from mosaic.daemon.retry import Again
from mosaic.daemon.scripts import COPY_NAME, SCRIPT_WORKER, prepare
from mosaic.daemon.ulid import UlidMaker
from mosaic.daemon.views import RunView, view_active, view_row
from mosaic.envs import WorkerEnvs
from mosaic.paths import CHILD_MARK, Home
from mosaic.shepherd.control import ControlError, ShepherdGone, send
from mosaic.worker import FieldError
from mosaic.worker.description import check_config
from mosaic.worker.validation import closest, describe_value

log = logging.getLogger("mosaic.daemon")

# What a forced removal waits for the run to end: the grace that workers get, and the sweep after it.
REMOVE_PATIENCE_S = 60.0
# A shepherd has the run's lock for some moments before it listens.
SHEPHERD_START_S = 5.0


class NotPossible(Exception):
    """The run's state does not allow it."""


class Trainer:
    def __init__(self, home: Home, capacity: Capacity) -> None:
        self.home = home
        self.capacity = capacity
        self.hub = Hub()
        self.frames = FrameService()
        self.registry = Registry(home.registry)
        self.programs = Programs(WorkerEnvs(home))
        self.dispatcher = Dispatcher(home, self.registry, self.programs, capacity, self.hub)
        self._new_id = UlidMaker(after=self.registry.newest_id())
        self._dispatching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await recover(self.home, self.registry, self.dispatcher)
        self._dispatching = asyncio.create_task(self.dispatcher.run())
        self.dispatcher.wake()

    async def stop(self) -> None:
        """Start nothing more and let go; every run goes on. What is asked for after this is done by the next daemon."""
        self.hub.close()
        await self.dispatcher.stop()
        if self._dispatching is not None:
            await self._dispatching

    def close(self) -> None:
        """When the last answer was given."""
        self.registry.close()

    # Looking

    def find(self, reference: str) -> Row:
        """A run, or a child run by its run and its name: `RUN:CHILD`. UnknownRun if there is none."""
        try:
            return self.registry.find(reference)
        except UnknownRun:
            run, mark, name = reference.rpartition(CHILD_MARK)
            if not mark:
                raise
        parent = self.registry.find(run)
        child = child_row(self.home, parent, name)
        if child is None:
            names = ", ".join(child_names(self.home, parent.run_id)) or "none"
            raise UnknownRun(f"run {parent.name} has no child {name!r}; it has: {names}")
        return child

    def now(self, run_id: str) -> Row | None:
        """The row of a run or a child run as it is now."""
        run, mark, name = run_id.partition(CHILD_MARK)
        row = self.registry.get(run)
        return child_row(self.home, row, name) if row is not None and mark else row

    async def children(self, row: Row) -> list[RunView]:
        parent = await self.view(row)
        names = await asyncio.to_thread(child_names, self.home, row.run_id)
        rows = [await asyncio.to_thread(child_row, self.home, row, name) for name in names]
        return [view_child(child, parent, self.home) for child in rows if child is not None]

    async def view(self, row: Row) -> RunView:
        run, mark, _ = row.run_id.partition(CHILD_MARK)
        if mark:
            parent = self.registry.get(run)
            if parent is None:
                raise UnknownRun(f"run {run!r}: no such run")
            return view_child(row, await self.view(parent), self.home)
        folder = self.home.run(row.run_id)
        if row.state == "ACTIVE":
            return await asyncio.to_thread(view_active, row, folder)
        reason = self.dispatcher.reasons.get(row.run_id, "") if row.state == "QUEUED" else ""
        return view_row(row, folder, reason)

    # Doing

    async def submit(self, spec: JobSpec) -> Row:
        """Accept a run: once this returns it will be run, whatever happens to the daemon."""
        errors = self.capacity.impossible(spec.resources)
        files: dict[str, bytes] = {}
        config = spec.config
        if spec.worker == SCRIPT_WORKER:
            script = await asyncio.to_thread(prepare, spec.config)
            config, files = script.config, {COPY_NAME: script.content}
        else:
            errors += await self._config_errors(spec.worker, spec.config)
        if errors:
            raise SpecError(errors)
        job = make_job(spec, self._new_id(), time.time(), self.programs.module(spec.worker), config)
        folder = self.home.run(job.run_id)
        try:
            await asyncio.to_thread(write_job, folder, job, files)
            row = self.registry.add(job)
        except (OSError, sqlite3.Error):
            # Refused, so nothing of it may be found and run later.
            await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)
            raise
        self.hub.changed(row.run_id)
        self.dispatcher.wake()
        return row

    async def check_config(self, worker: str, config: dict[str, Any]) -> None:
        """Raises SpecError with what is wrong with a config."""
        if worker == SCRIPT_WORKER:
            await asyncio.to_thread(prepare, config)
        elif errors := await self._config_errors(worker, config):
            raise SpecError(errors)

    async def _config_errors(self, worker: str, config: dict[str, Any]) -> list[FieldError]:
        """By the worker's own rules, from its description; a worker that is not installed yet checks when it starts."""
        if not self.programs.is_known(worker):
            names = self.programs.names()
            suggestion = closest(worker, names)
            hint = f"did you mean {suggestion!r}?" if suggestion else "see `mosaic worker list`"
            message = f"field 'worker': no worker {describe_value(worker)}; {hint}"
            return [FieldError("worker", message, worker, ", ".join(names), suggestion)]
        if not self.programs.is_installed(worker):
            return []
        description = await asyncio.to_thread(self.programs.describe, worker)
        _, errors = check_config(description, {**config, "run_id": "run"})
        return errors

    async def cancel(self, row: Row) -> Row:
        if row.has_ended:
            raise NotPossible(f"run {row.name} has already ended ({row.state})")
        await self.dispatcher.cancel(row.run_id)
        return self._now(row)

    async def pause(self, row: Row) -> Row:
        # A worker that is still starting hears it as soon as it listens.
        view = await self._under_way(row, "pause", "STARTING", "RUNNING", "PAUSED")
        if view.state == "PAUSED":
            raise NotPossible(f"run {row.name} is paused already")
        await self._send(row, "pause")
        return self._now(row)

    async def checkpoint(self, row: Row) -> Row:
        await self._under_way(row, "checkpoint", "RUNNING", "PAUSED")
        await self._send(row, "checkpoint")
        return self._now(row)

    async def resume(self, row: Row) -> Row:
        """Let a paused run go on, or an ended one again from its newest checkpoint."""
        if row.state == "QUEUED":
            raise NotPossible(f"run {row.name} waits to start; there is nothing to resume")
        if row.has_ended:
            point = await asyncio.to_thread(ends.resume_point, self.home.run(row.run_id))
            where = f"resumed from the checkpoint at step {point.step}" if point else "no whole checkpoint: starts anew"
            return await self._again(row, Again(point, f"attempt {row.attempt + 1}: {where}"))
        view = await self.view(row)
        if view.state != "PAUSED":
            raise NotPossible(f"run {row.name} is not paused ({view.state})")
        await self._send(row, "resume")
        return self._now(row)

    async def retry(self, row: Row) -> Row:
        """An ended run again from the beginning."""
        if not row.has_ended:
            raise NotPossible(f"run {row.name} has not ended yet ({row.state.lower()}); cancel it first")
        return await self._again(row, Again(None, f"attempt {row.attempt + 1}: from the beginning"))

    async def remove(self, row: Row, *, force: bool) -> None:
        """Delete an ended run with its folder; with `force` end it first."""
        if not row.has_ended:
            if not force:
                raise NotPossible(f"run {row.name} has not ended ({row.state.lower()}); cancel it first, or force it")
            await self._end(row)
        async with self.dispatcher.lock(row.run_id):
            if not self._now(row).has_ended:
                raise NotPossible(f"run {row.name} has just been started again")
            folder = self.home.run(row.run_id).path
            trash = folder.with_name(TRASH_PREFIX + row.run_id)
            if folder.exists():
                folder.rename(trash)
            self.registry.remove(row.run_id)
        self.hub.changed(row.run_id)
        await asyncio.to_thread(shutil.rmtree, trash, ignore_errors=True)

    async def _end(self, row: Row) -> None:
        with self.hub.listen() as listener:
            await self.dispatcher.cancel(row.run_id)
            deadline = time.monotonic() + REMOVE_PATIENCE_S
            while not self._now(row).has_ended:
                left = deadline - time.monotonic()
                if left <= 0 or listener.closed:
                    raise NotPossible(f"run {row.name} was cancelled and has not ended yet; try again later")
                await listener.wait(left)

    async def _again(self, row: Row, again: Again) -> Row:
        if errors := self.capacity.impossible(row.job.resources):
            raise SpecError(errors)
        if not self.programs.is_known(row.worker):
            raise NotPossible(
                f"run {row.name} needs worker {row.worker!r}, which is not installed any more:"
                " install it again with `mosaic worker install`"
            )
        async with self.dispatcher.lock(row.run_id):
            now = self._now(row)
            if not now.has_ended:
                raise NotPossible(f"run {row.name} has just been started again")
            self.dispatcher.requeue(now, again, retries=0)
        return self._now(row)

    async def _under_way(self, row: Row, what: str, *states: str) -> RunView:
        view = await self.view(row)
        if view.state not in states:
            raise NotPossible(f"cannot {what} run {row.name}: it is {view.state}, not running")
        return view

    async def _send(self, row: Row, command: str) -> None:
        deadline = time.monotonic() + SHEPHERD_START_S
        while True:
            try:
                send(self.home.run(row.run_id), command)
                return
            except ControlError as error:
                starting = isinstance(error, ShepherdGone) and (await self.view(row)).state == "STARTING"
                if not starting or time.monotonic() > deadline:
                    raise NotPossible(str(error)) from None
            await asyncio.sleep(0.02)

    def _now(self, row: Row) -> Row:
        return self.registry.get(row.run_id) or row
