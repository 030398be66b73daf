"""Put an environment on the lane: Gymnasium, gym 0.21 to 0.26, vectorised ones, PettingZoo's AEC and parallel.

None of these libraries is imported: an environment is known by what it offers. `wrap_env` is the way in. It gives back
the very environment it was given (see `Hook`), so nothing that a script asked for changes. Frames come from the render
mode that the environment was made with; `frames_mode` says which to make it with where the script asked for none.

What an environment has and gives is other people's: whatever goes wrong with it here (a tensor that is no truth value,
a property that raises) ends the lane, not the training, so every exception is caught.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar, cast

from mosaic.fastlane.frames import pictures_in
from mosaic.fastlane.hooks import Hook, _nothing
from mosaic.fastlane.settings import Settings
from mosaic.fastlane.streams import environment_stream

_Env = TypeVar("_Env")
_log = logging.getLogger("mosaic.fastlane")

# How long the lane may be blind: a bound on the longest possible episode that may run without the hook.
_BLIND_NS = 200_000_000
_SAMPLE_EVERY_NS = 250_000_000
_STEPS_TO_FIRST_LOOK = 8


class FastLaneTelemetryWrapper(Hook):
    """The hook of a single environment with `step` giving 5 values (Gymnasium, gym 0.26) or 4 (older gym).

    A Python-level hook on every step costs about 0.1 us, which is more than 1% of a CartPole step. So where episodes
    are known to be short (a TimeLimit's bound times the measured time of a step), most of them run with the
    environment's own `step` put back, and the hook returns at a `reset`: when a frame is due, or to measure an
    episode's return, four times a second. Steps are counted exactly all the same, by the TimeLimit's own counter.
    `rolling_return` is thus smoothed over the measured episodes, each of them whole, and `last_reward` is the last
    one seen.
    """

    def __init__(
        self, env: Any, settings: Settings, slot: int, names: Iterable[str], render: Callable[[], Any]
    ) -> None:
        limit = _time_limit(env)
        super().__init__(env, settings, slot, names, render)
        self._limit: Any = limit

    def _blank(self) -> None:
        super()._blank()
        self._limit = None
        self._bare = False
        self._trusted = False  # the TimeLimit's counter has agreed with our own
        self._episode_steps = 0
        self._check_ns = self._sample_ns = 0

    def _step(self, action: Any) -> Any:
        result = self._inner_step(action)
        try:
            self._reward = reward = result[1]
            self._return += reward
            if result[2] or result[-2]:  # of four values the last but one is `done` again
                self._end_episode()
            self._left -= 1
            if self._left <= 0:
                self._look()
        except Exception as error:
            self._give_up("gives what no gym does", error)
        return result

    def _reset(self, *args: Any, **kwargs: Any) -> Any:
        if self._bare:
            self._steps_before += self._limit._elapsed_steps or 0
        elif self._limit is not None:
            steps = self._steps - self._episode_steps
            self._trusted = steps == (self._limit._elapsed_steps or 0) and (self._trusted or steps > 0)
        result = self._inner_reset(*args, **kwargs)
        if self._bare:
            self._episode += 1
            now = time.monotonic_ns()
            if now >= self._check_ns and self._is_needed(now):
                self._come_back()
        else:
            self._begin_episode()
            self._episode_steps = self._steps
            if self._trusted:
                self._leave_if_short()
        return result

    def _is_needed(self, now: int) -> bool:
        self._measure(now)
        # Nobody may wait for a frame more than twice as long as usual: half of it is for the longest possible episode.
        blind = min(_BLIND_NS, self._period_ns(now))
        self._check_ns = min(now + blind // 8, self._sample_ns)
        return (
            now >= self._sample_ns
            or self._is_due(now)
            or (self._grid is not None and self._grid.is_due(self, now))
            or self._limit._max_episode_steps * self._step_ns > blind
        )

    def _leave_if_short(self) -> None:
        now = time.monotonic_ns()
        if now >= self._sample_ns:  # the episode that just ended was measured whole
            self._sample_ns = now + _SAMPLE_EVERY_NS
        env = self._env()
        if self._is_needed(now) or env is None or env.step != self._bound_step:
            return
        self._restore("step", self._bound_step)
        self._set_stride(1)  # should anybody hold on to our `step` from before, the first call of it is looked at
        self._bare = True

    def _look(self) -> None:
        if self._bare:  # called, though put aside: from now on it stays, and counts every step itself
            self._bare = self._trusted = False
            self._limit = None
        super()._look()

    def _come_back(self) -> None:
        env = self._env()
        if env is None or env.step != self._inner_step:
            return  # somebody has put a `step` of their own there meanwhile
        self._bare = False
        self._return, self._done = 0.0, False
        self._set_stride(_STEPS_TO_FIRST_LOOK)  # not at once: else nobody would ever see but the starts of episodes
        self._episode_steps = self._steps
        self._looked_ns = time.monotonic_ns()
        env.step = self._bound_step

    def detach(self) -> None:
        super().detach()
        self._bare = self._trusted = False


class VectorHook(Hook):
    """The hook of a vectorised environment as a whole, for those whose single environments are out of reach (envpool,
    Procgen, other processes). The numbers are those of the environment at `probe`."""

    def __init__(
        self, env: Any, settings: Settings, probe: int, names: Iterable[str], source: Callable[[], Any] | None
    ) -> None:
        super().__init__(env, settings, probe, names, self._picture_of_probe)
        self._source: Callable[[], Any] | None = source

    def _blank(self) -> None:
        super()._blank()
        self._source = None
        self._observation: Any = None

    def _step(self, action: Any) -> Any:
        result = self._inner_step(action)
        try:
            probe = self.slot
            self._observation = result[0]
            self._reward = reward = result[1][probe]
            self._return += reward
            if result[2][probe] or (len(result) > 4 and result[3][probe]):
                self._end_episode()
            self._left -= 1
            if self._left <= 0:
                self._look()
        except Exception as error:
            self._give_up("gives what no vector environment does", error)
        return result

    def pictures(self) -> list[Any]:
        rendered = self._source() if self._source is not None else None
        return list(rendered) if rendered is not None else list(pictures_in(self._observation))

    def _picture_of_probe(self) -> Any:
        pictures = self.pictures()
        return pictures[self.slot] if self.slot < len(pictures) else None


class _AgentsHook(Hook):
    """PettingZoo. The numbers are those of the first possible agent, whose episode may be over before the others'."""

    def __init__(
        self, env: Any, settings: Settings, slot: int, names: Iterable[str], render: Callable[[], Any]
    ) -> None:
        first = env.possible_agents[0]
        super().__init__(env, settings, slot, names, render)
        self._first: Any = first
        self._agent = str(first).encode()

    def _blank(self) -> None:
        super()._blank()
        self._first = None
        self._over = False

    def _is_over(self, over: bool) -> None:
        """Whether the agent's episode is over, as told after each step. Some tell it once, some until the reset."""
        if over and not self._over:
            self._end_episode()
        self._over = over


class ParallelHook(_AgentsHook):
    """PettingZoo's parallel API."""

    def _step(self, action: Any) -> Any:
        result = self._inner_step(action)
        try:
            self._reward = reward = result[1].get(self._first, 0.0)
            self._return += reward
            self._is_over(bool(result[2].get(self._first) or result[3].get(self._first)))
            self._left -= 1
            if self._left <= 0:
                self._look()
        except Exception as error:
            self._give_up("gives what no parallel environment does", error)
        return result


class AecHook(_AgentsHook):
    """PettingZoo's AEC API: one agent acts at a time."""

    def _step(self, action: Any) -> Any:
        self._inner_step(action)
        env: Any = self._env()
        try:
            self._reward = reward = env.rewards.get(self._first, 0.0)
            self._return += reward
            self._is_over(bool(env.terminations.get(self._first) or env.truncations.get(self._first)))
            self._left -= 1
            if self._left <= 0:
                self._look()
        except Exception as error:
            self._give_up("does what no AEC environment does", error)


def wrap_env(env: _Env, settings: Settings | None = None, *, slot: int | None = None) -> _Env:
    """Put one environment of any of the known kinds on the lane and give it back.

    `slot` counts the environments of this process unless given: the lowest number free. In mode `single` only the one
    at `settings.slot` is hooked at all; in `grid` those below `settings.grid_limit`. Never raises on account of the
    lane.
    """
    settings = Settings.from_environment() if settings is None else settings
    if not settings.is_on:
        return env
    give_back: Callable[[], object] = _nothing
    if slot is None:
        slot, give_back = _slots.take(env)
    names = _names(settings, slot)
    if not names:
        return env
    try:
        _kind_of(env)(env, settings, slot, names, _render_of(env)).on_detach = give_back
    except Exception as error:
        _log.warning("fastlane %s off: %s: %s", names[0], type(env).__name__, error)
        give_back()
    return env


def wrap_vector(
    env: _Env,
    settings: Settings | None = None,
    *,
    pictures: Callable[[], Any] | None = None,
) -> _Env:
    """Put a vectorised environment on the lane as a whole and give it back.

    Not needed where its single environments pass through `wrap_env`. The pictures come from `pictures()` (one for each
    environment), else from its render (`render_mode="rgb_array"`), else from image observations.
    """
    settings = Settings.from_environment() if settings is None else settings
    if not settings.is_on:
        return env
    source = pictures
    if source is None and getattr(env, "render_mode", None) == "rgb_array":
        source = env.render  # type: ignore[attr-defined]
    probe = settings.slot if settings.mode == "single" else 0
    try:
        VectorHook(env, settings, probe, (environment_stream(probe),), source)
    except Exception as error:
        _log.warning("fastlane %s off: %s: %s", environment_stream(probe), type(env).__name__, error)
    return env


def frames_mode(metadata: Any, asked: str | None) -> str | None:
    """The render mode to make an environment with: what was asked for, else "rgb_array" where its metadata offer it."""
    if asked is not None:
        return asked
    modes = (metadata or {}).get("render_modes") or (metadata or {}).get("render.modes") or ()
    return "rgb_array" if "rgb_array" in modes else None


def _kind_of(env: Any) -> type[FastLaneTelemetryWrapper | ParallelHook | AecHook]:
    if hasattr(env, "agent_iter"):
        return AecHook
    return ParallelHook if hasattr(env, "possible_agents") else FastLaneTelemetryWrapper


def _names(settings: Settings, slot: int) -> tuple[str, ...]:
    """The streams that this environment may take, in order: none if the mode leaves it out.

    In `grid`, environments of other processes (each of which counts from 0) move up to the next free number.
    """
    if settings.mode == "single":
        return (environment_stream(slot),) if slot == settings.slot else ()
    return tuple(environment_stream(index) for index in range(slot, settings.grid_limit))


def _render_of(env: Any) -> Callable[[], Any]:
    """How to get a picture out of this environment without disturbing what its owner gets."""
    mode = getattr(env, "render_mode", None)
    if mode == "rgb_array":
        return cast(Callable[[], Any], env.render)
    if mode == "rgb_array_list" and getattr(env.unwrapped, "render_mode", None) == "rgb_array":
        # The outer render() hands out the list of frames gathered so far and empties it: that is the owner's.
        return cast(Callable[[], Any], env.unwrapped.render)
    if mode is None and "mode" in inspect.signature(env.unwrapped.render).parameters:  # gym before 0.26
        return partial(env.render, mode="rgb_array")
    raise ValueError(f"render_mode: got {mode!r}, allowed: 'rgb_array'; it was made without pictures")


def _time_limit(env: Any) -> Any:
    """The TimeLimit wrapper in this environment, if it has one that counts."""
    while env is not None:
        if hasattr(env, "_elapsed_steps") and isinstance(getattr(env, "_max_episode_steps", None), int):
            return env
        env = getattr(env, "env", None)
    return None


class _Slots:
    """Numbers the environments of this process: each gets the lowest number free, until it is closed or collected."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._lock = threading.Lock()

    def take(self, env: Any) -> tuple[int, Callable[[], object]]:
        """A number, and how to give it back early."""
        with self._lock:
            slot = next(number for number in itertools.count() if number not in self._taken)
            self._taken.add(slot)
        return slot, weakref.finalize(env, self._taken.discard, slot)


_slots = _Slots()
