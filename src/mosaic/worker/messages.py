"""The telemetry a worker writes: one JSON object a line on stdout, tagged by `type`.

These structs are the contract itself: the emitter encodes them, the shepherd decodes them, the store keeps them.
`run_started` carries the version of the whole stream. Fields left at their default are not written. Numbers that JSON
cannot say are written as the strings "nan", "inf" and "-inf".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

TELEMETRY_VERSION = 1

# A number as JSON can carry it: NaN and infinities travel as strings.
Number = float | Literal["nan", "inf", "-inf"]

# A whole number as the store can keep it: 64 bits.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


# A part of a run with telemetry of its own; also the name of its folder.
ChildName = Annotated[str, msgspec.Meta(pattern=r"^([0-9A-Za-z][0-9A-Za-z_-]{0,63})?$")]


class Message(msgspec.Struct, tag_field="type", omit_defaults=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """What every message has: when it was said, in seconds since 1970 (0: let the reader stamp it), and by which of the
    run's child runs (empty: by the run itself).

    Messages hold plain data and so no cycles: the garbage collector need not look at millions of them (`gc=False`).
    """

    time: float = 0.0
    child: ChildName = ""


class RunStarted(Message, tag="run_started"):
    run_id: str
    worker: str
    version: Whole = TELEMETRY_VERSION
    worker_version: str = ""
    pid: Whole = 0
    config: dict[str, Any] = {}
    total_steps: Whole | None = None  # how far it means to go, in the steps that it tells


class RunCompleted(Message, tag="run_completed"):
    """The worker ended well: it did all that was asked (`finished`), or was told to end early (`stopped`)."""

    step: Whole | None = None
    reason: Literal["finished", "stopped"] = "finished"
    summary: dict[str, Any] = {}


class RunFailed(Message, tag="run_failed"):
    error: str
    step: Whole | None = None
    traceback: str = ""


class ChildStarted(Message, tag="child_started"):
    """A child run begins: from the beginning, or at `from_step` with what its sibling `parent` (or itself) had learned.

    `config` is what it runs with; `changed` says what of that is not as in the parent: name -> [there, here]. Said
    again of the same child, it begins its next attempt, and what it said past `from_step` is superseded. A child ends
    with `run_completed` or `run_failed` of its own, or with its run.
    """

    parent: ChildName = ""
    from_step: Whole | None = None
    config: dict[str, Any] = {}
    changed: dict[str, Any] = {}


class Heartbeat(Message, tag="heartbeat"):
    """Sent every 30 seconds, and at once when the worker pauses or goes on."""

    step: Whole | None = None
    state: Literal["running", "paused"] = "running"


class Metric(Message, tag="metric"):
    """Named scalars at one step."""

    step: Whole
    values: dict[str, Number]


class Episode(Message, tag="episode"):
    step: Whole
    episode: Whole
    episode_return: Number
    length: Whole
    agent: str = ""
    env: Whole = 0
    extra: dict[str, Any] = {}


class Step(Message, tag="step"):
    step: Whole
    reward: Number = 0.0
    episode: Whole = 0
    agent: str = ""
    env: Whole = 0
    extra: dict[str, Any] = {}


class Checkpoint(Message, tag="checkpoint"):
    """A checkpoint is complete on disk; `path` is relative to the run folder."""

    step: Whole
    path: str


class Stage(Message, tag="stage"):
    """A stage (of a curriculum, a script, an evaluation) begins; `index` counts from 1 to `total` (0: unknown)."""

    name: str
    index: Whole = 0
    total: Whole = 0
    step: Whole | None = None


class Log(Message, tag="log"):
    message: str
    level: Literal["debug", "info", "warning", "error"] = "info"


AnyMessage = (
    RunStarted
    | RunCompleted
    | RunFailed
    | ChildStarted
    | Heartbeat
    | Metric
    | Episode
    | Step
    | Checkpoint
    | Stage
    | Log
)

KINDS: tuple[str, ...] = (
    "run_started",
    "run_completed",
    "run_failed",
    "child_started",
    "heartbeat",
    "metric",
    "episode",
    "step",
    "checkpoint",
    "stage",
    "log",
)


def to_number(value: float) -> Number:
    """A float as the wire carries it."""
    if value - value == 0.0:
        return value
    if value != value:
        return "nan"
    return "inf" if value > 0 else "-inf"


def from_number(value: Number) -> float:
    return float(value)
