"""What a script says, as the run's telemetry: its TensorBoard scalars, and every episode of every environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from cleanrl_worker.watching import Array, VectorWatch
from mosaic.fastlane import Settings
from mosaic.worker.telemetry import TelemetryEmitter


class ScriptTelemetry:
    """Gathers the scalars of one step into one metric. Steps never run backwards."""

    def __init__(self, emitter: TelemetryEmitter) -> None:
        self._emitter = emitter
        self._step = 0
        self._values: dict[str, float] = {}
        # Who else hears of the scalars of a step.
        self.listener: Callable[[int, dict[str, float]], None] | None = None
        self.episodes = 0

    def scalar(self, name: str, value: Any, step: int) -> None:
        if step > self._step:
            self.flush()
            self._step = step
        # Tensors and arrays of one element come too.
        self._values[name] = value.item() if hasattr(value, "item") else float(value)

    def episode(self, step: int, env: int, episode_return: float, length: int) -> None:
        self.flush()
        self._step = max(step, self._step)
        self._emitter.episode(self._step, self.episodes, episode_return, length, env=env)
        self.episodes += 1

    def flush(self) -> None:
        if self._values:
            self._emitter.metric(self._step, self._values)
            if self.listener is not None:
                self.listener(self._step, self._values)
            self._values = {}

    def go_on_from(self, step: int) -> None:
        """A resumed run starts counting here."""
        self._step = step


class EpisodeWatch(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Innermost around an environment: counts true rewards, and gives the run its chance to pause between two steps."""

    def __init__(self, env: Any, session: Any, index: int) -> None:
        super().__init__(env)
        self._session = session
        self._control = session.control
        self._index = index
        self.episode_return = 0.0
        self.episode_length = 0

    def reset(self, **kwargs: Any) -> Any:
        self.episode_return, self.episode_length = 0.0, 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        if self._control.pending:
            self._session.attend_in_step()
        result = self.env.step(action)
        self.episode_return += float(result[1])
        self.episode_length += 1
        if result[2] or result[3]:
            self._session.episode_ended(self._index, self.episode_return, self.episode_length)
            self.episode_return, self.episode_length = 0.0, 0
        return result


class VectorEpisodes(VectorWatch):
    """The same for environments that come as a whole vector."""

    def __init__(self, session: Any, count: int, fastlane: Settings, pictures: Callable[[], Any] | None) -> None:
        super().__init__(count, fastlane, pictures)
        self._session = session
        self._returns = np.zeros(count)
        self._lengths = np.zeros(count, dtype=np.int64)
        self._told_step: Any = None
        self._steps_since = 0

    def attend(self) -> None:
        if self._session.control.pending:
            self._session.attend_in_step()

    def began(self) -> None:
        super().began()
        self._returns[:], self._lengths[:] = 0.0, 0

    def tally(self, rewards: Array, over: Array, lengths: Array | None) -> None:
        self._returns += rewards
        self._lengths += 1
        step = self._session.script.get("global_step")
        # A jitted loop tells its step only at the end of a round: what it has done since is counted here.
        if step is self._told_step:
            self._steps_since += self.count
        else:
            self._told_step, self._steps_since = step, 0
        if not over.any():
            return
        lengths = self._lengths if lengths is None else lengths
        for index in np.flatnonzero(over):
            # Without a step, training has not begun: RND plays at random first.
            if step is not None:
                where = int(step) + self._steps_since
                self._session.episode_ended(int(index), float(self._returns[index]), int(lengths[index]), where)
            self._returns[index], self._lengths[index] = 0.0, 0
