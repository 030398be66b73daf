"""An ear for commands in the middle of an iteration: between two steps of play, between two minibatches of learning,
and while the main process waits for runners and learners.

Whoever hears a command may raise; the state is whole at each of these places.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.rllib.utils.actor_manager import FaultTolerantActorManager

# How long a command may go unheard while there is nothing to do but wait.
PIECE_S = 0.25

# Set in the run's main process; in runner processes there is nobody to ask.
_ask: Callable[[], None] | None = None


@contextmanager
def listening(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` at every such place, in this thread only."""
    global _ask
    _ask = ask
    try:
        yield
    finally:
        _ask = None


def listen() -> None:
    if _ask is not None and threading.current_thread() is threading.main_thread():
        _ask()


def listen_while_learning(algorithm: Any) -> None:
    """Listen before each minibatch, where learning happens in this process."""
    learner = algorithm.learner_group._learner
    if learner is None:
        return
    update = learner._update

    def listen_and_update(*args: Any, **kwargs: Any) -> Any:
        listen()
        return update(*args, **kwargs)

    learner._update = listen_and_update


_fetch_result = FaultTolerantActorManager._fetch_result


def _listen_and_fetch(
    manager: FaultTolerantActorManager,
    *,
    remote_calls: Sequence[Any],
    timeout_seconds: float | None = None,
    **others: Any,
) -> Any:
    """RLlib waits in one piece, up to a minute; here it waits in many."""
    if _ask is not None and remote_calls:
        deadline = float("inf") if timeout_seconds is None else time.monotonic() + timeout_seconds
        left = list(remote_calls)
        while left and time.monotonic() < deadline:
            listen()
            piece = min(PIECE_S, max(0.0, deadline - time.monotonic()))
            _, left = ray.wait(left, num_returns=len(left), timeout=piece, fetch_local=False)
        # What is not there by now was waited for long enough.
        timeout_seconds = 0.0 if left else timeout_seconds
    return _fetch_result(manager, remote_calls=remote_calls, timeout_seconds=timeout_seconds, **others)


FaultTolerantActorManager._fetch_result = _listen_and_fetch
