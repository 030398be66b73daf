"""MOSAIC from Python: `from mosaic import Client`.

client = Client()
run = client.train("tabular", algorithm="q_learning", total_timesteps=20_000)
run.wait().metrics("recent_return")
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mosaic.client.errors import (
    BadConfig,
    DaemonError,
    DaemonStartFailed,
    MosaicError,
    NoDaemon,
    NoSuchRun,
    NoSuchWorker,
    NotAllowed,
    NotPossible,
    RunDidNotSucceed,
    WaitTimeout,
)
from mosaic.client.groups import Group, submit_seeds
from mosaic.client.runs import ENDED, Run, Series
from mosaic.client.transport import DaemonInfo, Transport, read_daemon_info
from mosaic.paths import Home

__all__ = [
    "ENDED",
    "BadConfig",
    "Client",
    "DaemonError",
    "DaemonInfo",
    "DaemonStartFailed",
    "Group",
    "MosaicError",
    "NoDaemon",
    "NoSuchRun",
    "NoSuchWorker",
    "NotAllowed",
    "NotPossible",
    "Run",
    "RunDidNotSucceed",
    "Series",
    "WaitTimeout",
    "read_daemon_info",
]


class Client:
    """Talks to the daemon of a home folder (`var/` of the checkout, or what MOSAIC_HOME says).

    Making a client needs no daemon; using it does, except `start_daemon()`.
    """

    def __init__(self, home: str | os.PathLike[str] | Home | None = None, *, timeout: float = 30.0) -> None:
        if home is None:
            self.home = Home.from_environment()
        else:
            self.home = home if isinstance(home, Home) else Home(Path(home).expanduser().resolve())
        self.transport = Transport(self.home, timeout)

    def __repr__(self) -> str:
        info = read_daemon_info(self.home)
        where = f"daemon at {info.url}" if info and self.transport.answers() else "no daemon running"
        return f"<Client of {self.home.root}, {where}>"

    # The daemon itself

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.transport.request("GET", "/status")
        return answer

    def start_daemon(self) -> Client:
        """Start the daemon unless one of this version runs already."""
        from mosaic.client.lifecycle import start_daemon

        start_daemon(self)
        return self

    def stop_daemon(self) -> None:
        """Stop the daemon; runs go on without it."""
        from mosaic.client.lifecycle import stop_daemon

        stop_daemon(self)

    def login_url(self) -> str:
        """An address that logs a browser in, good for one use."""
        return str(self.transport.request("POST", "/login-codes")["url"])

    def doctor(self, *, mend: bool = False) -> dict[str, Any]:
        """What is wrong in the home folder; with `mend`, what was put right."""
        answer: dict[str, Any] = (
            self.transport.request("POST", "/doctor/mend", timeout=120.0)
            if mend
            else self.transport.request("GET", "/doctor", timeout=120.0)
        )
        return answer

    # Runs

    def submit(
        self,
        worker: str,
        config: Mapping[str, Any],
        *,
        name: str | None = None,
        tags: Sequence[str] = (),
        priority: int = 0,
        cpus: int | None = None,
        memory_mb: int | None = None,
        gpus: int | None = None,
        retry: str | None = None,
        clips_every: int | None = None,
    ) -> Run:
        """Queue a run; BadConfig tells every field that is wrong. `retry`: "none", "restart:N" or "resume:N"."""
        resources = {"cpus": cpus, "memory_mb": memory_mb, "gpus": gpus}
        spec: dict[str, Any] = {"worker": worker, "config": dict(config), "tags": list(tags), "priority": priority}
        if name:
            spec["name"] = name
        if given := {key: value for key, value in resources.items() if value is not None}:
            spec["resources"] = given
        if retry is not None:
            spec["retry"] = parse_retry(retry)
        if clips_every is not None:
            spec["clips"] = {"every_episodes": clips_every}
        return self.submit_spec(spec)

    def submit_spec(self, spec: Mapping[str, Any]) -> Run:
        """Queue a run from a complete JobSpec, as POST /runs takes it."""
        return Run(self.transport, self.transport.request("POST", "/runs", body=dict(spec)))

    def train(self, worker: str, *, name: str | None = None, tags: Sequence[str] = (), **config: Any) -> Run:
        """Queue a training run with the config as keywords: `train("tabular", algorithm="sarsa", seed=3)`."""
        return self.submit(worker, config, name=name, tags=tags)

    def runs(
        self,
        *,
        state: str | None = None,
        worker: str | None = None,
        tag: str | None = None,
        group: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Run]:
        """Runs, newest first."""
        query = {"state": state, "worker": worker, "tag": tag, "group": group, "limit": limit, "before": before}
        answer = self.transport.request("GET", "/runs", query=query)
        return [Run(self.transport, view) for view in answer["runs"]]

    def all_runs(self, **filters: Any) -> Iterator[Run]:
        """Every run that matches, newest first, page by page."""
        before = None
        while page := self.runs(limit=500, before=before, **filters):
            yield from page
            before = page[-1].id

    def run(self, reference: str) -> Run:
        """A run by its id, a unique beginning of it, its name, or `latest`."""
        from urllib.parse import quote

        return Run(self.transport, self.transport.request("GET", f"/runs/{quote(reference, safe='')}"))

    # Groups of runs

    def benchmark(
        self,
        worker: str,
        seeds: int | Sequence[int],
        *,
        name: str | None = None,
        tags: Sequence[str] = (),
        **config: Any,
    ) -> Group:
        """Queue one config with several seeds as a group of runs; `seeds`: which, or how many (1, 2, 3, ...)."""
        return self.submit_seeds({"worker": worker, "config": config, "name": name, "tags": list(tags)}, seeds)

    def submit_seeds(self, spec: Mapping[str, Any], seeds: int | Sequence[int]) -> Group:
        """The same from a complete JobSpec; its name is the group's. Nothing is queued unless all of it can be."""
        return submit_seeds(self, spec, seeds)

    def group(self, name: str) -> Group:
        """The runs of a group."""
        found = Group(self, name).refresh()
        if not found.runs:
            raise NoSuchRun(f"no group {name!r}; `mosaic runs` lists runs with their groups")
        return found

    def find(self, reference: str) -> Run | Group:
        """The run that is meant, or where no run is, the group of that name."""
        try:
            return self.run(reference)
        except NoSuchRun:
            found = Group(self, reference).refresh()
            if not found.runs:
                raise
            return found

    # Workers

    def workers(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.transport.request("GET", "/workers")["workers"]
        return answer

    def worker(self, name: str) -> dict[str, Any]:
        """A worker's description: capabilities, config schema, algorithms with their parameters."""
        answer: dict[str, Any] = self.transport.request("GET", f"/workers/{name}", timeout=60.0)
        return answer


def parse_retry(text: str) -> dict[str, Any]:
    """`resume:3` as the API takes it."""
    policy, _, limit = text.partition(":")
    if policy not in ("none", "restart", "resume") or (limit and not limit.isdigit()):
        raise BadConfig(f"retry: got {text!r}, allowed: none, restart[:N] or resume[:N], such as resume:3")
    return {"policy": policy, "limit": int(limit)} if limit else {"policy": policy}
