"""The store as the shepherd uses it: what was taken from the pipe is committed at once, or kept until there is room."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mosaic.shepherd.children import Children
from mosaic.shepherd.complaints import complain
from mosaic.shepherd.exit_record import ExitRecord
from mosaic.shepherd.launch import Launch
from mosaic.store import RunWriter
from mosaic.worker.messages import AnyMessage


class Journal:
    def __init__(self, path: Path, launch: Launch, started: float) -> None:
        self._writer = writer = RunWriter(path)
        self._children = Children(path.parent)
        writer.begin_attempt(
            launch.attempt, started=started, resumed_from=launch.resume_from, resumed_step=launch.resume_step
        )
        self.trouble: sqlite3.OperationalError | None = None  # why the last commit failed, until one works again
        self.last_seq = writer.last_seq  # what is in the store, not merely taken
        self.state = "STARTING"
        self.gave_up = False
        self._unspoken = 0

    @property
    def last_step(self) -> int | None:
        return self._writer.last_step

    @property
    def counts(self) -> dict[str, int]:
        return self._writer.counts

    @property
    def unspoken(self) -> int:
        """Messages that were taken but never stored."""
        return self._unspoken + self._writer.pending + self._children.pending

    def append(self, messages: Sequence[AnyMessage]) -> None:
        if self.gave_up:
            self._unspoken += len(messages)
        else:
            self._writer.append(self._children.take(messages), time.time())

    def set_state(self, state: str, detail: str = "") -> None:
        self.state = state
        self._writer.set_state(state, time.time(), detail)

    def count(self, name: str, by: int = 1) -> None:
        if by:
            self._writer.count(name, by)

    def count_all(self, counts: Counter[str]) -> None:
        for name, by in counts.items():
            self._writer.count(name, by)
        counts.clear()

    def give_up(self) -> None:
        """The disk stays full: what comes from now on is counted, not kept."""
        self.gave_up = True

    def commit(self) -> bool:
        try:
            self._children.commit()  # first: a child that the run's own journal speaks of is there to be read
            self.last_seq = self._writer.commit()
        except sqlite3.OperationalError as error:
            self.trouble = error
        else:
            self.trouble = None
        return self.trouble is None

    def end(self, record: ExitRecord) -> None:
        """Tell the stores how the attempt ended and close them. exit.json has the truth too, if they cannot."""
        try:
            self._children.end(record)
        except sqlite3.Error as error:
            complain(f"the end is not in the stores of its child runs: {error}")
        self.count_all(self._children.refused)
        self._writer.end_attempt(
            outcome=record.outcome,
            ended=record.ended,
            exit_code=record.exit_code,
            signal=record.signal,
            reason=record.reason,
            message=record.message,
        )
        try:
            self.last_seq = self._writer.commit()
            self._writer.close()
        except sqlite3.Error as error:
            complain(f"the end is in exit.json only: {error}")
