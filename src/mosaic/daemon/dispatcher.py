"""The dispatcher: starts what waits when there is room, notices ends, starts again what should be.

Woken by events: a submission, an end, an installed environment. What it holds in memory can be lost at any moment; the
next daemon reads it off the registry and the run folders (`recovery`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Coroutine
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from mosaic.daemon import ends
from mosaic.daemon.hub import Hub
from mosaic.daemon.installs import Installs
from mosaic.daemon.launching import spawn_recorder, spawn_shepherd, write_launch
from mosaic.daemon.programs import Programs
from mosaic.daemon.registry import Registry, Row
from mosaic.daemon.resources import Capacity, describe_lack, need_of, pick_gpus
from mosaic.daemon.retry import Again, Enough, decide
from mosaic.daemon.schedule import Need, Waiting, plan
from mosaic.daemon.watching import ShepherdWatch
from mosaic.envs import EnvsError
from mosaic.paths import Home, RunFolder
from mosaic.shepherd.control import ControlError, send
from mosaic.shepherd.exit_record import ExitRecord, Outcome, Reason
from mosaic.shepherd.launch import LaunchError
from mosaic.shepherd.recovery import bury

log = logging.getLogger("mosaic.daemon")

# How often a shepherd may end before it took up its run, until the run is given up.
START_LIMIT = 3
# When the disk is full or no process can be started: how long to wait before trying again.
TROUBLE_PAUSE_S = 5.0
# How often to hand over a cancel to a shepherd that does not listen yet.
CANCEL_INTERVAL_S = 0.03
# What the worker of a dead shepherd gets to save a checkpoint; the kernel has sent it SIGTERM.
ORPHAN_GRACE_S = float(os.environ.get("MOSAIC_ORPHAN_GRACE_S", "30"))


class Dispatcher:
    def __init__(self, home: Home, registry: Registry, programs: Programs, capacity: Capacity, hub: Hub) -> None:
        self.home = home
        self.registry = registry
        self.programs = programs
        self.capacity = capacity
        self.hub = hub
        self.watch = ShepherdWatch(self._on_shepherd_end)
        self.installs = Installs(programs.envs, self._on_installed, self._on_install_report)
        self.reasons: dict[str, str] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._wake = asyncio.Event()
        self._open = True
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed_starts: dict[str, int] = {}

    # From outside

    def wake(self) -> None:
        self._wake.set()

    def lock(self, run_id: str) -> asyncio.Lock:
        """Held by whoever changes the run's row: one change at a time, also across waits."""
        return self._locks.setdefault(run_id, asyncio.Lock())

    def free(self) -> Need:
        free = self.capacity.total
        for row in self.registry.rows(states=("ACTIVE",)):
            free = free.minus(need_of(row.job.resources))
        return free

    async def run(self) -> None:
        """Until `stop`. Whatever goes wrong with one run, or one round, is told and tried again; the others go on."""
        while self._open:
            await self._wake.wait()
            self._wake.clear()
            for error in await self._start_what_fits():
                self._in_trouble(error)

    async def stop(self) -> None:
        """Start nothing more, finish the starts that are under way, and let go of everything. Runs go on."""
        self._open = False
        self.wake()
        self.watch.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    # Starting

    async def _start_what_fits(self) -> list[BaseException]:
        """Start what there is room for; what went wrong."""
        (decided,) = await asyncio.gather(self._take_from_queue(), return_exceptions=True)
        if isinstance(decided, BaseException):
            return [decided]
        failures = []
        for run_id in decided:
            (failure,) = await asyncio.gather(self._start(run_id), return_exceptions=True)
            if failure is not None:
                failures.append(failure)
        return failures

    async def _take_from_queue(self) -> list[str]:
        """Mark what there is room for as active; from here on it counts as taken."""
        queue = self._startable()
        free = self.free()
        rows = {row.run_id: row for row in queue}
        decided = plan(
            (Waiting(row.run_id, row.job.priority, row.place, need_of(row.job.resources), row.passes) for row in queue),
            free,
        )
        for run_id, passes in decided.waiting.items():
            if passes != rows[run_id].passes:
                self.registry.set_passes(run_id, passes)
        for run_id in decided.start:
            taken = [gpu for row in self.registry.rows(states=("ACTIVE",)) for gpu in row.gpus]
            gpus = pick_gpus(self.capacity, taken, rows[run_id].job.resources.gpus)
            self.registry.mark_active(run_id, gpus, time.time())
            self.reasons.pop(run_id, None)
            free = free.minus(need_of(rows[run_id].job.resources))
        for run_id in decided.waiting:
            self._explain(run_id, describe_lack(need_of(rows[run_id].job.resources), free))
        return decided.start

    def _startable(self) -> list[Row]:
        """The queue without those that wait for something else than room."""
        startable = []
        for row in self.registry.rows(states=("QUEUED",)):
            if impossible := self.capacity.impossible(row.job.resources):
                self._explain(row.run_id, "this machine cannot run it: " + impossible[0].message)
            elif self.programs.can_be_installed(row.worker):
                self._explain(row.run_id, self.installs.want(row.worker))
            else:
                startable.append(row)
        return startable

    async def _start(self, run_id: str) -> None:
        async with self.lock(run_id):
            row = self.registry.get(run_id)
            if row is None or row.state != "ACTIVE" or not self._open:
                return
            folder = self.home.run(run_id)
            try:
                program = await asyncio.to_thread(self.programs.program, row.worker, folder.job)
                await asyncio.to_thread(write_launch, folder, row, program, self.capacity.gpus)
                process = await asyncio.to_thread(spawn_shepherd, folder)
            except EnvsError as error:
                self.registry.put_back(run_id)
                await self._end_unstarted(row, "failed", "spawn_failed", str(error))
            except OSError as error:
                self.registry.put_back(run_id)
                self._explain(run_id, f"could not be started: {error}: trying again")
                self._in_trouble(error)
            else:
                self.watch.child(run_id, process)
                if row.job.clips is not None:
                    await asyncio.to_thread(spawn_recorder, folder, row.job.clips.every_episodes)
                log.info("run %s (%s): attempt %d started", run_id, row.name, row.attempt)
            self.hub.changed(run_id)

    def _explain(self, run_id: str, reason: str) -> None:
        if self.reasons.get(run_id) != reason:
            self.reasons[run_id] = reason
            self.hub.changed(run_id)

    def _in_trouble(self, error: BaseException) -> None:
        """The disk is full, or there is no room for another process: go on where we were, a little later."""
        expected = isinstance(error, (sqlite3.OperationalError, OSError))
        log.error("%r: trying again in %g s", error, TROUBLE_PAUSE_S, exc_info=None if expected else error)
        asyncio.get_running_loop().call_later(TROUBLE_PAUSE_S, self._take_up_again)

    def _take_up_again(self) -> None:
        if not self._open:
            return
        try:
            for row in self.registry.rows(states=("ACTIVE",)):
                if row.run_id not in self.watch:
                    self.in_background(self.settle(row.run_id))
        except sqlite3.OperationalError as error:
            self._in_trouble(error)
        self.wake()

    # Environments

    def _on_install_report(self, worker: str) -> None:
        for row in self.registry.rows(states=("QUEUED",), worker=worker):
            self._explain(row.run_id, self.installs.want(worker))

    def _on_installed(self, worker: str, failure: str | None) -> None:
        if failure is not None:
            self.in_background(self._fail_waiting(worker, failure))
        self.wake()

    async def _fail_waiting(self, worker: str, failure: str) -> None:
        for row in self.registry.rows(states=("QUEUED",), worker=worker):
            async with self.lock(row.run_id):
                await self._end_unstarted(row, "failed", "spawn_failed", failure)

    # Ending

    def _on_shepherd_end(self, run_id: str) -> None:
        # Taken off again when it turns out that it did take up the run.
        self._failed_starts[run_id] = self._failed_starts.get(run_id, 0) + 1
        self.in_background(self.settle(run_id))

    async def settle(self, run_id: str) -> None:
        """Bring the registry to what the folder says of a run that is not watched: after every end, and at start."""
        try:
            await self._settle(run_id)
        except (sqlite3.OperationalError, OSError) as error:
            self._in_trouble(error)

    async def _settle(self, run_id: str) -> None:
        async with self.lock(run_id):
            row = self.registry.get(run_id)
            if row is None or row.has_ended:
                return
            folder = self.home.run(run_id)
            if not folder.path.is_dir():
                self._finish_as_lost(row, "its folder is gone")
                return
            try:
                known = await asyncio.to_thread(ends.known_attempt, folder)
                if known > row.attempt:
                    # The registry lost its last words to a power cut.
                    row = self.registry.set_attempt(run_id, known)
                status = await asyncio.to_thread(ends.read_state, folder, row.attempt)
            except (LaunchError, msgspec.DecodeError) as error:
                self._finish_as_lost(row, f"its records cannot be read: {error}")
                return
            if status.alive and await self.watch.adopt(folder):
                if row.state == "QUEUED":
                    self.registry.mark_active(run_id, row.gpus, time.time())
                if row.cancel:
                    self.in_background(self.deliver_cancel(run_id))
                return
            if status.alive:
                status = await asyncio.to_thread(ends.read_state, folder, row.attempt)
            if status.state == "QUEUED":
                await self._never_started(row, folder)
            elif status.exit is not None:
                await self._conclude(row, status.exit)
            else:
                await self._bury(row, folder)

    async def _never_started(self, row: Row, folder: RunFolder) -> None:
        """The shepherd ended before it took up the run, or was never spawned. Nothing of the attempt was done."""
        if row.state == "ACTIVE":
            self.registry.put_back(row.run_id)
        if self._failed_starts.get(row.run_id, 0) >= START_LIMIT:
            del self._failed_starts[row.run_id]
            said = await asyncio.to_thread(_last_line, folder)
            message = f"the shepherd did not start in {START_LIMIT} tries: {said}"
            await self._end_unstarted(row, "failed", "spawn_failed", message)
            return
        if row.cancel:
            await self._end_unstarted(row, "cancelled", "cancelled", "cancelled before it started")
        self.wake()

    async def _bury(self, row: Row, folder: RunFolder) -> None:
        log.warning("run %s (%s): its shepherd died; clearing up", row.run_id, row.name)
        record = await asyncio.to_thread(bury, folder, grace_s=ORPHAN_GRACE_S)
        if record is None or record.attempt != row.attempt:
            # Somebody else took it up meanwhile.
            self.in_background(self.settle(row.run_id))
            return
        await self._conclude(row, record)

    async def _conclude(self, row: Row, record: ExitRecord) -> None:
        """Write down how an attempt ended, and let the next one wait if there is to be one: in one transaction."""
        folder = self.home.run(row.run_id)
        total = await asyncio.to_thread(ends.total_steps, folder)
        log.info("run %s (%s): attempt %d %s: %s", row.run_id, row.name, row.attempt, record.outcome, record.message)
        retry = row.job.retry
        point = None
        if retry.policy == "resume" and record.outcome in ("failed", "lost"):
            point = await asyncio.to_thread(ends.resume_point, folder)
        if not self._open:
            return  # the next daemon finds it as we did
        decision = Enough("") if row.cancel else decide(retry, row.retries, record, point)
        if isinstance(decision, Again):
            self.requeue(row, decision, retries=row.retries + 1)
        else:
            self.registry.finish(record, total_steps=total, detail=decision.detail or row.detail)
        self._failed_starts.pop(row.run_id, None)
        self.hub.changed(row.run_id)
        self.wake()

    def requeue(self, row: Row, again: Again, *, retries: int) -> None:
        self.registry.requeue(
            row.run_id,
            attempt=row.attempt + 1,
            detail=again.detail,
            retries=retries,
            resume_from=again.point.path if again.point else None,
            resume_step=again.point.step if again.point else None,
        )
        self.hub.changed(row.run_id)
        self.wake()

    async def _end_unstarted(self, row: Row, outcome: Outcome, reason: Reason, message: str) -> None:
        """For a QUEUED run, by the holder of its lock."""
        folder = self.home.run(row.run_id)
        try:
            record = await asyncio.to_thread(ends.end_unstarted, folder, row, outcome, reason, message)
        except ends.AlreadyStarted:
            self.in_background(self.settle(row.run_id))
            return
        self.registry.finish(record, total_steps=await asyncio.to_thread(ends.total_steps, folder))
        self.reasons.pop(row.run_id, None)
        self.hub.changed(row.run_id)
        self.wake()

    def _finish_as_lost(self, row: Row, message: str) -> None:
        """In the registry only: there is no folder to write it to, or one in disorder that is left as it is."""
        now = time.time()
        record = ExitRecord(
            run_id=row.run_id,
            attempt=row.attempt,
            outcome="lost",
            reason="unknown",
            message=message,
            started=row.started or now,
            ended=now,
            last_seq=0,
        )
        self.registry.finish(record, total_steps=None)
        self.hub.changed(row.run_id)
        self.wake()

    # Cancelling

    async def cancel(self, run_id: str) -> None:
        """End a run that waits or runs. It is on record that this was asked before anything is done about it."""
        async with self.lock(run_id):
            row = self.registry.ask_cancel(run_id)
            if row.state == "QUEUED":
                await self._end_unstarted(row, "cancelled", "cancelled", "cancelled before it started")
            elif row.state == "ACTIVE":
                self.in_background(self.deliver_cancel(run_id))

    async def deliver_cancel(self, run_id: str) -> None:
        """Hand the cancel to the shepherd as soon as it listens."""
        folder = self.home.run(run_id)
        while (row := self.registry.get(run_id)) is not None and row.state == "ACTIVE":
            try:
                send(folder, "cancel")
            except ControlError:
                await asyncio.sleep(CANCEL_INTERVAL_S)
            else:
                return

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("unexpected: %s: %s", type(error).__name__, error, exc_info=error)


def _last_line(folder: RunFolder) -> str:
    lines = folder.shepherd_log.read_text(errors="replace").split("\n")[-20:]
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else f"it said nothing in {folder.shepherd_log}"
