"""The shepherd's life: start the worker, hear what it says, end the whole tree, tell how it ended.

One thread, one poll loop. Every handler does a bounded amount of work and none blocks, so that no stream starves
another and no worker can hold the shepherd up. How a run ends, whoever ends it:

    stop on stdin -> SIGTERM to the group -> SIGKILL to the tree         only if the shepherd ends it
    worker gone   -> a moment for its descendants -> SIGTERM -> SIGKILL  everything that descends from the worker
    tree gone     -> read both pipes to their end -> store -> exit.json  the truth, last of all
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Literal

from mosaic.paths import RunFolder
from mosaic.shepherd import processes
from mosaic.shepherd.clearing import clear_leftovers, remove_shared_memory
from mosaic.shepherd.complaints import complain
from mosaic.shepherd.control import Command, Inbox, WorkerInput
from mosaic.shepherd.exit_record import ExitRecord, one_line
from mosaic.shepherd.launch import Launch, worker_environment
from mosaic.shepherd.limits import MemoryCgroup, cgroup_name, kernel_oom_kills, over_limit
from mosaic.shepherd.lock import ShepherdInfo, write_shepherd
from mosaic.shepherd.spawn import Spawned, SpawnFailed, spawn
from mosaic.shepherd.timers import Timers
from mosaic.shepherd.verdict import Cause, Seen, Verdict, judge

if TYPE_CHECKING:
    from mosaic.shepherd.hearing import Hearing
    from mosaic.shepherd.journal import Journal

_STOP_SHARE = 0.1  # of the grace: how long `stop` on stdin is given before SIGTERM
_STOP_AT_MOST_S = 3.0
_LEFTOVER_WAIT_S = 1.0  # for descendants that end by themselves once the worker is gone
_LEFTOVER_GRACE_S = 5.0
_MEMORY_WATCH_S = 0.5


class Shepherd:
    def __init__(self, folder: RunFolder, launch: Launch, earlier: ShepherdInfo | None) -> None:
        self._folder = folder
        self._launch = launch
        self._earlier = earlier  # of the attempt before
        self._started = time.time()
        self._poll = select.poll()
        self._timers = Timers()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._inbox: Inbox | None = None
        self._worker: Spawned | None = None
        self._journal: Journal | None = None
        self._hearing: Hearing | None = None
        self._cgroup: MemoryCgroup | None = None
        self._oom_before = kernel_oom_kills()
        self._status: int | None = None  # of the worker, once it was waited for
        self._worker_gone = self._tree_gone = False
        self._cause: Cause | None = None
        self._detail = ""
        self._frozen = False  # the tree is stopped by SIGSTOP
        self._resuming = False  # the worker was told to go on, and has not shown yet that it does

    def run(self) -> ExitRecord:
        try:
            self._start()
            while not self._over():
                for descriptor, _ in self._poll.poll(self._timers.poll_timeout_ms()):
                    self._handlers[descriptor]()
                self._timers.run_due()
            verdict = self._judge()
        except SpawnFailed as error:
            verdict = Verdict("failed", "spawn_failed", str(error))
        except Exception as error:  # whatever went wrong in here, the tree must end and exit.json must tell
            complain(traceback.format_exc())
            verdict = _own_failure(error)
        processes.kill_all(self._find, self._reap)
        return self._conclude(verdict)

    # Starting

    def _start(self) -> None:
        if os.getsid(0) != os.getpid() and os.getpgid(0) != os.getpid():
            os.setsid()
        processes.become_subreaper()
        self._catch_signals()
        self._folder.logs.mkdir(exist_ok=True)
        self._inbox = Inbox(self._folder)
        self._listen(self._inbox.descriptor, self._on_commands)
        if self._earlier is not None:
            clear_leftovers(self._earlier, grace_s=self._launch.term_grace_s)
        own = processes.read_process(os.getpid())
        assert own is not None, "we live"
        info = ShepherdInfo(
            run_id=self._launch.run_id,
            attempt=self._launch.attempt,
            pid=own.pid,
            started=self._started,
            start_ticks=own.start_ticks,
            boot_id=processes.boot_id(),
        )
        write_shepherd(self._folder, info)  # from here on this attempt was started, and never is again
        try:
            self._spawn(info)
        finally:
            self._open_journal()
        self._listen_to_worker()

    def _spawn(self, info: ShepherdInfo) -> None:
        launch = self._launch
        if launch.memory_mb is not None:
            self._cgroup = MemoryCgroup.create(cgroup_name(launch.run_id, launch.attempt), launch.memory_mb << 20)
        environment = worker_environment(launch, self._folder, os.environ)
        self._worker = worker = spawn(launch.argv, environment, launch.cwd or str(self._folder.path))
        self._stdin = WorkerInput(worker.stdin, self._poll)
        self._handlers[worker.stdin] = self._stdin.flush
        if launch.memory_mb is not None and not (self._cgroup and self._cgroup.add(worker.pid)):
            self._timers.set("memory", 0.0, self._watch_memory)
        process = processes.read_process(worker.pid)
        info.worker_pid = info.session = worker.pid
        info.worker_start_ticks = process.start_ticks if process else None
        write_shepherd(self._folder, info)

    def _open_journal(self) -> None:
        # Imported only now: the store takes as long to load as a worker's interpreter takes to start, on another core.
        from mosaic.shepherd.journal import Journal

        self._journal = Journal(self._folder.store, self._launch, self._started)

    def _listen_to_worker(self) -> None:
        from mosaic.shepherd.hearing import Ears, Hearing

        assert self._worker is not None, "it was just started"
        ears = Ears(self._on_heard, self._on_heartbeat, self._on_cannot_store)
        self._hearing = hearing = Hearing(
            self._folder, self._launch, self._store, self._worker, self._poll, self._timers, ears
        )
        self._handlers[self._worker.stdout] = hearing.stdout.readable
        self._handlers[self._worker.stderr] = hearing.stderr.readable
        hearing.commit()

    def _listen(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLIN)

    def _over(self) -> bool:
        return self._worker_gone and self._tree_gone and self._hear.over

    @property
    def _store(self) -> Journal:
        assert self._journal is not None, "the journal is open before the poll loop begins"
        return self._journal

    @property
    def _hear(self) -> Hearing:
        assert self._hearing is not None, "we listen before the poll loop begins"
        return self._hearing

    # Signals and children

    def _catch_signals(self) -> None:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _noted)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._listen(read, lambda: self._on_signals(read))

    def _on_signals(self, descriptor: int) -> None:
        numbers = os.read(descriptor, 4096)
        if signal.SIGCHLD in numbers:
            self._reap()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._end("told_to_end", "the shepherd was told to end")

    def _reap(self) -> bool:
        """Wait for all that have ended. True: nobody descends from us any more.

        That is certain, unlike anything read from /proc: whoever loses its parent becomes our child, so without
        children we have no descendants.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if self._worker_gone and not self._tree_gone:
                    self._on_tree_gone()
                return True
            if pid == 0:
                return False
            if self._worker is not None and pid == self._worker.pid:
                self._status = status
                self._on_worker_gone()

    def _on_worker_gone(self) -> None:
        self._worker_gone = True
        self._stdin.close()
        if self._hearing is not None:
            self._hearing.on_worker_gone()
        for name in ("pause", "terminate", "kill", "memory"):
            self._timers.cancel(name)
        wait = _LEFTOVER_WAIT_S if self._cause is None else 0.0
        self._timers.set("leftover_terminate", wait, self._terminate_leftovers)
        self._timers.set("leftover_kill", wait + min(_LEFTOVER_GRACE_S, self._launch.term_grace_s), self._kill_tree)

    def _find(self) -> list[processes.Process]:
        return processes.descendants(os.getpid())

    def _terminate_leftovers(self) -> None:
        found = self._find()
        self._store.count("leftover_processes", len(found))
        for process in found:
            processes.send_signal(process, signal.SIGTERM)
            processes.send_signal(process, signal.SIGCONT)

    def _kill_tree(self) -> None:
        """Nothing below us lives on after this, except what not even SIGKILL moves."""
        survivors = processes.kill_all(self._find, self._reap)
        self._store.count("unkillable_processes", len(survivors))
        if not self._worker_gone:
            self._on_worker_gone()
        if not self._tree_gone:
            self._on_tree_gone()

    def _on_tree_gone(self) -> None:
        self._tree_gone = True
        for name in ("leftover_terminate", "leftover_kill"):
            self._timers.cancel(name)
        if self._hearing is not None:
            self._hearing.drain()

    # What the worker says

    def _on_heard(self, working: bool) -> None:
        if self._store.state == "STARTING" or (working and self._resuming and not self._frozen):
            self._go_on()

    def _on_heartbeat(self, state: Literal["running", "paused"]) -> None:
        if self._frozen:
            return
        if state == "paused":
            self._timers.cancel("pause")
            if self._store.state != "PAUSED":
                self._store.set_state("PAUSED")
        elif self._store.state == "PAUSED":
            self._go_on()

    def _go_on(self) -> None:
        self._resuming = False
        if self._store.state != "RUNNING":
            self._store.set_state("RUNNING")
            self._timers.set("commit", 0.0, self._hear.commit)

    def _on_cannot_store(self, detail: str) -> None:
        self._end("disk_full", detail)
        if self._cause is None:  # the worker has ended already, but not all that it said is on record
            self._cause, self._detail = "disk_full", detail

    # What the worker is told

    def _on_commands(self) -> None:
        assert self._inbox is not None, "it calls us"
        commands, bad = self._inbox.read()
        self._store.count("control_malformed", bad)
        for command in commands:
            if not self._worker_gone:
                self._obey(command)
        self._hear.commit()

    def _obey(self, command: Command) -> None:
        if command == "cancel":
            self._end("cancel", "cancelled")
        elif command == "pause":
            self._pause()
        elif command == "resume":
            self._resume()
        else:
            self._tell("checkpoint")

    def _tell(self, kind: str) -> None:
        if not self._stdin.send(kind):
            self._store.count("control_unheard")

    def _pause(self) -> None:
        if self._frozen or self._cause is not None or self._timers.is_set("pause"):
            return
        if self._launch.worker_pauses:
            self._tell("pause")
            self._timers.set("pause", self._launch.pause_grace_s, self._freeze)
        else:
            self._freeze()

    def _freeze(self) -> None:
        self._frozen = True
        stopped = processes.freeze(self._find)
        self._store.set_state("PAUSED", f"{stopped} process{'' if stopped == 1 else 'es'} stopped by SIGSTOP")
        self._hear.commit()

    def _resume(self) -> None:
        if self._launch.worker_pauses:
            self._timers.cancel("pause")
            self._resuming = True  # the state follows when the worker shows that it goes on
            self._tell("resume")
        if self._frozen:
            self._thaw()
            self._go_on()

    def _thaw(self) -> None:
        self._frozen = False
        processes.thaw(self._find)

    # Ending it

    def _end(self, cause: Cause, detail: str) -> None:
        """End the worker for a reason of ours; the first reason stands."""
        if self._cause is not None or self._worker_gone:
            return
        self._cause, self._detail = cause, detail
        self._timers.cancel("pause")
        if cause == "out_of_memory":
            self._kill_tree()
            return
        self._tell("stop")
        if self._frozen:
            self._thaw()
        self._store.set_state("RUNNING" if self._store.state == "PAUSED" else self._store.state, f"ending: {detail}")
        grace = self._launch.term_grace_s
        self._timers.set("terminate", min(_STOP_AT_MOST_S, grace * _STOP_SHARE), self._terminate)
        self._timers.set("kill", grace, self._kill_tree)
        self._hear.commit()

    def _terminate(self) -> None:
        assert self._worker is not None, "there is something to end"
        # Our child, not reaped yet: its group cannot be anybody else's.
        with contextlib.suppress(PermissionError):  # it took another user's identity
            os.killpg(self._worker.pid, signal.SIGTERM)

    def _watch_memory(self) -> None:
        limit = self._launch.memory_mb
        assert limit is not None, "the watch is set only with a limit"
        used = over_limit(self._find(), limit)
        if used is None:
            self._timers.set("memory", _MEMORY_WATCH_S, self._watch_memory)
        else:
            self._end("out_of_memory", f"used {used} MiB of memory, the run's limit is {limit} MiB")

    # The record

    def _judge(self) -> Verdict:
        hear = self._hear
        return judge(
            Seen(
                status=self._status,
                cause=self._cause,
                detail=self._detail,
                completed=hear.completed.reason if hear.completed else None,
                failure=hear.failure.error if hear.failure else None,
                last_words=hear.last_words,
                kernel_killed=self._cgroup is not None and self._cgroup.killed_by_kernel > 0,
                machine_oom=kernel_oom_kills() > self._oom_before,
                unspoken=self._store.unspoken,
            )
        )

    def _conclude(self, verdict: Verdict) -> ExitRecord:
        record = ExitRecord(
            run_id=self._launch.run_id,
            attempt=self._launch.attempt,
            outcome=verdict.outcome,
            exit_code=verdict.exit_code,
            signal=verdict.signal,
            reason=verdict.reason,
            message=one_line(verdict.message),
            started=self._started,
            ended=time.time(),
            last_seq=0,
        )
        if self._journal is not None:
            self._journal.end(record)
            record.last_seq = self._journal.last_seq
            record.last_step = self._journal.last_step
            record.counts = self._journal.counts
        if self._cgroup is not None:
            self._cgroup.remove()
        remove_shared_memory(self._launch.run_id)
        if self._inbox is not None:
            self._inbox.close()
        return record


def _noted(number: int, frame: FrameType | None) -> None:
    """The wakeup pipe has told the loop; without a handler it would not."""


def _own_failure(error: Exception) -> Verdict:
    """The shepherd itself could not go on, and so ended the worker."""
    import sqlite3  # loaded already, unless that is what failed; at the top it would delay every start

    from mosaic.store import StoreError

    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    full = full or (isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL)
    if full:
        return Verdict("failed", "disk_full", f"the disk is full: {error}")
    if isinstance(error, StoreError):
        return Verdict("failed", "error", str(error))
    return Verdict("lost", "unknown", f"the shepherd failed: {type(error).__name__}: {error}")
