"""What is known about a run that is being watched, put together from its telemetry as it comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

# The kinds of rows that a watcher wants. Step events are left out: there can be a hundred thousand a second of them.
WATCHED_KINDS = (
    "run_started", "run_completed", "run_failed", "heartbeat", "metric", "episode", "checkpoint", "stage", "log",
    "attempt", "state", "ended",
)  # fmt: skip

RATE_WINDOW_S = 15.0
CURVE_POINTS = 600
LOG_LINES = 6


def find_return_metric(names: Iterable[str]) -> str | None:
    """The metric that people look at first."""
    wanted = [name for name in names if "return" in name.lower()]
    return min(wanted, key=len) if wanted else None


class Curve:
    """A series kept at a bounded number of points: when it is full, neighbours are merged into their mean."""

    def __init__(self, limit: int = CURVE_POINTS) -> None:
        self._limit = limit
        self._share = 1
        self._pending: list[float] = []
        self.values: list[float] = []
        self.last: float | None = None

    def add(self, value: float) -> None:
        if value - value != 0.0:
            return
        self.last = value
        self._pending.append(value)
        if len(self._pending) < self._share:
            return
        self.values.append(sum(self._pending) / len(self._pending))
        self._pending = []
        if len(self.values) >= self._limit:
            pairs = zip(self.values[::2], self.values[1::2], strict=True)
            self.values = [(one + other) / 2 for one, other in pairs]
            self._share *= 2


@dataclass
class WatchModel:
    view: dict[str, Any]
    step: int | None = None
    episodes: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    episode_returns: Curve = field(default_factory=Curve)
    return_metric: Curve = field(default_factory=Curve)
    return_metric_name: str | None = None
    recent_returns: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    checkpoint: dict[str, Any] | None = None
    stage: dict[str, Any] | None = None
    logs: deque[str] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    connected: bool = True
    last_seq: int = 0
    _pace: deque[tuple[float, int]] = field(default_factory=deque)

    def set_view(self, view: dict[str, Any]) -> None:
        if view["attempt"] != self.view["attempt"]:
            self._pace.clear()
        self.view = view
        if view["step"] is not None and (self.step is None or view["attempt"] > 1 or view["step"] > self.step):
            self.step = view["step"]

    def absorb(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Take rows in; returns those that a log of events should mention."""
        worth_telling = []
        for row in rows:
            self.last_seq = row["seq"]
            if row.get("superseded"):
                continue
            if row.get("step") is not None:
                self._advance(row["time"], row["step"])
            match row["type"]:
                case "metric":
                    self.metrics |= row["values"]
                    self._add_return_metric(row["values"])
                case "episode":
                    self.episodes = max(self.episodes, row.get("episode", 0)) + 1
                    value = float(row["episode_return"])
                    self.episode_returns.add(value)
                    self.recent_returns.append(value)
                case "checkpoint":
                    self.checkpoint = row
                    worth_telling.append(row)
                case "stage":
                    self.stage = row
                    worth_telling.append(row)
                case "log":
                    self.logs.append(row["message"])
                    worth_telling.append(row)
                case "run_failed":
                    worth_telling.append(row)
                case "attempt":
                    self._pace.clear()
                    worth_telling.append(row)
        return worth_telling

    def _add_return_metric(self, values: dict[str, Any]) -> None:
        if self.return_metric_name is None:
            self.return_metric_name = find_return_metric(values)
        if self.return_metric_name in values:
            self.return_metric.add(float(values[self.return_metric_name]))

    @property
    def curve(self) -> list[float]:
        """How well it does: the worker's own metric of that where it has one, else the returns of episodes."""
        return self.return_metric.values if len(self.return_metric.values) > 1 else self.episode_returns.values

    def _advance(self, time: float, step: int) -> None:
        self.step = step
        if self._pace and step < self._pace[-1][1]:
            self._pace.clear()  # it resumed from an earlier checkpoint
        if self._pace and time - self._pace[-1][0] < 0.1:
            return
        self._pace.append((time, step))
        while len(self._pace) > 2 and time - self._pace[0][0] > RATE_WINDOW_S:
            self._pace.popleft()

    @property
    def rate(self) -> float | None:
        """Steps per second over the last seconds."""
        if len(self._pace) < 2:
            return None
        (first_time, first_step), (last_time, last_step) = self._pace[0], self._pace[-1]
        return (last_step - first_step) / (last_time - first_time) if last_time > first_time else None

    @property
    def total(self) -> int | None:
        total: int | None = self.view["total_steps"]
        return total

    @property
    def fraction(self) -> float | None:
        if self.step is None or not self.total:
            progress: float | None = self.view["progress"]
            return progress
        return min(1.0, self.step / self.total)

    @property
    def seconds_left(self) -> float | None:
        rate, total = self.rate, self.total
        if not rate or self.step is None or not total or self.view["state"] != "RUNNING":
            return None
        return max(0.0, (total - self.step) / rate)

    @property
    def recent_return(self) -> float | None:
        """The mean over the last hundred episodes; without episodes, the metric's last value."""
        if self.recent_returns:
            return sum(self.recent_returns) / len(self.recent_returns)
        return self.return_metric.last
