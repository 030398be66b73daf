"""The child runs of a run (the trials of a population): each has a store of its own in the run's folder.

The worker says what they do on its one stream; here it is parted. A child has no process and no shepherd of its own, so
it lives and ends with its run. What was taken is kept until it could be stored, like all of the journal.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

from mosaic.paths import RunFolder
from mosaic.shepherd.exit_record import ExitRecord, Outcome
from mosaic.store import RunWriter, StoreError
from mosaic.worker.messages import AnyMessage, ChildStarted, RunCompleted, RunFailed

# A worker that makes up names must not fill the disk with stores, nor the shepherd's table of open files: three for
# each store, and many systems allow 1024.
MAX_CHILDREN = 1000
MAX_AT_ONCE = 200


class Children:
    def __init__(self, folder: Path) -> None:
        self._folder = RunFolder(folder)
        self._waiting: dict[str, deque[AnyMessage]] = {}
        self._journals: dict[str, _Child] = {}
        self.refused: Counter[str] = Counter()

    def take(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Part what children say from what the run says; that a child begins, both say."""
        own = []
        for message in messages:
            if message.child:
                self._keep(message)
            if not message.child or isinstance(message, ChildStarted):
                own.append(message)
        return own

    @property
    def pending(self) -> int:
        waiting = sum(len(messages) for messages in self._waiting.values())
        return waiting + sum(child.pending for child in self._journals.values())

    def commit(self) -> None:
        """Store what was taken. Raises sqlite3.OperationalError on a full disk and keeps the rest: call it again."""
        for name in list(self._waiting):
            self._store(name)
        for child in self._journals.values():
            child.commit()

    def end(self, record: ExitRecord) -> None:
        """What has not ended by itself ends as its run does."""
        self.commit()
        for child in self._journals.values():
            if child.running:
                child.finish(record.outcome, record.ended, record.reason, f"with its run: {record.message}")
            child.commit()

    def _keep(self, message: AnyMessage) -> None:
        name = message.child
        if name not in self._waiting:
            if name not in self._journals and len(self._waiting.keys() | self._journals.keys()) >= MAX_CHILDREN:
                self.refused["children_refused"] += 1
                return
            self._waiting[name] = deque()
        self._waiting[name].append(message)

    def _store(self, name: str) -> None:
        messages = self._waiting[name]
        child = self._journals.get(name) or _Child(self._folder.child(name))
        if child.running or sum(other.running for other in self._journals.values()) < MAX_AT_ONCE:
            self._journals[name] = child
            try:
                while messages:
                    child.hear(messages[0])
                    messages.popleft()
                child.commit()
            except StoreError:
                self.refused["child_store_unusable"] += len(messages)
        else:
            self.refused["children_refused"] += len(messages)
        del self._waiting[name]


class _Child:
    """One child's store, open only while the child runs."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._writer: RunWriter | None = None
        self.running = False

    @property
    def pending(self) -> int:
        return self._writer.pending if self._writer is not None else 0

    def commit(self) -> None:
        if self._writer is None:
            return
        self._writer.commit()
        if not self.running:
            writer, self._writer = self._writer, None
            writer.close()

    def hear(self, message: AnyMessage) -> None:
        now = message.time or time.time()
        if isinstance(message, ChildStarted):
            self._begin(message, now)
        elif not self.running:
            # It was never said to begin, or speaks after its end: better kept as an attempt of its own than lost.
            self._begin(ChildStarted(), now)
        self._opened().append([message], now)
        if isinstance(message, RunCompleted):
            if message.reason == "stopped":
                self.finish("cancelled", now, "stopped", "ended early")
            else:
                self.finish("succeeded", now, "completed", "completed")
        elif isinstance(message, RunFailed):
            self.finish("failed", now, "error", message.error)

    def _begin(self, message: ChildStarted, now: float) -> None:
        if self.running:
            where = f"goes on from {message.parent} at step {message.from_step}" if message.parent else "begins anew"
            self.finish("cancelled", now, "replaced", where)
        writer = self._opened()
        writer.commit()
        writer.begin_attempt(
            writer.last_attempt + 1,
            started=now,
            resumed_from=message.parent or (None if message.from_step is None else message.child),
            resumed_step=message.from_step,
        )
        writer.set_state("RUNNING", now)
        self.running = True

    def finish(self, outcome: Outcome, ended: float, reason: str, message: str) -> None:
        self._opened().end_attempt(outcome=outcome, ended=ended, reason=reason, message=message)
        self.running = False

    def _opened(self) -> RunWriter:
        if self._writer is None:
            self._folder.path.mkdir(parents=True, exist_ok=True)
            self._writer = RunWriter(self._folder.store)
        return self._writer
