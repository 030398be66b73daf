"""The one writer of a store."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mosaic.store import schema
from mosaic.store.rollup import Tail
from mosaic.worker.messages import AnyMessage, Episode, Heartbeat, Log, Metric, RunStarted, Step

CACHE_KIB = 8192
# Fewer and longer checkpoints cost less in sum; the pipe buffers while one lasts.
CHECKPOINT_BYTES = 16 << 20
BUSY_S = 30.0

# Beyond these a metric is kept as an event, without plots: a worker that makes up names must not fill the memory.
MAX_SERIES = 10_000
MAX_SERIES_NAME = 500
MAX_PLANS = 1024

RATE_WINDOW_S = 30.0
RATE_SAMPLE_S = 1.0

_WIDTHS = {
    "series": 2,
    "steps": 8,
    "episodes": 9,
    "metrics": 4,
    "points": 4,
    "rollups": 12,
    "logs": 4,
    "events": 4,
    "counters": 3,
    "attempts": 20,
}


class _Attempt(msgspec.Struct, kw_only=True):
    """The row of `attempts`; the fields are its columns."""

    attempt: int
    started: float
    first_seq: int
    last_seq: int
    resumed_from: str | None
    resumed_step: int | None
    state: str = "STARTING"
    state_time: float
    detail: str = ""
    last_step: int | None
    total_steps: int | None = None
    last_heard: float | None = None
    last_heartbeat: float | None = None
    rate: float | None = None
    ended: float | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    reason: str = ""
    message: str = ""


class RunWriter:
    """Appends to a run's store; made by the shepherd, which holds the run's lock.

    Everything is buffered, in memory, until `commit()` writes it in one transaction. Use it from one thread.
    """

    def __init__(self, path: Path) -> None:
        """Open the store, or make it (whole or not at all). Numbers go on where the last committed row ended.

        Raises StoreForeign or StoreTooNew, and sqlite3.OperationalError on a full disk.
        """
        if not path.exists():
            schema.create(path)
        self._database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            schema.check(self._database, path)
            self._prepare()
        except BaseException:
            self._database.close()
            raise
        self._encode = msgspec.json.Encoder().encode
        self._attempt: _Attempt | None = None
        self._tails: dict[str, Tail] = {}
        # The names in a message -> the list of their ids as text, and their tails. Workers repeat themselves.
        self._plans: dict[tuple[str, ...], tuple[str, list[Tail]] | None] = {}
        self._counts: dict[str, int] = {}
        self._samples: deque[tuple[float, int]] = deque()
        self._batch: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _WIDTHS}
        self._changed = False
        self._retrying = False

    def _prepare(self) -> None:
        execute = self._database.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        (page,) = execute("PRAGMA page_size").fetchone()
        execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_BYTES // page}")
        execute(f"PRAGMA journal_size_limit = {4 * CHECKPOINT_BYTES}")
        row = execute("SELECT attempt, last_seq FROM attempts ORDER BY attempt DESC LIMIT 1").fetchone()
        self._last_attempt: int = row[0] if row else 0
        self._committed: int = row[1] if row else 0
        self._last_seq = self._committed
        self._series = {name: id for id, name in execute("SELECT id, name FROM series")}

    def begin_attempt(
        self, attempt: int, *, started: float, resumed_from: str | None = None, resumed_step: int | None = None
    ) -> None:
        """Start the next attempt (a number above all earlier ones), in state STARTING. Also a journal row `attempt`.

        Rows of earlier attempts past `resumed_step` are superseded from now on; all that have a step if it is None.
        Must come before `append`, `count`, `set_state` and `end_attempt`, which all speak about this attempt.
        """
        if attempt <= self._last_attempt:
            raise ValueError(f"attempt {attempt} is in the store already, allowed: above {self._last_attempt}")
        if self._changed:
            raise ValueError(f"attempt {self._last_attempt} has rows that are not committed: commit() first")
        self._last_attempt = attempt
        self._tails.clear()
        self._plans.clear()
        self._counts = {}
        self._samples.clear()
        self._attempt = _Attempt(
            attempt=attempt,
            started=started,
            first_seq=self._last_seq + 1,
            last_seq=self._last_seq,
            resumed_from=resumed_from,
            resumed_step=resumed_step,
            state_time=started,
            last_step=resumed_step,
        )
        self._journal("attempt", started, {"resumed_from": resumed_from, "resumed_step": resumed_step})

    def append(self, messages: Sequence[AnyMessage], received: float) -> None:
        """Take telemetry, in the order in which it was said. A message without a time gets `received`."""
        attempt = self._current()
        if not messages:
            return
        lowest, highest = schema.INTEGER_MIN, schema.INTEGER_MAX
        seq = self._last_seq
        newest = attempt.last_step
        top = lowest if newest is None else newest
        keep_step = self._batch["steps"].append
        encode = self._encode
        for message in messages:
            seq += 1
            if type(message) is Step:  # by far the most frequent: no calls on this path
                step = message.step
                episode = message.episode
                env = message.env
                if lowest < step <= highest and lowest < episode <= highest and lowest < env <= highest:
                    reward = message.reward
                    extra = message.extra
                    keep_step(
                        (
                            seq,
                            message.time or received,
                            step,
                            reward if type(reward) is float else float(reward),
                            episode,
                            message.agent,
                            env,
                            encode(extra).decode() if extra else None,
                        )
                    )
                else:
                    self._keep_whole(seq, message, received, "out_of_range")
            else:
                self._keep(seq, message, received)
                step = getattr(message, "step", None) or lowest
            if top < step <= highest:
                top = step
        self._last_seq = seq
        if top > lowest:
            attempt.last_step = top
        attempt.last_heard = received
        self._sample_rate(attempt, received)
        self._changed = True

    def count(self, name: str, by: int = 1) -> None:
        """Count something odd (malformed lines, oversized lines, ...) under this attempt."""
        self._current()
        self._counts[name] = self._counts.get(name, 0) + by
        self._changed = True

    def set_state(self, state: str, time: float, detail: str = "") -> None:
        """The attempt's state (STARTING, RUNNING, PAUSED, ...). Also a journal row `state`, for followers."""
        attempt = self._current()
        attempt.state, attempt.state_time, attempt.detail = state, time, detail
        self._samples.clear()  # a rate over a pause says nothing
        self._journal("state", time, {"state": state, "detail": detail})

    def end_attempt(
        self,
        *,
        outcome: str,
        ended: float,
        exit_code: int | None = None,
        signal: str | None = None,
        reason: str = "",
        message: str = "",
    ) -> None:
        """The attempt has ended; its state becomes the outcome in capitals. Also a journal row `ended`."""
        attempt = self._current()
        attempt.state, attempt.state_time, attempt.detail = outcome.upper(), ended, message
        attempt.outcome, attempt.ended = outcome, ended
        attempt.exit_code, attempt.signal, attempt.reason, attempt.message = exit_code, signal, reason, message
        body = {"outcome": outcome, "exit_code": exit_code, "signal": signal, "reason": reason, "message": message}
        self._journal("ended", ended, body)

    def commit(self) -> int:
        """Write all that is buffered, in one transaction, and return the last seq that is now in the store.

        On a full disk it raises sqlite3.OperationalError and keeps the batch: call it again later. A batch is in the
        store exactly once, whatever happened in between. Nothing buffered: nothing is written.
        """
        if not self._changed:
            return self._committed
        attempt = self._current()
        attempt.last_seq = self._last_seq
        self._batch["attempts"] = [msgspec.structs.astuple(attempt)]
        self._batch["counters"] = [(attempt.attempt, name, count) for name, count in self._counts.items()]
        # A COMMIT that failed may still have reached the disk. All keys are given here, so writing again is harmless.
        verb = "INSERT OR REPLACE" if self._retrying else "INSERT"
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            for table, rows in self._batch.items():
                if rows:
                    how = "INSERT OR REPLACE" if table in ("counters", "attempts") else verb
                    database.executemany(f"{how} INTO {table} VALUES ({_MARKS[table]})", rows)
            database.execute("COMMIT")
        except BaseException:
            self._retrying = True
            if database.in_transaction:
                database.rollback()
            raise
        for rows in self._batch.values():
            rows.clear()
        self._changed = self._retrying = False
        self._committed = self._last_seq
        return self._committed

    def close(self) -> None:
        """Bring what was committed safely to the disk (fsync) and close. What was not committed is forgotten."""
        try:
            self._database.execute("PRAGMA busy_timeout = 1000")  # a reader may be in the way; then the WAL stays
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._database.close()

    @property
    def last_seq(self) -> int:
        """The last number given out, committed or not; 0 in a new store."""
        return self._last_seq

    @property
    def last_step(self) -> int | None:
        """The highest step that this attempt spoke of (at least the one it resumed from)."""
        return self._attempt.last_step if self._attempt else None

    @property
    def last_attempt(self) -> int:
        """The newest attempt in the store; 0 in a new store."""
        return self._last_attempt

    @property
    def counts(self) -> dict[str, int]:
        """What `count` has counted in this attempt."""
        return dict(self._counts)

    @property
    def pending(self) -> int:
        """How many rows wait for `commit`."""
        return self._last_seq - self._committed

    def _current(self) -> _Attempt:
        if self._attempt is None:
            raise ValueError("no attempt has begun in this writer: call begin_attempt() first")
        return self._attempt

    def _journal(self, kind: str, time: float, body: dict[str, Any]) -> None:
        self._last_seq += 1
        self._batch["events"].append((self._last_seq, time, kind, self._encode(body).decode()))
        self._changed = True

    def _keep(self, seq: int, message: AnyMessage, received: float) -> None:
        """Any message but a step."""
        time = message.time or received
        match message:
            case Metric():
                self._keep_metric(seq, message, received)
            case Episode():
                numbers = (message.step, message.episode, message.length, message.env)
                if not all(schema.INTEGER_MIN <= number <= schema.INTEGER_MAX for number in numbers):
                    self._keep_whole(seq, message, received, "out_of_range")
                    return
                extra = self._encode(message.extra).decode() if message.extra else None
                value = float(message.episode_return)
                row = (seq, time, message.step, message.episode, value, message.length, message.agent, message.env)
                self._batch["episodes"].append((*row, extra))
            case Log():
                self._batch["logs"].append((seq, time, message.level, message.message))
            case _:
                self._keep_whole(seq, message, received)
                if isinstance(message, Heartbeat):
                    self._current().last_heartbeat = received
                elif isinstance(message, RunStarted):
                    self._current().total_steps = message.total_steps

    def _keep_metric(self, seq: int, message: Metric, received: float) -> None:
        names = tuple(message.values)
        plan = self._plans[names] if names in self._plans else self._plan(names)
        step = message.step
        if plan is None:
            self._keep_whole(seq, message, received, "unplottable_metrics")
            return
        if not schema.INTEGER_MIN <= step <= schema.INTEGER_MAX:
            self._keep_whole(seq, message, received, "out_of_range")
            return
        ids, tails = plan
        points = self._batch["points"]
        self._batch["metrics"].append((seq, message.time or received, step, ids))
        for tail, said in zip(tails, message.values.values(), strict=True):
            value = float(said)
            points.append((tail.series, seq, step, value))
            for level, bucket in tail.add(seq, step, value):
                self._batch["rollups"].append((tail.series, level, bucket.seq, bucket.first_seq, *bucket[2:]))

    def _plan(self, names: tuple[str, ...]) -> tuple[str, list[Tail]] | None:
        """The tails of these metrics, which may be new; None if they are too many or their names too long."""
        new = [name for name in names if name not in self._series]
        plan = None
        if len(self._series) + len(new) <= MAX_SERIES and all(len(name) <= MAX_SERIES_NAME for name in new):
            for name in new:
                self._series[name] = id = len(self._series) + 1
                self._batch["series"].append((id, name))
            for name in names:
                if name not in self._tails:
                    self._tails[name] = Tail(self._series[name])
            tails = [self._tails[name] for name in names]
            plan = (self._encode([tail.series for tail in tails]).decode(), tails)
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[names] = plan
        return plan

    def _keep_whole(self, seq: int, message: AnyMessage, received: float, odd: str = "") -> None:
        """As an event: every kind without a table of its own, and (`odd`) what does not fit into its kind's table."""
        if odd:
            self.count(odd)
        tag = type(message).__struct_config__.tag
        self._batch["events"].append((seq, message.time or received, str(tag), self._encode(message).decode()))

    def _sample_rate(self, attempt: _Attempt, received: float) -> None:
        samples = self._samples
        if attempt.last_step is None:
            return
        if not samples or received - samples[-1][0] >= RATE_SAMPLE_S:
            samples.append((received, attempt.last_step))
        while len(samples) > 1 and received - samples[0][0] > RATE_WINDOW_S:
            samples.popleft()
        then, step = samples[0]
        if received > then:
            attempt.rate = (attempt.last_step - step) / (received - then)


_MARKS = {table: ", ".join("?" * width) for table, width in _WIDTHS.items()}
