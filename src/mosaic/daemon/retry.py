"""Whether a run that ended is started again by itself, and from where: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic.daemon.job import Retry
from mosaic.shepherd.exit_record import ExitRecord

# Starting these again would end the same way.
HOPELESS_REASONS = frozenset({"bad_config"})


@dataclass(frozen=True)
class ResumePoint:
    """A checkpoint that verifies, relative to the run folder, and the step on its card."""

    path: str
    step: int


@dataclass(frozen=True)
class Again:
    point: ResumePoint | None
    detail: str


@dataclass(frozen=True)
class Enough:
    detail: str


def decide(retry: Retry, retries: int, record: ExitRecord, point: ResumePoint | None) -> Again | Enough:
    """After `retries` attempts that the daemon started by itself; `point` is looked at by policy `resume` only."""
    if record.outcome not in ("failed", "lost") or retry.policy == "none":
        return Enough("")
    if record.reason in HOPELESS_REASONS:
        return Enough("not tried again: the same config would fail again")
    if retries >= retry.limit:
        return Enough(f"not tried again: {retry.limit} of {retry.limit} retries are used up")
    which = f"attempt {record.attempt + 1} (retry {retries + 1} of {retry.limit})"
    how = "was lost" if record.outcome == "lost" else "failed"
    why = f"because attempt {record.attempt} {how}: {record.message}"
    if retry.policy == "restart":
        return Again(None, f"{which} from the beginning, {why}")
    if point is None:
        return Again(None, f"{which} from the beginning, as there is no whole checkpoint, {why}")
    return Again(point, f"{which} from the checkpoint at step {point.step}, {why}")
