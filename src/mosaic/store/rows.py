"""What a reader hands out besides journal rows."""

from __future__ import annotations

import msgspec

from mosaic.worker.messages import KINDS as TELEMETRY_KINDS
from mosaic.worker.messages import Number

# `attempt`, `state` and `ended` are said by the writer itself: an attempt begins, its state changes, it has ended.
KINDS: tuple[str, ...] = (*TELEMETRY_KINDS, "attempt", "state", "ended")


class AttemptInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at the run. `outcome` and what follows it are None or empty until the attempt has ended."""

    attempt: int
    started: float
    first_seq: int
    last_seq: int
    resumed_from: str | None
    resumed_step: int | None
    state: str
    state_time: float
    detail: str
    last_step: int | None
    ended: float | None
    outcome: str | None
    exit_code: int | None
    signal: str | None
    reason: str
    message: str


class SeriesInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. Superseded points are not counted; a metric of which nothing is left does not appear."""

    name: str
    points: int
    first_step: int
    last_step: int
    last_value: Number


class PlotPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A run of neighbouring values of one metric.

    `count` says how many values min, max and mean stand for; NaNs are not among them but counted in `nan`. Where there
    is nothing but NaNs, min, max and mean are None. `last` is the value that was said last, be it a NaN.
    """

    step_min: int
    step_max: int
    min: Number | None
    max: Number | None
    mean: Number | None
    count: int
    nan: int
    last: Number


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the newest attempt is.

    `last_heard` is when the worker last said anything at all, `last_heartbeat` when it last sent a heartbeat (both by
    the shepherd's clock); `rate` is steps per second over the last half minute or so of telemetry.
    """

    step: int | None
    total: int | None
    last_heard: float | None
    last_heartbeat: float | None
    rate: float | None
