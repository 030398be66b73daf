"""A handle on one run."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic.client.errors import RunDidNotSucceed, WaitTimeout
from mosaic.client.follow import Update, follow
from mosaic.client.transport import Transport

ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "LOST"})


@dataclass(frozen=True)
class Series:
    """One metric of one run, thinned out for a plot; every point stands for the steps up to it."""

    name: str
    steps: list[int]
    values: list[float]
    low: list[float]
    high: list[float]

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        if not self.steps:
            return f"Series({self.name!r}, empty)"
        return (
            f"Series({self.name!r}, {len(self.steps):,} points, steps {self.steps[0]:,} to {self.steps[-1]:,}, "
            f"last {self.values[-1]:.4g})"
        )


def _number(value: float | str | None) -> float:
    """JSON's way to say what is no number, as a float."""
    return float("nan") if value is None else float(value)


class Run:
    """One run as the daemon last told it; `refresh()` asks again, and whatever changes the run does so too."""

    def __init__(self, transport: Transport, view: dict[str, Any]) -> None:
        self.transport = transport
        self.view = view

    @property
    def id(self) -> str:
        return str(self.view["run_id"])

    @property
    def name(self) -> str:
        return str(self.view["name"])

    @property
    def group(self) -> str | None:
        """The group that it belongs to, if any: see `Client.benchmark`."""
        group: str | None = self.view["group"]
        return group

    @property
    def worker(self) -> str:
        return str(self.view["worker"])

    @property
    def state(self) -> str:
        return str(self.view["state"])

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.view["config"])

    @property
    def tags(self) -> list[str]:
        return list(self.view["tags"])

    @property
    def attempt(self) -> int:
        return int(self.view["attempt"])

    @property
    def folder(self) -> Path:
        return Path(self.view["folder"])

    @property
    def step(self) -> int | None:
        step: int | None = self.view["step"]
        return step

    @property
    def progress(self) -> float | None:
        """From 0 to 1; None where the run does not say how far it goes."""
        progress: float | None = self.view["progress"]
        return progress

    @property
    def exit(self) -> dict[str, Any] | None:
        """How the last attempt ended."""
        record: dict[str, Any] | None = self.view["exit"]
        return record

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def __repr__(self) -> str:
        parts = [f"Run {self.name} ({self.worker}) {self.state}"]
        if self.step is not None:
            total = self.view["total_steps"]
            parts.append(f"step {self.step:,}" + (f" of {total:,}" if total else ""))
        if self.ended and self.state != "SUCCEEDED" and self.exit:
            parts.append(self.exit["message"])
        return "<" + ", ".join(parts) + ">"

    def refresh(self) -> Run:
        self.view = self.transport.request("GET", f"/runs/{self.id}")
        return self

    def pause(self) -> Run:
        return self._post("pause")

    def resume(self) -> Run:
        """Let a paused run go on; start an ended one again from its newest checkpoint, as its next attempt."""
        return self._post("resume")

    def cancel(self) -> Run:
        return self._post("cancel")

    def retry(self) -> Run:
        """Start an ended run again from the beginning, as its next attempt."""
        return self._post("retry")

    def checkpoint(self) -> Run:
        """Ask the worker to write a checkpoint now."""
        return self._post("checkpoint")

    def remove(self, *, force: bool = False) -> None:
        """Delete the run and its folder; with `force` also one that has not ended (it is cancelled first)."""
        self.transport.request(
            "DELETE", f"/runs/{self.id}", query={"force": "true" if force else None}, timeout=90.0 if force else 0.0
        )

    def wait(self, timeout: float | None = None, *, check: bool = False) -> Run:
        """Block until the run has ended; with `check`, raise RunDidNotSucceed unless it ended well."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self.refresh()
        if not self.ended:
            for update in self._updates(deadline):
                if update.run:
                    self.view = update.run
            self.refresh()
        if check and self.state != "SUCCEEDED":
            raise RunDidNotSucceed(self)
        return self

    def _updates(self, deadline: float | None) -> Iterator[Update]:
        # Only the changes of state are wanted: rows of no kind, please.
        for update in follow(self.transport, self.id, kinds="run_completed", tick=None if deadline is None else 0.5):
            if deadline is not None and time.monotonic() > deadline:
                raise WaitTimeout(f"run {self.name} is still {self.refresh().state}")
            yield update

    def follow(self, since: int = 0, *, kinds: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
        """Telemetry rows after `since`, live, until the run's last; survives restarts of the daemon."""
        for update in follow(self.transport, self.id, since=since, kinds=",".join(kinds) if kinds else None):
            yield from update.rows

    def telemetry(self, since: int = 0, *, kinds: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
        """Telemetry rows after `since` that are stored by now."""
        wanted = ",".join(kinds) if kinds else None
        while True:
            answer = self.transport.request(
                "GET", f"/runs/{self.id}/telemetry", query={"since": since, "limit": 1000, "kinds": wanted}
            )
            rows: list[dict[str, Any]] = answer["rows"]
            yield from rows
            if len(rows) < 1000:
                return
            since = rows[-1]["seq"]

    def children(self) -> list[Run]:
        """Its child runs (the trials of a population), which are read like runs; a child has none."""
        if self.view.get("parent"):
            return []
        answer = self.transport.request("GET", f"/runs/{self.id}/children")
        return [Run(self.transport, view) for view in answer["runs"]]

    def series(self) -> list[dict[str, Any]]:
        """The metrics that the run has: name, number of points, first and last step, last value."""
        answer: list[dict[str, Any]] = self.transport.request("GET", f"/runs/{self.id}/series")["series"]
        return answer

    def metrics(
        self, name: str, *, max_points: int = 2000, start: int | None = None, stop: int | None = None
    ) -> Series:
        """One metric over steps, thinned to about `max_points`."""
        answer = self.transport.request(
            "GET",
            f"/runs/{self.id}/plot",
            query={"name": name, "max_points": max_points, "start": start, "stop": stop},
        )
        points = answer["points"]
        return Series(
            name,
            [point["step_max"] for point in points],
            *([_number(point[key]) for point in points] for key in ("mean", "min", "max")),
        )

    def logs(self, lines: int | None = None, *, file: str = "worker") -> str:
        """The newest part of a log (`worker`, `shepherd` or `malformed`); with `lines`, only its last lines."""
        answer = self.transport.request("GET", f"/runs/{self.id}/logs", query={"file": file, "offset": -(1 << 20)})
        text: str = answer["text"]
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:])

    def _post(self, action: str) -> Run:
        self.view = self.transport.request("POST", f"/runs/{self.id}/{action}")
        return self
