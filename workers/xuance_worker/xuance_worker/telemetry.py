"""What happens in a training, told under names that stay the same whichever algorithm runs.

Every algorithm of XuanCe steps its vector environment and logs what it learned through `log_infos`: listening there
catches all, where its own callbacks leave some out.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from mosaic.worker import Run

RECENT_EPISODES = 100
# The means over all of them are clear enough in a large team.
MOST_AGENTS_TOLD = 16


class Tracker(Protocol):
    """Somebody else who keeps the metrics."""

    def add(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class Reporter:
    """Counts steps and episodes, and tells of them. A team's return is the mean over its agents, as XuanCe has it."""

    def __init__(self, run: Run, agents: tuple[str, ...], every: int, trackers: list[Tracker]) -> None:
        self._telemetry = run.telemetry
        self._agents = agents
        self._every = every
        self._trackers = trackers
        self.steps = 0
        self.episodes = 0
        self._due = every
        self._returns: deque[float] = deque(maxlen=RECENT_EPISODES)
        self._lengths: deque[int] = deque(maxlen=RECENT_EPISODES)
        self._by_agent: dict[str, deque[float]] = {agent: deque(maxlen=RECENT_EPISODES) for agent in agents}
        self._learned: dict[str, Any] = {}
        self._told_at = time.monotonic()
        self._told_steps = 0
        self.exploration: Callable[[], Mapping[str, float]] = dict

    def progress(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "returns": list(self._returns),
            "lengths": list(self._lengths),
            "by_agent": {agent: list(returns) for agent, returns in self._by_agent.items()},
        }

    def go_on_from(self, progress: Mapping[str, Any]) -> None:
        self.steps = self._told_steps = progress["steps"]
        self.episodes = progress["episodes"]
        self._due = (self.steps // self._every + 1) * self._every
        self._returns.extend(progress["returns"])
        self._lengths.extend(progress["lengths"])
        for agent, returns in progress["by_agent"].items():
            self._by_agent[agent].extend(returns)

    @property
    def recent_return(self) -> float | None:
        return sum(self._returns) / len(self._returns) if self._returns else None

    @property
    def last_return(self) -> float:
        return self._returns[-1]

    def learned(self, info: Mapping[str, Any], _step: int) -> None:
        """In the place of an agent's `log_infos`: keep what the learner says until the next report."""
        self._learned.update(info)

    def stepped(self, _observations: Any, _rewards: Any, terminated: Any, truncated: Any, infos: Any) -> None:
        """After each step of the vector environment."""
        self.steps += len(infos)
        for index, info in enumerate(infos):
            ended = terminated[index]
            if truncated[index] or (all(ended.values()) if isinstance(ended, dict) else ended):
                self._end_episode(index, info["episode_score"], info["episode_step"])
        if self.steps >= self._due:
            self._due = (self.steps // self._every + 1) * self._every
            self.report()

    def _end_episode(self, index: int, score: Any, length: int) -> None:
        extra: dict[str, Any] = {}
        if isinstance(score, dict):
            by_agent = {agent: float(value) for agent, value in score.items()}
            for agent, value in by_agent.items():
                self._by_agent[agent].append(value)
            extra["agents"] = by_agent
            total = sum(by_agent.values()) / len(by_agent)
        else:
            total = float(score)
        self._returns.append(total)
        self._lengths.append(length)
        self._telemetry.episode(self.steps, self.episodes, total, length, env=index, extra=extra)
        self.episodes += 1

    def report(self) -> None:
        values = dict(self._statistics())
        values |= learner_scalars(self._learned)
        values |= self.exploration()
        self._learned = {}
        now = time.monotonic()
        values["throughput/env_steps_per_s"] = (self.steps - self._told_steps) / max(now - self._told_at, 1e-9)
        self._told_at, self._told_steps = now, self.steps
        self._telemetry.metric(self.steps, values)
        for tracker in self._trackers:
            tracker.add(self.steps, values)

    def _statistics(self) -> Iterator[tuple[str, float]]:
        if not self._returns:
            return
        yield "episode_return_mean", sum(self._returns) / len(self._returns)
        yield "episode_return_min", min(self._returns)
        yield "episode_return_max", max(self._returns)
        yield "episode_len_mean", sum(self._lengths) / len(self._lengths)
        if 1 < len(self._agents) <= MOST_AGENTS_TOLD:
            for agent, returns in self._by_agent.items():
                yield f"agent/{agent}/episode_return_mean", sum(returns) / len(returns)

    def close(self) -> None:
        for tracker in self._trackers:
            tracker.close()


def learner_scalars(learned: Mapping[str, Any]) -> dict[str, float]:
    """Every number that a learner logged, as `learner/<name>`: `agent_0/actor-loss` is `learner/agent_0/actor_loss`."""
    scalars = {}
    for name, value in learned.items():
        if not isinstance(value, (bool, dict, str)) and hasattr(value, "__float__") and _is_of_learner(name):
            with contextlib.suppress(ValueError, TypeError):  # arrays of several numbers have __float__ too
                scalars[f"learner/{re.sub('[^a-z0-9_/]+', '_', name.lower())}"] = float(value)
    return scalars


def _is_of_learner(name: str) -> bool:
    return not name.startswith(("Train-", "Test-", "Episode-", "epsilon-greedy", "noise_scale"))


class TensorBoardTracker:
    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbTracker:
    """Weights & Biases, offline: `wandb sync` sends it whenever somebody wants that."""

    def __init__(self, folder: Path, name: str, config: dict[str, Any]) -> None:
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = wandb.init(mode="offline", dir=str(folder), project="mosaic", name=name, config=config)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()
