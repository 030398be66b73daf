"""Groups of runs: one config with several seeds, submitted, waited for, ended and summed up together."""

from __future__ import annotations

import copy
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mosaic.client.errors import BadConfig, NotPossible
from mosaic.client.runs import Run
from mosaic.worker.description import set_at

if TYPE_CHECKING:
    from mosaic.client import Client
    from mosaic.worker.estimates import Estimate

MOST_SEEDS = 100
# What an episode's return is called among the metrics, and over how many episodes at the end it is averaged.
RETURN = "episode_return"
LAST_EPISODES = 100


@dataclass
class Group:
    """The runs of a group, the oldest first, as the daemon last told of them."""

    client: Client
    name: str
    runs: list[Run] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Group {self.name}, {len(self.runs)} runs, {sum(run.ended for run in self.runs)} ended>"

    @property
    def ended(self) -> bool:
        return all(run.ended for run in self.runs)

    @property
    def succeeded(self) -> bool:
        return all(run.state == "SUCCEEDED" for run in self.runs)

    def refresh(self) -> Group:
        self.runs = list(self.client.all_runs(group=self.name))[::-1]
        return self

    def wait(self, timeout: float | None = None, *, check: bool = False) -> Group:
        """Block until all have ended; with `check`, raise RunDidNotSucceed for the first that did not end well."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for run in self.runs:
            run.wait(None if deadline is None else max(0.0, deadline - time.monotonic()), check=check)
        return self

    def cancel(self) -> Group:
        """End those that have not ended."""
        for run in self.refresh().runs:
            if not run.ended:
                run.cancel()
        return self

    def results(self) -> dict[str, Estimate]:
        """What came of it: the mean over the runs, with its 95% interval, of each metric's last value.

        First the return of an episode: of each run the mean of its last 100.
        """
        from mosaic.worker.estimates import mean_of_few

        found: dict[str, list[float]] = defaultdict(list)
        for run in self.runs:
            for name, value in results_of(run).items():
                found[name].append(value)
        return {name: mean_of_few(values) for name, values in found.items()}


def results_of(run: Run) -> dict[str, float]:
    """The mean return of a run's last episodes, and the last value of each of its metrics."""
    from mosaic.store import RunReader, StoreMissing

    try:
        with RunReader(run.folder / "run.sqlite") as reader:
            returns = [float(row["episode_return"]) for row in reader.episodes(limit=LAST_EPISODES)]
            last = {info.name: float(info.last_value) for info in reader.series() if info.last_value is not None}
    except StoreMissing:
        return {}  # it has not started yet
    return ({RETURN: sum(returns) / len(returns)} if returns else {}) | last


def submit_seeds(client: Client, spec: Mapping[str, Any], seeds: int | Sequence[int]) -> Group:
    worker, numbers = str(spec["worker"]), seed_numbers(seeds)
    path = client.worker(worker)["fields"]["seed"]
    if path is None:
        raise BadConfig(f"worker {worker} has no seed in its config, so there is nothing to vary in a group")
    name = spec.get("name") or f"{worker}-{secrets.token_hex(3)}"
    specs = [_with_seed(spec, name, path, seed) for seed in numbers]
    there = {run.name for run in client.all_runs(group=name)}
    for one, seed in zip(specs, numbers, strict=True):
        if one["name"] in there:
            raise NotPossible(f"group {name!r} has a run with seed {seed} already: choose other seeds or another name")
        client.transport.request("POST", f"/workers/{worker}/check", body=one["config"], timeout=60.0)
    return Group(client, name, [client.submit_spec(one) for one in specs])


def seed_numbers(seeds: int | Sequence[int]) -> list[int]:
    """1, 2, 3, ... for a number of seeds; a list as it is."""
    numbers = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not 1 <= len(numbers) <= MOST_SEEDS or len(set(numbers)) < len(numbers):
        raise BadConfig(f"seeds: got {seeds}, allowed: how many (1 to {MOST_SEEDS}), or different ones such as 1,2,3")
    return numbers


def _with_seed(spec: Mapping[str, Any], group: str, path: str, seed: int) -> dict[str, Any]:
    config = copy.deepcopy(dict(spec["config"]))
    set_at(config, path, seed)
    return {**spec, "name": f"{group}-s{seed}", "group": group, "config": config}
