"""Curriculum training by Syllabus: environments are swapped by schedule while the training loop runs on, unaware.

All environments of a script live in its own process, so Syllabus's curriculum is asked directly, without its queues,
threads and signal handlers: which episode gets which environment is the same in every run with the same seed.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import gymnasium

from cleanrl_worker.schedule import BABYAI_DOORKEY_CURRICULUM, BABYAI_GOTO_CURRICULUM, PRESETS, CurriculumStage

# Syllabus imports ray for a feature that is not used here, at every import.
if "ray" not in sys.modules:
    _ray = ModuleType("ray")
    _ray.remote = lambda item: item  # type: ignore[attr-defined]
    sys.modules["ray"] = _ray

from syllabus.core import GymnasiumEvaluationWrapper, ReinitTaskWrapper
from syllabus.curricula import SequentialCurriculum
from syllabus.task_space import DiscreteTaskSpace

__all__ = [
    "BABYAI_DOORKEY_CURRICULUM",
    "BABYAI_GOTO_CURRICULUM",
    "PRESETS",
    "BabyAITaskWrapper",
    "Curriculum",
    "CurriculumEnvironment",
]

# Shared memory that Syllabus makes when it is imported, for a class that is not used here.
GymnasiumEvaluationWrapper.env_count.shm.close()
GymnasiumEvaluationWrapper.env_count.shm.unlink()

# How many episodes of a stage a condition on their mean return looks back on, and how many it takes to have one.
RECENT_EPISODES, ENOUGH_EPISODES = 100, 20

# What a sequential curriculum counts.
COUNTERS = ("_curriculum_index", "n_steps", "total_steps", "n_episodes", "total_episodes", "n_tasks", "total_tasks")


class StageSequence(SequentialCurriculum):  # type: ignore[misc]
    """One lucky episode is no mean return."""

    def _get_episode_return(self) -> float:
        enough = len(self.episode_returns) >= ENOUGH_EPISODES
        return float(super()._get_episode_return()) if enough else -math.inf


class Curriculum:
    """A schedule under way. Every episode of every environment is counted here."""

    def __init__(self, stages: Sequence[CurriculumStage], on_stage: Callable[[int, CurriculumStage], None]) -> None:
        self.stages = tuple(stages)
        ids = list(dict.fromkeys(stage.env_id for stage in stages))
        self._space = DiscreteTaskSpace(len(ids), ids)
        conditions = [stage.until for stage in self.stages[:-1]]
        env_ids = [stage.env_id for stage in self.stages]
        self._sequence = StageSequence(env_ids, conditions, self._space, return_buffer_size=RECENT_EPISODES)
        self._on_stage = on_stage
        self._told = -1

    @property
    def stage(self) -> int:
        return int(self._sequence._curriculum_index)

    def next_task(self) -> str:
        """The environment for an episode that begins."""
        # Syllabus prints at every sample.
        with contextlib.redirect_stdout(io.StringIO()):
            (task,) = self._sequence.sample(1)
        if self.stage != self._told:
            self._told = self.stage
            self._on_stage(self.stage, self.stages[self.stage])
        return str(self._space.decode(task))

    def episode_ended(self, task: str, episode_return: float, length: int) -> None:
        if task != self.stages[self.stage].env_id:
            # Another environment was still in the stage before: what it got there says nothing about this one.
            return
        self._sequence.update_on_episode(episode_return, length, self._space.encode(task), 1.0)

    def state(self) -> dict[str, Any]:
        counters = {name: getattr(self._sequence, name) for name in COUNTERS}
        return {**counters, "episode_returns": list(self._sequence.episode_returns)}

    def restore(self, state: dict[str, Any]) -> None:
        for name in COUNTERS:
            setattr(self._sequence, name, state[name])
        self._sequence.episode_returns = deque(state["episode_returns"], self._sequence.episode_returns.maxlen)


class BabyAITaskWrapper(ReinitTaskWrapper):  # type: ignore[misc]
    """One environment for each task, made at its first use and kept. A seed is a seed here, never a task."""

    def reset(self, new_task: str | None = None, **kwargs: Any) -> Any:
        if new_task is not None:
            self.change_task(new_task)
        observation, info = self.env.reset(**kwargs)
        return observation, {**info, "task": self.task}

    def step(self, action: Any) -> Any:
        return self.env.step(action)

    def close(self) -> None:
        for env in self.task_envs.values():
            env.close()


class CurriculumEnvironment(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Gets its environment from the curriculum at every reset, and tells it how the episode went."""

    def __init__(self, curriculum: Curriculum, make: Callable[[str], Any]) -> None:
        super().__init__(BabyAITaskWrapper(make(curriculum.stages[0].env_id), make))
        self._curriculum = curriculum
        self._return, self._length = 0.0, 0

    def reset(self, **kwargs: Any) -> Any:
        self._return, self._length = 0.0, 0
        return self.env.reset(new_task=self._curriculum.next_task(), **kwargs)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self._return += float(result[1])
        self._length += 1
        if result[2] or result[3]:
            self._curriculum.episode_ended(self.env.task, self._return, self._length)
        return result
