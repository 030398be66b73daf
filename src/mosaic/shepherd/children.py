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

# A worker that makes up names must not fill the disk with stores.
MAX_CHILDREN = 1000


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
        return sum(len(messages) for messages in self._waiting.values())

    def commit(self) -> None:
        """Store what was taken. Raises sqlite3.OperationalError on a full disk and keeps the rest: call it again."""
        for name in list(self._waiting):
            self._store(name)
        for child in self._journals.values():
            child.writer.commit()

    def end(self, record: ExitRecord) -> None:
        """What has not ended by itself ends as its run does."""
        self.commit()
        for child in self._journals.values():
            if child.running:
                child.finish(record.outcome, record.ended, record.reason, f"with its run: {record.message}")
            child.writer.commit()
            child.writer.close()

    def _keep(self, message: AnyMessage) -> None:
        name = message.child
        if name not in self._waiting and name not in self._journals and self._known() >= MAX_CHILDREN:
            self.refused["children_refused"] += 1
            return
        self._waiting.setdefault(name, deque()).append(message)

    def _known(self) -> int:
        return len(self._waiting.keys() | self._journals.keys())

    def _store(self, name: str) -> None:
        messages = self._waiting[name]
        if name not in self._journals:
            folder = self._folder.child(name)
            folder.path.mkdir(parents=True, exist_ok=True)
            try:
                self._journals[name] = _Child(RunWriter(folder.store))
            except StoreError:
                self.refused["child_store_unusable"] += len(messages)
                del self._waiting[name]
                return
        child = self._journals[name]
        while messages:
            child.hear(messages[0])
            messages.popleft()
        del self._waiting[name]


class _Child:
    def __init__(self, writer: RunWriter) -> None:
        self.writer = writer
        self.running = False

    def hear(self, message: AnyMessage) -> None:
        now = message.time or time.time()
        if isinstance(message, ChildStarted):
            self._begin(message, now)
        elif not self.running:
            # It was never said to begin, or speaks after its end: better kept as an attempt of its own than lost.
            self._begin(ChildStarted(), now)
        self.writer.append([message], now)
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
        self.writer.commit()
        self.writer.begin_attempt(
            self.writer.last_attempt + 1,
            started=now,
            resumed_from=message.parent or (None if message.from_step is None else message.child),
            resumed_step=message.from_step,
        )
        self.writer.set_state("RUNNING", now)
        self.running = True

    def finish(self, outcome: Outcome, ended: float, reason: str, message: str) -> None:
        self.writer.end_attempt(outcome=outcome, ended=ended, reason=reason, message=message)
        self.running = False
