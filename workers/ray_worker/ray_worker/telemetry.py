"""RLlib's results under names that stay the same from release to release."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psutil

from mosaic.worker.telling import Teller
from ray_worker.callbacks import EPISODES
from ray_worker.policies import SHARED

RESOURCES_EVERY_S = 10.0
ALL_MODULES = "__all_modules__"
LOSS = "total_loss"
TIMERS = {
    "env_runner_sampling_timer": "time/sample_s",
    "learner_update_timer": "time/learn_s",
    "synch_weights": "time/sync_s",
    "training_iteration": "time/iteration_s",
}
EPISODE_STATISTICS = ("episode_return_mean", "episode_return_min", "episode_return_max", "episode_len_mean")
# What RLlib calls the only policy of an environment with one agent.
ONLY_POLICY = "default_policy"
# Counters and connector timings that RLlib files under learners, which are not about learning.
NOT_ABOUT_LEARNING = ("num_", "weights_seq_no", "module_train_batch_size", "learner_connector")


class Reporter:
    """Turns each training result into metrics and episodes."""

    def __init__(self, telemetry: Teller, episodes_before: int = 0) -> None:
        self._telemetry = telemetry
        self._process = psutil.Process()
        self._process.cpu_percent()
        self._looked = float("-inf")
        self.episodes = episodes_before
        self.recent_return: float | None = None

    def report(self, step: int, steps_done: int, seconds: float, result: Mapping[str, Any]) -> None:
        played = result.get("env_runners", {})
        for record in _episodes(played.get(EPISODES)):
            self._tell_episode(step, record)
        values = dict(_statistics(played))
        values |= dict(learner_scalars(result.get("learners", {})))
        values |= {
            name: float(result["timers"][key]) for key, name in TIMERS.items() if key in result.get("timers", {})
        }
        values["throughput/env_steps_per_s"] = steps_done / max(seconds, 1e-9)
        values |= self._resources()
        if "episode_return_mean" in values:
            self.recent_return = values["episode_return_mean"]
        self._telemetry.metric(step, values)

    def _tell_episode(self, step: int, record: Mapping[str, Any]) -> None:
        extra: dict[str, Any] = {"worker": record["worker"]}
        if record["agents"]:
            extra |= {"agents": record["agents"], "policies": record["policies"]}
        self._telemetry.episode(step, self.episodes, record["return"], record["length"], extra=extra)
        self.episodes += 1

    def _resources(self) -> dict[str, float]:
        """Of this process and all that Ray has started for it; looking at them takes time, so not often."""
        if time.monotonic() < self._looked + RESOURCES_EVERY_S:
            return {}
        self._looked = time.monotonic()
        memory = 0
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                memory += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return {"resources/memory_mb": memory / 2**20, "resources/cpu_percent": self._process.cpu_percent()}


def learner_scalars(learners: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every number that a learner logged, as `learner/<policy>/<name>`."""
    for policy, logged in learners.items():
        # Of policies that do not learn, RLlib still counts something.
        if policy == ALL_MODULES or not isinstance(logged, Mapping) or LOSS not in logged:
            continue
        for name, value in logged.items():
            if not name.startswith(NOT_ABOUT_LEARNING) and _is_number(value):
                yield f"learner/{_policy_name(policy)}/{name}", float(value)


def _statistics(played: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name in EPISODE_STATISTICS:
        if _is_number(played.get(name)) and not math.isnan(played[name]):
            yield name, float(played[name])
    for policy, value in played.get("module_episode_return_mean", {}).items():
        if _is_number(value) and not math.isnan(value):
            yield f"policy/{_policy_name(policy)}/episode_return_mean", float(value)
    for agent, value in played.get("agent_episode_return_mean", {}).items():
        if agent != "default_agent" and _is_number(value) and not math.isnan(value):
            yield f"agent/{agent}/episode_return_mean", float(value)


def _policy_name(name: str) -> str:
    return SHARED if name == ONLY_POLICY else name


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__float__") and not hasattr(value, "__len__")


def _episodes(logged: Any) -> list[Mapping[str, Any]]:
    """RLlib gives a series of one item as the item, and one of none as NaN or not at all."""
    if isinstance(logged, Mapping):
        return [logged]
    return list(logged) if isinstance(logged, list) else []
