"""What all environment hooks share: counting, timing, and when to look at the clock."""

from __future__ import annotations

import copy
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from mosaic.fastlane.grid import _GridCoordinator
from mosaic.fastlane.lane import Lane, Metrics
from mosaic.fastlane.settings import Settings
from mosaic.fastlane.writer import NAN

_LOOK_EVERY_NS = 4_000_000
_MAX_STRIDE = 256
_RATE_WINDOW_NS = 500_000_000
_SMOOTHING = 0.1


class Hook:
    """Sits in an environment's own `step`, `reset` and `close`: the instance's attributes are replaced, no layer is
    added.

    So the environment keeps its type, spaces, spec, attributes and everything else, and what a wrapper's forwarding
    costs is not paid. Subclasses give `_step`, which must do as little as possible: count down `_left` and call `_look`
    at zero. Copies and pickles of a hooked environment work and publish nothing.
    """

    def __init__(
        self, env: Any, settings: Settings, slot: int, names: Iterable[str], render: Callable[[], Any]
    ) -> None:
        self._env = weakref.ref(env)
        self._lane = Lane(settings, names)
        self._render = render
        self.slot = slot
        self._before: dict[str, Any] = {}  # what the instance itself had under these names, None for nothing
        self.on_detach: Callable[[], object] = _nothing
        self._inner_step: Callable[..., Any] = env.step
        self._inner_reset: Callable[..., Any] = env.reset
        self._inner_close: Callable[..., Any] = env.close
        self._bound_step: Callable[..., Any] = self._step
        self._blank()
        self._grid = _GridCoordinator.join(self, settings) if settings.mode == "grid" else None
        self._replace(env, "step", self._bound_step)
        self._replace(env, "reset", self._reset)
        self._replace(env, "close", self._close)

    def _blank(self) -> None:
        self._stride = self._left = 1
        self._steps_before = 0  # those before the current stride
        self._episode = 0
        self._return = 0.0
        self._done = False
        self._reward: Any = 0.0
        self._rolling = NAN
        self._rate = 0.0
        self._agent = b""
        self._started = False
        self._looked_ns = self._window_ns = time.monotonic_ns()
        self._window_steps = 0
        self._paces: deque[int] = deque(maxlen=9)
        self._step_ns = 0
        self._frame_step = 0
        self._thread = 0

    # Never look into the instance's __dict__: before Python 3.13 that alone makes every later attribute access of this
    # environment slower, which is 2% of a CartPole step.

    def _replace(self, env: Any, name: str, value: Any) -> None:
        current = getattr(env, name)
        inherited = getattr(current, "__func__", None) is getattr(type(env), name, self)
        self._before[name] = None if inherited else current
        setattr(env, name, value)

    def _restore(self, name: str, ours: Any) -> None:
        """Put back what was there, unless somebody else has replaced it since."""
        env = self._env()
        if env is None or getattr(env, name) != ours:
            return
        if self._before[name] is None:
            delattr(env, name)
        else:
            setattr(env, name, self._before[name])

    # The three replaced methods

    def _step(self, action: Any) -> Any:
        raise NotImplementedError

    def _reset(self, *args: Any, **kwargs: Any) -> Any:
        result = self._inner_reset(*args, **kwargs)
        self._begin_episode()
        return result

    def _close(self, *args: Any, **kwargs: Any) -> Any:
        self.detach()
        return self._inner_close(*args, **kwargs)

    def detach(self) -> None:
        """Give the environment its own methods back and end the stream."""
        self._restore("step", self._bound_step)
        self._restore("reset", self._reset)
        self._restore("close", self._close)
        self._lane.close()
        if self._grid is not None:
            self._grid.leave(self)
        self.on_detach()

    def _give_up(self, what: str, error: Exception) -> None:
        self._lane.turn_off(f"step() {what} ({error})")
        self.detach()

    # Bookkeeping

    @property
    def _steps(self) -> int:
        return self._steps_before + self._stride - self._left

    def _set_stride(self, stride: int) -> None:
        self._steps_before = self._steps
        self._stride = self._left = stride

    def _begin_episode(self) -> None:
        self._episode += 1
        self._return = 0.0
        self._done = False
        self._started = True
        self._thread = threading.get_ident()

    def _end_episode(self) -> None:
        """A whole episode's return is known."""
        if self._done:  # a second end without a reset between: the environment resets itself
            self._episode += 1
        self._done = True
        total = float(self._return)
        self._rolling = (
            total if self._rolling != self._rolling else self._rolling + _SMOOTHING * (total - self._rolling)
        )
        self._return = 0.0

    def _look(self) -> None:
        """Every few milliseconds: read the clock, adapt the stride, publish what is due."""
        now = time.monotonic_ns()
        self._measure(now)
        per_step = max(1, (now - self._looked_ns) // self._stride)
        self._set_stride(max(1, min(_MAX_STRIDE, _LOOK_EVERY_NS // per_step)))
        self._paces.append(per_step)
        self._step_ns = sorted(self._paces)[len(self._paces) // 2]
        self._looked_ns = now
        self._thread = threading.get_ident()
        if self._is_due(now):
            self._lane.emit(self._render, self.metrics)
            self._frame_step = self._steps
        if self._grid is not None:
            self._grid.look(self, now)

    def _measure(self, now: int) -> None:
        if now - self._window_ns >= _RATE_WINDOW_NS:
            self._rate = (self._steps - self._window_steps) * 1e9 / (now - self._window_ns)
            self._window_ns, self._window_steps = now, self._steps

    def worked_ns(self, since_step: int) -> int:
        """How long the loop has been at it since that step, pauses for other things not counted."""
        return (self._steps - since_step) * self._step_ns

    def _is_due(self, now: int) -> bool:
        return self._lane.is_due(now, self.worked_ns(self._frame_step))

    def _period_ns(self, now: int) -> int:
        period = self._lane.period_ns(now)
        return period if self._grid is None else min(period, self._grid.lane.period_ns(now))

    def pictures(self) -> list[Any]:
        """What this environment adds to the grid."""
        return [self._render()]

    def metrics(self) -> Metrics:
        return Metrics(self._episode, self._steps, float(self._reward), self._rolling, self._rate, self._agent)

    # Copies: what is copied is the environment; its copy is not watched.

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {
            "env": self._env(),
            "slot": self.slot,
            "step": self._inner_step,
            "reset": self._inner_reset,
            "close": self._inner_close,
            "before": self._before,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._env = weakref.ref(state["env"])
        self._lane = Lane(Settings(None), ())
        self._render = _nothing
        self.slot = state["slot"]
        self._before = state["before"]
        self.on_detach = _nothing
        self._inner_step, self._inner_reset, self._inner_close = state["step"], state["reset"], state["close"]
        self._bound_step = self._step
        self._grid = None
        self._blank()


def _nothing() -> None:
    return None
